"""Metadata URLs: the hosts and chroot of each, chroots that are created, and refusals that name the setting."""

import asyncio

import pytest

from engine.base.settings import SettingsError
from engine.metadata.connect import FORM, MetadataUrl, connect
from engine.metadata.server.protocol import Children, GetChildren
from engine.metadata.store import StoreUnavailableError
from engine.metadata.update import update
from engine.net.network import LoopNetwork
from tests.support.zookeeper.metadata_rig import MetadataRig


@pytest.mark.parametrize(
    ("url", "hosts", "chroot"),
    [
        ("zk:a:1", "a:1", ""),
        ("zk:a:1,b:2/eu/west", "a:1,b:2", "/eu/west"),
        ("zk:a:1/", "a:1", ""),
        ("zk://a:1/eu", "a:1", "/eu"),
        ("zk:a", "a", ""),
        ("zk:[::1]:2181/eu", "[::1]:2181", "/eu"),
        ("etcd:http://a:1", "http://a:1", ""),
        ("etcd:http://a:1/", "http://a:1", ""),
        ("etcd:https://a:1,https://[::1]:2/eu", "https://a:1,https://[::1]:2", "/eu"),
    ],
)
def test_a_url_gives_hosts_and_chroot(url: str, hosts: str, chroot: str) -> None:
    assert MetadataUrl.parse(url) == (url.partition(":")[0], hosts, chroot)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a:1",
        "zk:",
        "zk:/eu",
        "zk:a:1,",
        "zk:a:x",
        "zk:a:0",
        "zk:a:65536",
        "zk:a:1/eu/",
        "zk:a:1/../eu",
        "zk:a:1//eu",
        "etcd:a:1",
        "etcd:http://",
        "etcd:http://a:0",
        "etcd:http://a:1,b:2",
        "etcd:http://a:1/eu,http://b:2",
        "etcd:http://user:password@a:1",
        "etcd:ftp://a:1",
        "etcd:http://a:1/../eu",
    ],
)
def test_other_urls_are_refused_in_one_line_that_names_the_setting(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        MetadataUrl.parse(url, "--metadata")
    assert str(refused.value) == f"--metadata must be {FORM}, not {url!r}"


@pytest.mark.parametrize("url", ["rocksdb:///data", "memory:local", "oxia://a"])
async def test_a_store_that_is_not_built_is_refused_by_name(url: str) -> None:
    with pytest.raises(SettingsError, match=f"metadata_url .*{url.split(':')[0]} is not built"):
        await connect(url)


async def test_a_missing_chroot_is_created_with_its_ancestors() -> None:
    rig = MetadataRig(network=LoopNetwork(), tick_time_ms=200)
    await rig.start()
    try:
        for _ in range(2):  # the second session meets the nodes of the first
            store = await connect(f"zk:127.0.0.1:{rig.server.port}/one/two/three")
            await update(store, "/a", lambda value: None, create=lambda: b"")
            await store.close()
        client = await rig.client()
        answer = await client.ask(GetChildren("/one/two/three", False, stat=False))
        assert isinstance(answer, Children)
        assert answer.names == ("a",)
        client.close()
    finally:
        await rig.stop()


async def test_a_server_that_accepts_no_session_makes_the_error_name_the_setting() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        with pytest.raises(StoreUnavailableError, match=r"no session\. See metadata_tls_enabled"):
            await connect(f"zk:127.0.0.1:{port}", connect_timeout_s=1.0)
    finally:
        server.close()
        await server.wait_closed()
