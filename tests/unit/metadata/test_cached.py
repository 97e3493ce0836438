"""A cached store against the one below it: its answers are current, and each is requested once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass

import pytest

from engine.base.names import NamespaceName
from engine.metadata.cached import (
    CachedStore,
    derived,
    derived_children,
    forget,
    fresh,
)
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import (
    BadVersionError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from engine.metadata.update import update

pytestmark = pytest.mark.virtual_time

NS = NamespaceName.parse("public/default")
TOPIC = NS.topic("t~1")
READS = ("get", "exists", "children")


@dataclass
class Bench:
    """A cached store over ``below``, another client, and in ``asked`` the calls of the cached store's session."""

    server: MemoryServer
    below: MemoryStore
    other: MemoryStore
    cached: CachedStore
    asked: Counter[tuple[str, str]]
    faults: Callable[[str, str], Fault | None]

    def reads(self) -> int:
        return sum(count for (op, _), count in self.asked.items() if op in READS)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    asked: Counter[tuple[str, str]] = Counter()

    def on_call(session: int, op: str, path: str) -> Fault | None:
        if session != bench.below.session_id:
            return None
        asked[op, path] += 1
        return bench.faults(op, path)

    server = MemoryServer(on_call=on_call)
    below, other = server.session(), server.session()
    bench = Bench(server, below, other, CachedStore(below), asked, lambda op, path: None)
    yield bench
    await bench.cached.close()
    await other.close()


async def settle() -> None:
    """Let every event that was sent arrive."""
    await asyncio.sleep(0.01)


def events_stay_away(bench: Bench) -> None:
    """Drop the watches of every read so far, as if their events were late for ever."""
    bench.below._session.read_watched.clear()


async def test_a_second_read_is_answered_from_memory(bench: Bench) -> None:
    await bench.other.create("/a/b", b"1", make_parents=True)
    for _ in range(3):
        assert (await bench.cached.get("/a/b"))[0] == b"1"
        assert (await bench.cached.exists("/a/b")) == (await bench.cached.get("/a/b"))[1]
        assert await bench.cached.children("/a") == ["b"]
    assert bench.reads() == 2


async def test_the_absence_of_a_node_is_cached(bench: Bench) -> None:
    for _ in range(3):
        assert await bench.cached.exists("/a") is None
        for read in (bench.cached.get, bench.cached.children):
            with pytest.raises(NoNodeError):
                await read("/a")
    assert bench.reads() == 3
    await bench.other.create("/a", b"1")
    await settle()
    assert await bench.cached.exists("/a") is not None
    assert (await bench.cached.get("/a"))[0] == b"1"
    assert await bench.cached.children("/a") == []


async def test_a_change_by_another_client_is_seen_after_its_event(bench: Bench) -> None:
    await bench.other.create("/a", b"0")
    for step in range(1, 4):
        assert (await bench.cached.get("/a"))[0] == b"%d" % (step - 1)
        assert len(await bench.cached.children("/a")) == step - 1
        await bench.other.put("/a", b"%d" % step)
        await bench.other.create(f"/a/{step}")
        await settle()
    await bench.other.create("/b")
    assert await bench.cached.exists("/b") is not None
    await bench.other.delete("/b")
    await settle()
    assert await bench.cached.exists("/b") is None


async def test_a_changed_node_is_not_read_or_watched_until_the_next_read(bench: Bench) -> None:
    await bench.other.create("/a", b"0")
    await bench.cached.get("/a")
    before = dict(bench.asked)
    for step in range(5):
        await bench.other.put("/a", b"%d" % step)
        await settle()
    assert dict(bench.asked) == before
    assert bench.below._read_watches == {}
    assert not bench.below._session.read_watched


async def test_a_change_during_a_read_is_not_lost(bench: Bench) -> None:
    await bench.other.create("/a", b"old")
    bench.faults = lambda op, path: Fault(reply_delay_s=1.0)
    read = asyncio.create_task(bench.cached.get("/a"))
    await settle()
    events_stay_away(bench)
    await bench.other.put("/a", b"new")
    # kazoo's threads may deliver an event before the answer that preceded it
    bench.below._changed("/a")
    assert (await read)[0] == b"old"  # the value at the time of the request
    bench.faults = lambda op, path: None
    assert (await bench.cached.get("/a"))[0] == b"new"


async def test_own_writes_are_seen_at_once_while_events_are_late(bench: Bench) -> None:
    cached = bench.cached
    assert await cached.exists("/t/a") is None
    with pytest.raises(NoNodeError):
        await cached.children("/t")
    assert await cached.children("/") == []
    events_stay_away(bench)
    await cached.create("/t/a", b"1", make_parents=True)
    assert await cached.children("/") == ["t"]
    assert await cached.children("/t") == ["a"]
    assert (await cached.get("/t/a"))[0] == b"1"
    events_stay_away(bench)
    await cached.put("/t/a", b"2")
    assert (await cached.get("/t/a"))[0] == b"2"
    events_stay_away(bench)
    await cached.delete("/t/a")
    assert await cached.exists("/t/a") is None
    assert await cached.children("/t") == []
    events_stay_away(bench)
    made = await cached.create("/t/s-", sequence=True)
    assert await cached.children("/t") == [made.removeprefix("/t/")]


@pytest.mark.parametrize("done", [True, False])
async def test_a_write_of_unknown_outcome_is_followed_by_a_read_of_the_store(
    bench: Bench, done: bool
) -> None:
    await bench.other.create("/a", b"old")
    await bench.cached.get("/a")
    connected = bench.below.connection
    bench.faults = lambda op, path: (
        Fault(lose_reply=done, lose_request=not done) if op == "put" else None
    )
    with pytest.raises(StoreUnavailableError):
        await bench.cached.put("/a", b"new")
    assert (await bench.cached.get("/a"))[0] == (b"new" if done else b"old")
    assert bench.below.connection > connected


async def test_a_cancelled_write_is_followed_by_a_read_of_the_store(bench: Bench) -> None:
    await bench.other.create("/a", b"old")
    await bench.cached.get("/a")
    bench.faults = lambda op, path: Fault(delay_s=0.5, reply_delay_s=1.0) if op == "put" else None
    write = asyncio.create_task(bench.cached.put("/a", b"new"))
    await settle()
    write.cancel()
    with suppress(asyncio.CancelledError):
        await write
    assert (await bench.cached.get("/a"))[0] == b"new"  # the read was requested after the write


async def test_concurrent_misses_share_one_read_and_survive_a_cancelled_reader(
    bench: Bench,
) -> None:
    await bench.other.create("/a", b"1")
    bench.faults = lambda op, path: Fault(delay_s=0.5)
    readers = [asyncio.create_task(bench.cached.get("/a")) for _ in range(5)]
    await settle()
    readers[0].cancel()
    answers = await asyncio.gather(*readers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert all(isinstance(answer, tuple) and answer[0] == b"1" for answer in answers[1:])
    assert bench.reads() == 1


async def test_a_watch_keeps_nothing_of_the_request_that_read(bench: Bench) -> None:
    request: ContextVar[str] = ContextVar("request")
    request.set("large")
    await bench.cached.exists("/a")
    (watch,) = bench.below._read_watches["/a"].values()
    assert request not in watch


async def test_a_failed_read_raises_for_every_reader_and_is_not_cached(bench: Bench) -> None:
    await bench.other.create("/a", b"1")
    bench.faults = lambda op, path: Fault(lose_reply=True)
    failed = await asyncio.gather(
        *(bench.cached.get("/a") for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(error, StoreUnavailableError) for error in failed)
    assert len({id(error) for error in failed}) == 3
    bench.faults = lambda op, path: None
    assert (await bench.cached.get("/a"))[0] == b"1"


async def test_nothing_is_served_while_the_session_is_suspended(bench: Bench) -> None:
    await bench.other.create("/a", b"old")
    await bench.cached.get("/a")
    bench.server.partition(bench.below.session_id)
    await bench.other.put("/a", b"new")
    while bench.cached.state is SessionState.CONNECTED:
        assert (await bench.cached.get("/a"))[0] == b"old"  # bounded by the session's proof
        await asyncio.sleep(0.1)
    with pytest.raises(StoreUnavailableError):
        await bench.cached.get("/a")
    bench.server.heal(bench.below.session_id)
    assert (await bench.cached.get("/a"))[0] == b"new"


async def test_a_reconnect_without_an_event_drops_the_whole_cache(bench: Bench) -> None:
    await bench.other.create("/a", b"old")
    await bench.cached.get("/a")
    bench.server.break_connection(bench.below.session_id)
    await bench.other.put("/a", b"new")
    while bench.below.connection == 0:
        await asyncio.sleep(0.01)
    assert (await bench.cached.get("/a"))[0] == b"new"


async def test_an_expired_session_drops_the_whole_cache(bench: Bench) -> None:
    await bench.other.create("/a", b"old")
    await bench.cached.get("/a")
    bench.server.expire(bench.below.session_id)
    await bench.other.put("/a", b"new")
    await settle()
    with pytest.raises(SessionExpiredError):
        await bench.cached.get("/a")
    while bench.cached.state is not SessionState.CONNECTED:
        await asyncio.sleep(0.01)
    assert (await bench.cached.get("/a"))[0] == b"new"


async def test_the_least_recently_read_are_evicted_and_their_watches_end(bench: Bench) -> None:
    cached = CachedStore(bench.below, entries_max=3)
    for name in "abcd":
        await bench.other.create(f"/{name}", b"1")
    for name in "abcad":
        await cached.get(f"/{name}")
    await settle()
    assert set(bench.below._session.read_watched) == {"/a", "/c", "/d"}
    before = bench.reads()
    await cached.get("/a")
    assert bench.reads() == before
    await cached.get("/b")
    assert bench.reads() == before + 1


async def test_bytes_are_bounded(bench: Bench) -> None:
    cached = CachedStore(bench.below, bytes_max=33_000)
    for number in range(10):
        await bench.other.create(f"/{number}", bytes(9_000))
        await cached.get(f"/{number}")
    assert len(cached._entries) == 3
    assert cached._bytes == sum(entry.size for entry in cached._entries.values()) <= 33_000


async def test_a_change_by_a_broker_is_seen_before_its_event(bench: Bench) -> None:
    topic = f"/managed-ledgers/{TOPIC.managed_ledger_name}"
    other = f"/managed-ledgers/{NS.topic('other').managed_ledger_name}"
    policies, listed = f"/admin/policies/{NS}", f"/managed-ledgers/{NS}/persistent"
    paths = [topic, f"{topic}-partition-0", f"{topic}/cursor", other, policies]
    paths += [f"/admin/local-policies/{NS}", f"/admin/partitioned-topics/{NS}/persistent/t%7E1"]
    paths += [
        f"/namespace/{NS}/0x00000000_0x40000000",
        f"/schemas/{NS}/t%7E1",
        "/managed-ledgers/public",
    ]
    for path in paths:
        assert await bench.cached.exists(path) is None
    with pytest.raises(NoNodeError):
        await bench.cached.children(listed)
    before = bench.reads()
    forget(bench.cached, NS, TOPIC)
    kept = [path for path in paths if path in (other, policies)]
    for path in kept:
        await bench.cached.exists(path)
    assert bench.reads() == before
    for path in paths:
        await bench.cached.exists(path)
    with pytest.raises(NoNodeError):
        await bench.cached.children(listed)
    assert bench.reads() == before + len(paths) - len(kept) + 1
    forget(bench.cached, NS)
    await bench.cached.exists(other)
    assert bench.reads() == before + len(paths) - len(kept) + 2


async def test_lists_above_a_namespace_are_read_again_only_while_they_lack_it(bench: Bench) -> None:
    """Let a broker create the nodes above a namespace's first topic, after which it changes these lists no further."""
    lists = ["/managed-ledgers", "/managed-ledgers/public"]
    topics = f"/managed-ledgers/{NS}/persistent"
    await bench.other.create("/managed-ledgers/another/namespace", make_parents=True)
    assert await bench.cached.children(lists[0]) == ["another"]
    events_stay_away(bench)
    await bench.other.create(f"{topics}/first", make_parents=True)
    forget(bench.cached, NS, NS.topic("first"))
    assert await bench.cached.children(lists[0]) == ["another", "public"]
    assert await bench.cached.children(lists[1]) == [NS.local]
    assert await bench.cached.children(topics) == ["first"]
    await bench.other.create(f"{topics}/second")
    before = bench.reads()
    forget(bench.cached, NS, NS.topic("second"))
    for path in lists:
        await bench.cached.children(path)
    assert bench.reads() == before
    assert await bench.cached.children(topics) == ["first", "second"]


async def test_a_read_under_way_when_a_broker_answered_is_not_cached(bench: Bench) -> None:
    path = f"/managed-ledgers/{TOPIC.managed_ledger_name}"
    bench.faults = lambda op, path: Fault(reply_delay_s=1.0)
    early = asyncio.create_task(bench.cached.exists(path))
    await settle()
    events_stay_away(bench)
    await bench.other.create(path, make_parents=True)
    forget(bench.cached, NS, TOPIC)
    late = asyncio.create_task(bench.cached.exists(path))
    assert await early is None
    assert await late is not None
    assert await bench.cached.exists(path) is not None


async def test_a_derived_value_is_computed_once_for_each_change(bench: Bench) -> None:
    made: list[object] = []

    def upper(value: bytes, _: str) -> bytes:
        made.append(value)
        return value.upper()

    def joined(names: object, _: str) -> str:
        made.append(names)
        return "+".join(names)  # type: ignore[arg-type]

    await bench.other.create("/a/b", b"x", make_parents=True)
    await bench.other.put("/a", b"v")
    for _ in range(3):
        assert await derived(bench.cached, "/a", upper) == b"V"
        assert await derived_children(bench.cached, "/a", joined) == "b"
    assert made == [b"v", ("b",)]
    await bench.other.create("/a/c")
    await settle()
    assert await derived_children(bench.cached, "/a", joined) == "b+c"
    with pytest.raises(NoNodeError):
        await derived(bench.cached, "/none", upper)
    assert await derived(bench.other, "/a", upper) == b"V"
    assert await derived_children(bench.other, "/a", joined) == "b+c"


async def test_a_fresh_read_goes_to_the_store_and_its_answer_is_cached(bench: Bench) -> None:
    await bench.other.create("/a", b"1")
    await bench.cached.get("/a")
    events_stay_away(bench)
    await bench.other.put("/a", b"2")
    assert (await bench.cached.get("/a"))[0] == b"1"
    assert (await fresh(bench.cached, "/a").get("/a"))[0] == b"2"
    assert (await bench.cached.get("/a"))[0] == b"2"
    assert fresh(bench.other, "/a") is bench.other


async def test_the_kinds_of_reads_agree_with_each_other(bench: Bench) -> None:
    await bench.other.create("/a", b"1")
    await bench.cached.exists("/a")
    events_stay_away(bench)
    await bench.other.put("/a", b"2")
    assert (await bench.cached.get("/a"))[0] == b"2"
    stat = await bench.cached.exists("/a")
    assert stat is not None
    assert stat.version == 1


async def test_a_lost_compare_and_set_is_followed_by_a_fresh_read(bench: Bench) -> None:
    await bench.other.create("/a", b"1")
    await bench.cached.get("/a")
    events_stay_away(bench)
    await bench.other.put("/a", b"2")
    with pytest.raises(BadVersionError):
        await bench.cached.put("/a", b"mine", 0)
    assert (await bench.cached.get("/a"))[0] == b"2"
    await bench.other.put("/a", b"3")
    assert await update(bench.cached, "/a", lambda value: value + b"+") == b"3+"


async def test_a_closed_store_keeps_nothing(bench: Bench) -> None:
    await bench.other.create("/a", b"1")
    await bench.cached.get("/a")
    await bench.cached.close()
    with pytest.raises(Exception, match="closed"):
        await bench.cached.get("/a")
    assert not bench.cached._entries
