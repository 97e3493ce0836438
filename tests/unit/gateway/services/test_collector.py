"""When the console's numbers are read anew."""

import asyncio

import pytest

from engine.admin.client import BrokerAddress
from engine.base.names import TopicName
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.tenancy import topics as metadata
from gateway.services import catalog
from gateway.services.bookies import Bookies
from gateway.services.collector import Collector, Followed, now_ms
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.health.hops import HopError, HopState, Kind
from gateway.services.index.selection import Chosen


def listed(collector: Collector) -> list[str]:
    assert collector.latest is not None
    _, rows = collector.latest.rows(Chosen(), 0, 100)
    return [row["topic"] for row in rows]


def made(engine: EngineLink) -> Collector:
    """One that has asked every part once: that this database and Redis are not there is no news to it."""
    collector = Collector(engine)
    engine.run(lambda _: collector.health.asker.first())
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


def test_what_is_shown_is_as_of_the_last_round_that_succeeded(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = made(engine)
    collector._last_seen = 1 << 40  # of a broker that was registered once: it limits nothing
    clock = [1_000]
    monkeypatch.setattr("gateway.services.collector.now_ms", lambda: clock[0])
    monkeypatch.setattr(Bookies, "refresh", lambda self, store: asyncio.sleep(0))

    def pass_a_second() -> None:
        clock[0] += 1_000
        collector.health.store.heard_ms = clock[0]  # the store answers whatever becomes of rounds

    pass_a_second()
    a_round(engine, collector)
    assert collector.known_until() == 2_000
    with monkeypatch.context() as once:
        once.setattr(collector, "_read_catalog", None)
        for heard in (3_000, 2_000, 2_000):  # one slow round is no outage
            pass_a_second()
            with pytest.raises(TypeError):
                a_round(engine, collector)
            assert collector.known_until() == heard
    pass_a_second()
    a_round(engine, collector)
    assert collector.known_until() == clock[0]


def test_a_broker_whose_answer_breaks_something_is_followed_on(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = made(engine)
    broker = Followed(BrokerAddress("b:1", "http://b:1", "pulsar://b:2"))
    asked = [0]

    async def follow(it: Engine) -> None:
        again = asyncio.Event()

        async def call_on(self: Engine, *args: object) -> None:
            asked[0] += 1
            if asked[0] == 1:
                raise AttributeError("no such thing")
            again.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Engine, "call_on", call_on)
        monkeypatch.setattr("gateway.services.collector.RETRY_S", 0.0)
        work = asyncio.create_task(collector._follow(it, broker))
        async with asyncio.timeout(60):
            await again.wait()
        work.cancel()

    engine.run(follow)
    assert "another form" in broker.error


def test_topics_come_and_go_with_the_metadata(engine: EngineLink) -> None:
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
    told: list[object] = []
    collector.watch(lambda: told.append(collector.version))
    a_round(engine, collector)
    assert told == [], "a round without news"
    collector.health.hops.failed(Kind.REDIS, slow=False)
    assert told == [collector.version]


def test_who_watches_is_told_of_each_change_until_it_watches_no_more(engine: EngineLink) -> None:
    collector = made(engine)
    told: list[object] = []
    unwatch = collector.watch(lambda: told.append(collector.version))
    create(engine, "one")
    a_round(engine, collector)
    assert told[-1:] == [collector.version]
    unwatch()
    create(engine, "two")
    a_round(engine, collector)
    assert told[-1:] != [collector.version]


def test_numbers_are_as_of_the_last_broker_when_none_is_registered_any_more(
    engine: EngineLink,
) -> None:
    collector = made(engine)
    a_round(engine, collector)
    assert collector.health.store.heard_ms > 0
    assert collector.known_until() is None, "no broker was heard: nothing is live"
    collector._last_seen = 5
    assert collector.known_until() == 5


def test_a_broker_that_comes_does_not_take_the_time_of_the_numbers_away(engine: EngineLink) -> None:
    collector = made(engine)
    a_round(engine, collector)
    followed = Followed(BrokerAddress("b:1", "", "pulsar://b:1"))
    collector._registered, collector._followed = [followed.address], {"b:1": followed}
    collector._last_seen = 5
    collector._topics.begin()
    assert collector.known_until() is None, "not every broker was heard since the start"
    for _ in collector._topics.become_complete():
        pass
    assert collector.known_until() == 5, "nobody was heard since"
    collector._last_seen = now_ms() + 60_000
    collector.health.store.heard_ms = now_ms() + 60_000
    assert collector.known_until() == followed.since, "and it has to answer soon"


def follow(collector: Collector, **state: int) -> Followed:
    followed = Followed(BrokerAddress("b:1", "", "pulsar://b:1"))
    followed.last_seen = now_ms()
    for name, value in state.items():
        setattr(followed, name, value)
    collector._judge(followed, now_ms())
    return followed


def test_a_broker_that_answers_and_is_not_registered_is_late_and_not_down(
    engine: EngineLink,
) -> None:
    collector = made(engine)
    follow(collector, missing_since=1)
    [hop] = collector.health.hops.of(Kind.BROKER)
    assert (hop.state, hop.reason) == (HopState.SLOW, "Broker b:1 answers, and is not registered")
    follow(collector, missing_since=1, failures=1)
    assert hop.state is HopState.DOWN
    follow(collector)
    assert hop.state is HopState.OK
    follow(collector, last_seen=now_ms() - 2_500)
    assert (hop.state, hop.reason) == (HopState.SLOW, "Broker b:1 has not reported for 2 s")


async def test_a_page_waits_for_a_part_that_is_late_and_not_for_one_that_is_down(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.services.collector.READ_S", 0.0)
    monkeypatch.setattr("gateway.services.collector.RETRY_S", 0.001)
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


def test_who_awaits_a_snapshot_on_another_loop_is_told_so_at_once(engine: EngineLink) -> None:
    collector = Collector(engine)
    with pytest.raises(AssertionError, match="on_loop"):
        asyncio.run(collector.snapshot())
    with pytest.raises(AssertionError, match="on_loop"):
        asyncio.run(engine.engine())
