"""Metadata servers that are behind: old reads, but never older than what a session wrote, asked for or was told."""

import pytest

from bookie.cookies import check_cookie
from engine.base.clock import LoopClock
from engine.metadata import paths
from engine.metadata.memory import MemoryStore
from engine.metadata.store import NoNodeError
from tests.sim.kit.followers import FOLLOWERS, FollowedServer
from tests.support.waiting import stays


async def stores() -> tuple[FollowedServer, MemoryStore, MemoryStore]:
    """A service, a session that stays up to date, and one whose server has fallen behind."""
    server = FollowedServer(LoopClock())
    ahead, behind = server.session(), server.session()
    await ahead.create("/a", b"old")
    server.fall_behind(behind.session_id % FOLLOWERS)
    return server, ahead, behind


async def test_who_asks_a_server_that_is_behind_reads_what_was() -> None:
    server, ahead, behind = await stores()
    await ahead.put("/a", b"new")
    await ahead.create("/b")
    assert (await behind.get("/a"))[0] == b"old"
    assert await behind.children("/") == ["a"]
    with pytest.raises(NoNodeError):
        await behind.get("/b")
    server.catch_up(behind.session_id % FOLLOWERS)
    assert (await behind.get("/a"))[0] == b"new"


async def test_exists_never_denies_what_is_there_and_reads_behind_it_are_no_older() -> None:
    _, ahead, behind = await stores()
    await ahead.create("/b", b"b")
    assert await behind.exists("/b") is not None
    assert (await behind.get("/b"))[0] == b"b"


async def test_a_session_reads_what_it_wrote_and_all_before_it() -> None:
    _, ahead, behind = await stores()
    await ahead.create("/b")
    await behind.create("/c")
    assert await behind.children("/") == ["a", "b", "c"]


async def test_a_watch_tells_of_a_change_when_it_can_be_read() -> None:
    server, ahead, behind = await stores()
    told: list[str] = []
    behind.watch("/a", told.append)
    await ahead.put("/a", b"new")
    await behind.get("/a")
    await stays(lambda: told == [], 0.01)
    server.catch_up(behind.session_id % FOLLOWERS)
    await behind.get("/a")
    assert told == ["/a"]


async def test_a_bookie_finds_its_cookie_on_a_server_that_is_behind() -> None:
    _, ahead, behind = await stores()
    await ahead.create(paths.cookie("b"), b"cookie", make_parents=True)
    assert not await check_cookie(behind, "b", b"cookie", [b"cookie"])
