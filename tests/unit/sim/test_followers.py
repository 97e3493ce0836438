"""Metadata servers that lag: reads return an earlier state, but never one older than the session wrote, read or was
notified of."""

import pytest

from bookie.cookies import check_cookie
from engine.base.clock import LoopClock
from engine.metadata import paths
from engine.metadata.memory import MemoryStore
from engine.metadata.store import NoNodeError
from tests.sim.kit.followers import FOLLOWERS, FollowedServer
from tests.support.waiting import stays


async def stores() -> tuple[FollowedServer, MemoryStore, MemoryStore]:
    """Return a service, a session that is up to date, and one whose server lags."""
    server = FollowedServer(LoopClock())
    ahead, behind = server.session(), server.session()
    await ahead.create("/a", b"old")
    server.fall_behind(behind.session_id % FOLLOWERS)
    return server, ahead, behind


async def test_a_lagging_server_returns_an_earlier_state() -> None:
    server, ahead, behind = await stores()
    await ahead.put("/a", b"new")
    await ahead.create("/b")
    assert (await behind.get("/a"))[0] == b"old"
    assert await behind.children("/") == ["a"]
    with pytest.raises(NoNodeError):
        await behind.get("/b")
    server.catch_up(behind.session_id % FOLLOWERS)
    assert (await behind.get("/a"))[0] == b"new"


async def test_exists_never_denies_a_node_and_later_reads_are_no_older() -> None:
    _, ahead, behind = await stores()
    await ahead.create("/b", b"b")
    assert await behind.exists("/b") is not None
    assert (await behind.get("/b"))[0] == b"b"


async def test_a_session_reads_its_own_writes_and_all_before_them() -> None:
    _, ahead, behind = await stores()
    await ahead.create("/b")
    await behind.create("/c")
    assert await behind.children("/") == ["a", "b", "c"]


async def test_a_watch_reports_a_change_once_it_can_be_read() -> None:
    server, ahead, behind = await stores()
    changed: list[str] = []
    behind.watch("/a", changed.append)
    await ahead.put("/a", b"new")
    await behind.get("/a")
    await stays(lambda: changed == [], 0.01)
    server.catch_up(behind.session_id % FOLLOWERS)
    await behind.get("/a")
    assert changed == ["/a"]


async def test_a_bookie_finds_its_cookie_on_a_lagging_server() -> None:
    _, ahead, behind = await stores()
    await ahead.create(paths.cookie("b"), b"cookie", make_parents=True)
    assert not await check_cookie(behind, "b", b"cookie", [b"cookie"])


async def test_the_watch_of_a_read_reports_a_change_once_it_can_be_read() -> None:
    server, ahead, behind = await stores()
    changed: list[str] = []
    await behind.get("/a", changed.append)
    await ahead.put("/a", b"new")
    await behind.get("/a")
    await stays(lambda: changed == [], 0.01)
    server.catch_up(behind.session_id % FOLLOWERS)
    await behind.get("/a")
    assert changed == ["/a"]
