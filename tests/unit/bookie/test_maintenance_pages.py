"""Pages about a bookie's upkeep: BookKeeper's shapes, changes only where they are allowed, no secret."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bookie.maintenance_pages import CONFIG_PREFIX, PREFIX, MaintenancePages
from bookie.settings import ProcessSettings
from engine.base.log import LogSettings
from engine.base.settings import HIDDEN
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.settings import MetadataSettings
from engine.net.http import Request, Response
from engine.repair.settings import RepairSettings
from tests.unit.repair.conftest import RepairedCluster

pytestmark = pytest.mark.virtual_time

DETAILS = (
    *("forceCompacting", "majorCompacting", "minorCompacting", "lastMajorCompactionTime"),
    *("lastMinorCompactionTime", "lastEntryLocationCompactionTime", "majorCompactionCounter"),
    *("minorCompactionCounter", "entryLocationCompactionCounter"),
)
"""Fields of Apache's page, version 4.17.2, in its order."""


@pytest.fixture
async def cluster() -> AsyncIterator[RepairedCluster]:
    made = RepairedCluster(minor_compaction_interval_s=30.0, gc_wait_time_s=10.0)
    await made.start("b0")
    yield made
    await made.close()


def pages_of(cluster: RepairedCluster, *, changes: bool = True) -> MaintenancePages:
    bookie = cluster.bookies["b0"]
    settings = ProcessSettings(
        bookie=bookie.settings,
        metadata=MetadataSettings(
            metadata_url="zk:host:2181", metadata_user="ada", metadata_password="pw-2"
        ),
        log=LogSettings(),
        ledger=LedgerSettings(),
        repair=RepairSettings(),
    )
    return MaintenancePages(bookie, settings, cluster.store, bookie._tasks.spawn, changes=changes)


async def ask(
    pages: MaintenancePages, method: str, page: str, body: object = None
) -> tuple[int, str]:
    prefix = CONFIG_PREFIX if page == "server_config" else PREFIX
    raw = b"" if body is None else json.dumps(body).encode()
    response = await pages.answer(Request(method, prefix + page, "", {}, raw))
    assert isinstance(response, Response)
    return response.status, response.body.decode()


async def details(pages: MaintenancePages) -> dict[str, object]:
    status, body = await ask(pages, "GET", "gc_details")
    assert status == 200
    [page] = json.loads(body)
    return dict(page)


async def test_compaction_is_suspended_and_resumed(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    before = await details(pages)
    assert tuple(before) == DETAILS
    assert (before["minorCompactionCounter"], before["minorCompacting"]) == (0, False)
    asked = await ask(pages, "PUT", "gc/suspend_compaction", {"suspendMinor": True})
    of = "GC on BookieServer: Bookie Server listening on"
    assert (asked[0], asked[1][:40]) == (200, f'"Suspend minor{of}'[:40])
    assert asked[1].endswith(' with id b0"')
    assert json.loads((await ask(pages, "GET", "gc/suspend_compaction"))[1]) == {
        "isMinorGcSuspended": "true",
        "isMajorGcSuspended": "false",
    }
    await asyncio.sleep(100)
    assert (await details(pages))["minorCompactionCounter"] == 0
    both = {"resumeMajor": True, "resumeMinor": True}
    asked = await ask(pages, "PUT", "gc/resume_compaction", both)
    assert asked[1].startswith('"Resume major')
    assert ", Resume minor" in asked[1]
    await asyncio.sleep(100)
    after = await details(pages)
    assert after["minorCompactionCounter"] != 0
    assert after["lastMinorCompactionTime"] != before["lastMinorCompactionTime"]


async def test_wrong_requests_are_refused_in_bookkeepers_words(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    for page, verb in (("gc/suspend_compaction", "suspend"), ("gc/resume_compaction", "resume")):
        assert await ask(pages, "PUT", page) == (400, "Empty request body")
        assert await ask(pages, "PUT", page, {}) == (
            400,
            f"No {verb}Major or {verb}Minor params found",
        )
        status, body = await ask(pages, "PUT", page, {f"{verb}Major": "true"})
        assert (status, f"{verb}Major must be true or false" in body) == (400, True)
    assert await ask(pages, "PUT", "entry_location_compact") == (400, "Empty request body")
    assert (await ask(pages, "PUT", "entry_location_compact", [1]))[0] == 400


async def test_the_index_is_compacted_on_request(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    status, body = await ask(pages, "GET", "entry_location_compact")
    [(path, running)] = json.loads(body).items()
    assert (status, path.endswith("/index"), running) == (200, True, False)
    unwanted = await ask(pages, "PUT", "entry_location_compact", {})
    assert unwanted == (200, "Not trigger Entry Location RocksDB compact.")
    wanted = {"entryLocationRocksDBCompact": True}
    elsewhere = {**wanted, "entryLocations": "/nowhere"}
    status, body = await ask(pages, "PUT", "entry_location_compact", elsewhere)
    assert (status, "/nowhere is invalid" in body) == (400, True)
    assert (await ask(pages, "PUT", "entry_location_compact", wanted)) == (
        200,
        '"Triggered entry Location RocksDB compact on bookie:b0"',
    )
    await asyncio.sleep(5)
    assert (await details(pages))["entryLocationCompactionCounter"] == 1
    here = {**wanted, "entryLocations": path}
    assert path in (await ask(pages, "PUT", "entry_location_compact", here))[1]


async def test_directories_are_those_of_the_cookie(cluster: RepairedCluster) -> None:
    pages = pages_of(cluster)
    assert await ask(pages, "PUT", "expand_storage") == (200, "Success expand storage")
    await cluster.store.put(paths.cookie("b0"), b"another")
    assert (await ask(pages, "PUT", "expand_storage"))[0] == 500


async def test_settings_are_shown_to_operators_without_secrets(cluster: RepairedCluster) -> None:
    status, body = await ask(pages_of(cluster), "GET", "server_config")
    shown = json.loads(body)
    assert status == 200
    assert all(isinstance(value, str) for value in shown.values())
    assert shown["autoRecoveryDaemonEnabled"] == "true"
    assert shown["bookiePort"] == str(cluster.bookies["b0"].settings.bookie_port)
    assert "pw-2" not in body
    assert "zk:host:2181" in shown.values()
    assert shown["metadata_password"] == HIDDEN
    assert (await ask(pages_of(cluster), "PUT", "server_config", {"a": "b"}))[0] == 403


@pytest.mark.parametrize(
    ("method", "page"),
    [
        ("PUT", "gc/suspend_compaction"),
        ("PUT", "gc/resume_compaction"),
        ("PUT", "entry_location_compact"),
        ("PUT", "expand_storage"),
        ("GET", "server_config"),
        ("PUT", "server_config"),
    ],
)
async def test_without_leave_nothing_is_changed_and_no_setting_shown(
    cluster: RepairedCluster, method: str, page: str
) -> None:
    pages = pages_of(cluster, changes=False)
    assert (await ask(pages, method, page, {"suspendMajor": True}))[0] == 403
    assert not cluster.bookies["b0"].serving.garbage.major.suspended
