"""The rounds in which the console's numbers are read."""

import asyncio

import pytest

from engine.admin.api.rows import ROW_COLUMNS, SubscriptionCell
from engine.auth.viewer import ALL
from engine.base.names import TopicName
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.tenancy import topics as metadata
from gateway.services import catalog
from gateway.services.bookies import Bookies
from gateway.services.collection.collector import Collector
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.feeds.row_list import RowChanges
from gateway.services.health import parts
from gateway.services.health.checks import UnwellError
from gateway.services.health.hops import HopError, Kind
from gateway.services.index.selection import Chosen

pytestmark = pytest.mark.virtual_time


def listed(collector: Collector) -> list[str]:
    assert collector.latest is not None
    _, rows = collector.latest.rows(ALL, Chosen(), 0, 100)
    return [row["topic"] for row in rows]


@pytest.fixture(autouse=True)
def without_other_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the database and Redis fail at once: a real thread or socket answers at no certain virtual time."""

    async def missing(part: object) -> None:
        raise UnwellError("is missing")

    for part in (parts.Database, parts.Redis):
        monkeypatch.setattr(part, "check", missing)


def made(engine: EngineLink) -> Collector:
    """Return a collector that has checked each part once."""
    collector = Collector(engine)
    engine.run(lambda _: collector.health.checks.first())
    return collector


def a_round(engine: EngineLink, collector: Collector) -> None:
    engine.run(collector._round)


def create(engine: EngineLink, local: str) -> None:
    name = TopicName.parse(f"persistent://public/default/{local}")
    engine.run(lambda it: metadata.create_partitioned(it.store, name, 1))


def test_a_list_of_topics_that_could_not_be_read_is_read_in_the_next_round(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = made(engine)
    a_round(engine, collector)
    assert listed(collector) == []
    create(engine, "new")

    async def silent(store: MetadataStore, namespace: str) -> dict[str, int]:
        raise StoreUnavailableError("children: no answer within 10 s")

    with monkeypatch.context() as once:
        once.setattr(catalog, "counted", silent)
        with pytest.raises(StoreUnavailableError):
            a_round(engine, collector)
    a_round(engine, collector)
    assert listed(collector) == ["new"]


def test_changes_of_subscriptions_are_no_change_of_the_rows_of_topics(engine: EngineLink) -> None:
    collector = made(engine)
    a_round(engine, collector)
    name = "persistent://public/default/t"

    def changed(backlog: int, *, topic: bool) -> tuple[bool, bool]:
        """Report a backlog; return whether everything, and whether the rows of topics changed."""
        before = collector.version, collector.version_of_topics
        if topic:
            row = [name, *(backlog for _ in ROW_COLUMNS)]
            collector.topics.apply("b", RowChanges(1, [row], []))
        cell = list(SubscriptionCell("work", backlog, 7))
        collector.findings.apply("b", RowChanges(1, [[name, cell]], []))
        return collector.version != before[0], collector.version_of_topics != before[1]

    assert changed(1, topic=True) == (True, True)
    assert changed(2, topic=False) == (True, False)
    assert changed(3, topic=True) == (True, True)


def test_after_an_unexpected_failure_topics_are_read_again(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = made(engine)
    a_round(engine, collector)

    async def broken(store: MetadataStore, scope: str) -> dict[str, int]:
        raise KeyError("partitions")

    create(engine, "new")
    with monkeypatch.context() as once:
        once.setattr(catalog, "counted", broken)
        for _ in range(2):
            with pytest.raises(KeyError):
                a_round(engine, collector)
    a_round(engine, collector)
    assert listed(collector) == ["new"]


def test_shown_numbers_are_those_of_the_last_successful_round(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = made(engine)
    # A value of a broker that was registered once: it limits nothing.
    collector._brokers._last_seen = 1 << 40
    clock = [1_000]
    monkeypatch.setattr("gateway.services.collection.collector.now_ms", lambda: clock[0])
    monkeypatch.setattr(Bookies, "refresh", lambda self, store: asyncio.sleep(0))

    def pass_a_second() -> None:
        clock[0] += 1_000
        # The store answers whether or not rounds succeed.
        collector.health.store.answered_ms = clock[0]

    pass_a_second()
    a_round(engine, collector)
    assert collector.known_until() == 2_000
    with monkeypatch.context() as once:
        once.setattr(collector._stored, "read", None)
        for known_until in (3_000, 2_000, 2_000):  # one slow round is no outage
            pass_a_second()
            with pytest.raises(TypeError):
                a_round(engine, collector)
            assert collector.known_until() == known_until
    pass_a_second()
    a_round(engine, collector)
    assert collector.known_until() == clock[0]


def test_topics_are_added_and_removed_with_the_metadata(engine: EngineLink) -> None:
    collector = made(engine)
    create(engine, "one")
    a_round(engine, collector)
    before = collector.version
    a_round(engine, collector)
    assert collector.version == before, "nothing changed"
    create(engine, "two")
    a_round(engine, collector)
    assert listed(collector) == ["one", "two"]
    assert collector.version != before
    name = TopicName.parse("persistent://public/default/one")
    engine.run(lambda it: it.store.delete(metadata.partitioned_path(name)))
    a_round(engine, collector)
    assert listed(collector) == ["one-partition-0", "two"], "what is left of it"


def test_a_part_that_does_not_answer_is_news(engine: EngineLink) -> None:
    collector = made(engine)
    a_round(engine, collector)
    versions: list[object] = []
    collector.watch(lambda: versions.append(collector.version))
    a_round(engine, collector)
    assert versions == [], "a round without news"
    collector.health.hops.failed(Kind.REDIS, slow=False)
    assert versions == [collector.version]


def test_a_watcher_is_notified_of_each_change_until_it_unwatches(engine: EngineLink) -> None:
    collector = made(engine)
    versions: list[object] = []
    unwatch = collector.watch(lambda: versions.append(collector.version))
    create(engine, "one")
    a_round(engine, collector)
    assert versions[-1:] == [collector.version]
    unwatch()
    create(engine, "two")
    a_round(engine, collector)
    assert versions[-1:] != [collector.version]


def test_numbers_stay_those_of_the_last_broker_when_none_is_registered(
    engine: EngineLink,
) -> None:
    collector = made(engine)
    a_round(engine, collector)
    assert collector.health.store.answered_ms > 0
    assert collector.known_until() is None, "no broker has reported: nothing is live"
    collector._brokers._last_seen = 5
    assert collector.known_until() == 5


async def test_a_page_waits_for_a_part_that_is_late_and_not_for_one_that_is_down(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.services.collection.collector.READ_S", 0.0)
    monkeypatch.setattr("gateway.services.collection.collector.RECHECK_S", 0.001)
    collector = Collector(engine)
    collector._started = True  # nothing is followed
    hops = collector.health.hops
    asked, may_answer = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def work(_: Engine) -> int:
        loop.call_soon_threadsafe(asked.set)
        while not may_answer.is_set():  # on the link's loop, which is another
            await asyncio.sleep(0.01)
        return 7

    hops.failed(Kind.BOOKIE, "k:1", slow=True)
    reading = asyncio.ensure_future(collector.read(work))
    async with asyncio.timeout(30):
        await asked.wait()
        may_answer.set()
        assert await reading == 7
    may_answer.clear()
    asked.clear()
    reading = asyncio.ensure_future(collector.read(work))
    async with asyncio.timeout(30):
        await asked.wait()
        hops.failed(Kind.BOOKIE, "k:1", slow=False)
        with pytest.raises(HopError):
            await reading


def test_a_snapshot_awaited_on_another_loop_fails_at_once(engine: EngineLink) -> None:
    collector = Collector(engine)
    with pytest.raises(AssertionError, match="on_loop"):
        asyncio.run(collector.snapshot())
    with pytest.raises(AssertionError, match="on_loop"):
        asyncio.run(engine.engine())
