"""Sessions in TLS with a required certificate and a digest user, on the embedded metadata server and on Apache
ZooKeeper."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.base.settings import SettingsError
from engine.metadata.connect import Access, connect
from engine.metadata.store import MetadataStore, SessionState, StoreUnavailableError
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles
from tests.support.net.certificates import Authority
from tests.support.ports import free_ports
from tests.support.zookeeper.metadata_rig import MetadataRig
from tests.support.zookeeper.process import ZooKeeperProcess, find_java, zookeeper_missing


class Secured(NamedTuple):
    """A server with a port in TLS that needs a certificate, and one in clear."""

    port: int
    tls_port: int
    authority: Authority
    files: ClientFiles

    @property
    def url(self) -> str:
        return f"zk:localhost:{self.tls_port}/app"

    async def open(self, access: Access, timeout_s: float = 20.0) -> MetadataStore:
        return await connect(
            self.url, access=access, session_timeout_s=5.0, connect_timeout_s=timeout_s
        )


@pytest.fixture(params=["embedded", "zookeeper"])
async def secured(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Secured]:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server", "localhost")
    files = ClientFiles(authority.cert, *authority.issue("client"))
    if request.param == "embedded":
        rig = MetadataRig(
            network=LoopNetwork(),
            tls_port=0,
            tls_certificate_path=cert,
            tls_key_path=key,
            tls_trust_path=authority.cert,
            tls_client_certificate_required=True,
        )
        await rig.start()
        yield Secured(rig.server.port, rig.server.tls_port, authority, files)
        await rig.stop()
        return
    if reason := zookeeper_missing():
        pytest.skip(reason)
    java = find_java()
    assert java is not None
    both = tmp_path / "both.pem"
    both.write_text(Path(key).read_text() + Path(cert).read_text())
    (tls_port,) = free_ports(1)
    server = ZooKeeperProcess(
        java,
        tmp_path,
        ["-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"],
        f"secureClientPort={tls_port}\nssl.keyStore.location={both}\nssl.keyStore.type=PEM\n"
        f"ssl.trustStore.location={authority.cert}\nssl.trustStore.type=PEM\nssl.clientAuth=need\n",
    )
    try:
        await asyncio.to_thread(server.start)
        yield Secured(server.port, tls_port, authority, files)
    finally:
        server.stop()


async def test_nodes_of_a_user_are_for_that_user_alone_over_tls(secured: Secured) -> None:
    access = Access(secured.files, "app", "right", zookeeper_tls=True, private=True)
    store = await secured.open(access)
    called = asyncio.Event()
    try:
        large = bytes(300_000)  # several records of TLS
        await store.create("/a", large)
        value, _ = await store.get("/a", lambda path: called.set())
        assert value == large
        await store.put("/a", b"2")
        async with asyncio.timeout(60):
            await called.wait()
        answers = await asyncio.gather(*(store.get("/a") for _ in range(300)))
        assert {value for value, _ in answers} == {b"2"}
    finally:
        await store.close()
    # In clear: Apache ZooKeeper takes the certificate for a user as well, who owns the nodes, too.
    clear = f"zk:127.0.0.1:{secured.port}/app"
    for other in (Access(), Access(user="app", password="wrong")):
        with pytest.raises(SettingsError, match=r"metadata_user may not use /app: .*not allowed"):
            await connect(clear, access=other)


async def test_a_session_over_tls_continues_after_its_connection(secured: Secured) -> None:
    store = await secured.open(Access(secured.files, zookeeper_tls=True))
    try:
        await store.create("/e", b"1", ephemeral=True)
        session = store.session_id
        store._client._connection._socket._sock.shutdown(2)  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            while store.state is SessionState.CONNECTED:
                await asyncio.sleep(0.01)
            assert (await store.get("/e"))[0] == b"1"
        assert store.session_id == session
    finally:
        await store.close()


async def test_a_client_without_a_certificate_is_refused(secured: Secured) -> None:
    with pytest.raises(StoreUnavailableError):
        await secured.open(Access(ClientFiles(secured.files.ca), zookeeper_tls=True), 1.0)


async def test_a_server_with_the_name_of_another_is_refused_with_the_reason(
    secured: Secured,
) -> None:
    url = f"zk:127.0.0.1:{secured.tls_port}/app"
    with pytest.raises(StoreUnavailableError, match="certificate verify failed: IP address"):
        await connect(url, access=Access(secured.files, zookeeper_tls=True), connect_timeout_s=1.0)
