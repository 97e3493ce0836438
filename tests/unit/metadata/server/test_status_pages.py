"""The pages of the metadata server: figures under ZooKeeper's names, readiness, and nothing unless a port is set."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.net.http_client import HttpClient
from tests.support.net.promtool import complaints
from tests.support.zookeeper.metadata_rig import MetadataRig, create

pytestmark = pytest.mark.virtual_time


async def page(rig: MetadataRig, path: str) -> tuple[int, str]:
    client = HttpClient(rig.network, timeout_s=5.0)
    try:
        url = f"http://127.0.0.1:{rig.server.http_port}{path}"
        answer = await client.request("GET", url)
        return answer.status, answer.body.decode()
    finally:
        client.close()


async def test_figures_are_those_of_the_tree_and_its_clients() -> None:
    rig = MetadataRig(http_port=0)
    await rig.start()
    client = await rig.client()
    await client.code(create("/a"))
    status, text = await page(rig, "/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {name: family.samples[0].value for name, family in families.items() if family.samples}
    nodes = values["znode_count"]
    assert (values["num_alive_connections"], values["global_sessions"]) == (1, 1)
    assert (values["magnetar_metadata_server_writable"], values["process_max_fds"] > 0) == (1, True)
    await client.code(create("/b"))
    text = (await page(rig, "/metrics"))[1]
    assert f"znode_count{{}} {int(nodes) + 1}\n" in text
    await rig.stop()


async def test_promtool_reads_the_page() -> None:
    rig = MetadataRig(http_port=0)
    await rig.start()
    _, text = await page(rig, "/metrics")
    await rig.stop()
    assert complaints(text) == []


async def test_the_server_is_ready_until_it_fails() -> None:
    rig = MetadataRig(http_port=0)
    await rig.start()
    assert await page(rig, "/ready") == (200, "ok\n")
    rig.server._fail(OSError("disk"))
    assert await page(rig, "/ready") == (503, "failed: disk\n")
    assert await page(rig, "/live") == (200, "ok\n")
    assert "znode_count" not in (await page(rig, "/metrics"))[1]
    await rig.stop()


async def test_no_page_is_served_unless_a_port_is_set() -> None:
    rig = MetadataRig()
    await rig.start()
    assert rig.server.http_port == 0
    await rig.stop()
