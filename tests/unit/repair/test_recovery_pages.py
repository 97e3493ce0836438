"""The pages of auto-recovery on a bookie's status port: BookKeeper's paths and texts, changes only where allowed."""

import asyncio
import json
from pathlib import Path

import pytest

from bookie.repairing import Repairing
from bookie.settings import PROGRAM
from engine.base.entropy import RandomEntropy
from engine.metadata import paths
from engine.net.http import Request, Response
from engine.repair.decommissions import request_decommission, withdraw_decommission
from engine.repair.pages.recovery_pages import PREFIX
from tests.unit.repair.conftest import RepairedCluster, Start

pytestmark = pytest.mark.virtual_time


def repairing(cluster: RepairedCluster, folder: Path, **variables: str) -> Repairing:
    environment = {"MAGNETAR_BOOKIE_DATA_DIR": "/b0", "MAGNETAR_METADATA_URL": "zk:unused:1"}
    return Repairing(
        PROGRAM.load(environment | variables, folder),
        "b0",
        store=cluster.server.session(10.0),
        network=cluster.network,
        clock=cluster.clock,
        entropy=RandomEntropy(),
    )


async def ask(pages: Repairing, method: str, page: str, body: object = None) -> tuple[int, str]:
    path, _, query = page.partition("?")
    raw = b"" if body is None else json.dumps(body).encode()
    response = await pages.pages.answer(Request(method, PREFIX + path, query, {}, raw))
    assert isinstance(response, Response)
    return response.status, response.body.decode()


async def test_pages_have_bookkeepers_texts(start_cluster: Start, tmp_path: Path) -> None:
    cluster = await start_cluster(1)
    own = repairing(cluster, tmp_path, MAGNETAR_HTTP_SERVER_CHANGES_ENABLED="true")
    own.join(cluster.bookies["b0"])
    records = own.recovery.records
    assert await ask(own, "GET", "who_is_auditor") == (404, "No auditor elected")
    assert (await ask(own, "PUT", "trigger_audit"))[0] == 404
    assert (await ask(own, "GET", "lost_bookie_recovery_delay"))[0] == 404
    none = (404, "No under replicated ledgers found")
    assert await ask(own, "GET", "list_under_replicated_ledger") == none
    await own.recovery.auditor.election.stand()
    assert await ask(own, "GET", "who_is_auditor") == (200, "Auditor: b0")
    assert await ask(own, "PUT", "lost_bookie_recovery_delay", {"delay_seconds": 7}) == (
        200,
        "Success set lostBookieRecoveryDelay to 7",
    )
    assert (await ask(own, "PUT", "lost_bookie_recovery_delay", {"delay_seconds": -7}))[0] == 400
    assert (await ask(own, "PUT", "lost_bookie_recovery_delay", {}))[0] == 400
    for raw in (b'{"delay_seconds": 1e999}', b"[" * 4000, b"\xff", b"[]"):
        request = Request("PUT", f"{PREFIX}lost_bookie_recovery_delay", "", {}, raw)
        response = await own.pages.answer(request)
        assert isinstance(response, Response)
        assert response.status == 400, raw[:30]
    assert await ask(own, "GET", "lost_bookie_recovery_delay") == (
        200,
        "lostBookieRecoveryDelay value: 7",
    )
    assert await ask(own, "PUT", "trigger_audit") == (200, "Success trigger audit.")
    assert await ask(own, "PUT", "status?enabled=false") == (200, '{"enabled":false}')
    assert (await ask(own, "PUT", "status"))[0] == 400
    await records.mark(4, ["b7"])
    await records.mark(3, ["b8"])
    assert await ask(own, "GET", "list_under_replicated_ledger") == (200, "[3,4]")
    listed = await ask(own, "GET", "list_under_replicated_ledger?printmissingreplica=true")
    assert listed == (200, '{"3":["b8"],"4":["b7"]}')
    await cluster.store.create(paths.marked_ledger(9), b"replica: }", make_parents=True)
    listed = await ask(own, "GET", "list_under_replicated_ledger?printmissingreplica=true")
    assert listed == (200, '{"3":["b8"],"4":["b7"],"9":[]}')
    listed = await ask(own, "GET", "list_under_replicated_ledger?missingreplica=b7")
    assert listed == (200, "[4]")
    assert (await ask(own, "GET", "else"))[0] == 404
    await own.stop()


async def test_changes_are_refused_by_default(start_cluster: Start, tmp_path: Path) -> None:
    cluster = await start_cluster(1)
    own = repairing(cluster, tmp_path)
    for page in (
        *("status?enabled=false", "trigger_audit", "lost_bookie_recovery_delay"),
        *("decommission", "bookie"),
    ):
        status, text = await ask(own, "PUT", page, {"bookie_src": "b1", "delay_seconds": 1})
        assert (status, "http_server_changes_enabled" in text) == (403, True)
    assert await own.recovery.records.enabled()
    await own.stop()


async def test_a_silent_worker_is_not_ready(start_cluster: Start, tmp_path: Path) -> None:
    own = repairing(await start_cluster(1), tmp_path)
    assert own.why_not_ready() is None
    own.recovery.worker.looked_at -= 1000
    assert own.why_not_ready() is None, "it may be copying"
    own.recovery.repair.counts.progressed_at -= 1000
    assert "has done nothing for 1000 s" in (own.why_not_ready() or "")
    await own.stop()


async def test_a_bookie_is_read_only_while_it_is_to_be_drained(
    start_cluster: Start, tmp_path: Path
) -> None:
    cluster = await start_cluster(1)
    own, bookie = repairing(cluster, tmp_path), cluster.bookies["b0"]
    own.follow_requests(bookie)
    await request_decommission(cluster.store, cluster.clock, "b0", "ada", drain=True)
    await asyncio.sleep(60)
    assert (bookie.read_only, bookie.mode.reason) == (True, "it is to be drained")
    assert await cluster.store.exists(paths.read_only_bookie("b0")) is not None
    await withdraw_decommission(cluster.store, "b0")
    await asyncio.sleep(1)
    assert not bookie.read_only
    await own.stop()


async def test_the_cluster_is_summed_up(start_cluster: Start, tmp_path: Path) -> None:
    cluster = await start_cluster(2)
    own = repairing(cluster, tmp_path)
    await own.recovery.records.prepare()
    await own.recovery.records.mark(7, ["b9:1"])
    await cluster.lose("b1")
    await asyncio.sleep(30)
    response = await own.answer(Request("GET", "/api/v1/bookie/cluster_info", "", {}, b""))
    assert isinstance(response, Response)
    assert json.loads(response.body) == {
        "auditorElected": False,
        "auditorId": "",
        "clusterUnderReplicated": True,
        "ledgerReplicationEnabled": True,
        "totalBookiesCount": 2,
        "writableBookiesCount": 1,
        "readonlyBookiesCount": 0,
        "unavailableBookiesCount": 1,
    }
