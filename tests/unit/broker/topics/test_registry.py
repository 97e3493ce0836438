"""Loading of topics: which callers may create one, and how often the metadata store is asked whether it exists."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.names import TopicName
from engine.broker.connection.lookups import LookupCommands
from engine.broker.errors import MetadataError, ServiceNotReady, TopicNotFound
from engine.broker.ports import LookupResult
from engine.broker.topics.topic import Topic
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.metadata import paths
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, Everything, commands_in, opened, round_of

pytestmark = pytest.mark.virtual_time

OTHER = TopicName.parse("persistent://public/default/other")


class Asked(Everything):
    """A namespace that counts requests; a topic that does not exist is allowed with ``create`` only."""

    asked = 0

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        self.asked += 1
        if not create:
            raise TopicNotFound(f"Topic {topic} does not exist")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        made.registry._namespaces = Asked()
        yield made


async def test_an_existing_topic_is_loaded_without_a_check_of_the_namespace(bench: Bench) -> None:
    await bench.registry.get(OTHER, create=True)
    await bench.registry.unload(OTHER)
    asked = Asked()
    bench.registry._namespaces = asked
    assert (await bench.registry.get(OTHER, create=False)).name == OTHER
    assert asked.asked == 0


async def test_the_loaded_topics_of_a_namespace_are_listed(bench: Bench) -> None:
    bench.registry._namespaces = Everything()
    elsewhere = TopicName.parse("persistent://public/other/t")
    for name in (OTHER, elsewhere):
        await bench.registry.get(name, create=True)
    listed = [topic.name for topic in bench.registry.topics(elsewhere.namespace)]
    assert listed == [elsewhere]
    await bench.registry.unload(elsewhere)
    assert bench.registry.topics(elsewhere.namespace) == []
    assert OTHER in [topic.name for topic in bench.registry.topics(OTHER.namespace)]


async def test_a_missing_topic_is_created_only_for_callers_that_may(bench: Bench) -> None:
    with pytest.raises(TopicNotFound):
        await bench.registry.get(OTHER, create=False)
    path = paths.managed_ledger(OTHER.managed_ledger_name)
    assert await bench.cluster.store.exists(path) is None
    refused, made, asked = await asyncio.gather(
        bench.registry.get(OTHER, create=False),
        bench.registry.get(OTHER, create=True),
        bench.registry.get(OTHER, create=False, asked=False),
        return_exceptions=True,
    )
    assert isinstance(refused, TopicNotFound)
    assert made is asked is bench.registry.loaded(OTHER)
    assert bench.registry.load_times.failed == 0


async def test_nothing_is_loaded_once_the_broker_shuts_down(bench: Bench) -> None:
    await bench.registry.close()
    for asked in (True, False):
        with pytest.raises(ServiceNotReady, match="shutting down"):
            await bench.registry.get(OTHER, create=True, asked=asked)


async def test_a_caller_that_arrives_as_a_load_ends_begins_another_load(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begin a load after another is done whose waiters have not run yet: waiting for that one would never end."""
    may_go_on = asyncio.Event()
    waits = asyncio.Event()

    class Slow(Asked):
        async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
            if not waits.is_set():
                waits.set()
                await may_go_on.wait()

    registry, opens = bench.registry, bench.registry._open
    registry._namespaces = Slow()
    first = asyncio.create_task(registry.get(OTHER, create=True))
    await waits.wait()  # no topic exists, and the first load asks whether it may create it

    async def nothing_there(name: TopicName, make: bool) -> Topic:
        monkeypatch.setattr(registry, "_open", opens)
        may_go_on.set()  # the first load resumes before the second learns of this
        raise ManagedLedgerNotFoundError("none")

    monkeypatch.setattr(registry, "_open", nothing_there)
    second = asyncio.create_task(registry.get(OTHER, create=True))
    async with asyncio.timeout(60):
        assert await first is await second is registry.loaded(OTHER)


async def test_topics_of_a_namespace_that_left_this_cluster_are_unloaded_and_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = bench.registry._namespaces = bench.everything
    peer = LookupResult("pulsar://eu:6650", redirect=True)

    async def at_peer(topic: TopicName) -> LookupResult:
        return peer

    async def nowhere(topic: TopicName) -> LookupResult:
        raise MetadataError("missing local cluster")

    monkeypatch.setattr(served, "peer_of", at_peer)
    await round_of(bench, "policies")
    assert bench.registry.loaded(NAME) is None
    with pytest.raises(ServiceNotReady, match="Another cluster"):
        await bench.registry.get(NAME, create=True)
    lookups = LookupCommands(
        bench.registry,
        bench.everything,
        bench.everything,
        bench.context.settings,
        bench.context.clock,
    )
    body = pb.CommandLookupTopic(topic=NAME.full, request_id=1, authoritative=False)
    (answer,) = commands_in(await lookups.lookup(body))
    answered = answer.lookupTopicResponse
    assert answered.response == pb.CommandLookupTopicResponse.Redirect
    assert answered.brokerServiceUrl == "pulsar://eu:6650"
    monkeypatch.setattr(served, "peer_of", nowhere)
    (answer,) = commands_in(await lookups.lookup(body))
    assert answer.lookupTopicResponse.message == "missing local cluster"
    with pytest.raises(MetadataError):
        await bench.registry.get(NAME, create=True)
    monkeypatch.undo()
    await bench.load()
    monkeypatch.setattr(served, "peer_of", nowhere)
    await round_of(bench, "policies")
    assert bench.registry.loaded(NAME) is None
