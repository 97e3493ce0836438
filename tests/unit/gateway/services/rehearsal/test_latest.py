"""The last messages of all partitions together, through a broker: in order, bounded, without a trace."""

from collections.abc import AsyncIterator

import pytest

from engine.admin.api.messages import LatestEntries
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.errors import NotFound, NotReady, Unsupported
from engine.base.names import TopicName
from engine.rpc.operation import A, Operation, R
from engine.tenancy import topics
from engine.wire.batches import Message, pack_entry
from gateway.services.browsing import parts
from gateway.services.engine_link import Engine
from gateway.services.rehearsal import latest
from gateway.services.rehearsal.latest import Latest
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

PLAIN = TopicName.parse("persistent://public/default/plain")
MANY = TopicName.parse("persistent://public/default/many")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await made.admin.call(CREATE_TOPIC, CreateTopic(PLAIN))
    await topics.create_partitioned(made.store, MANY, 3)
    yield made
    await made.close()


async def publish(bench: AdminBench, topic: TopicName, *times: int, size: int = 1) -> None:
    """Publish a message for each publish time."""
    sink = Sink()
    entries = [
        pack_entry([Message(b"%d" % ms * size)], producer_name="p", publish_ms=ms) for ms in times
    ]
    (await bench.loaded(topic)).log.append(run_of(*entries), sink)
    await sink.settle(len(times))


async def read(bench: AdminBench, topic: TopicName, wanted: int) -> Latest:
    return await latest.latest(bench.engine, topic, wanted)


async def test_partitions_are_read_as_one_topic(bench: AdminBench) -> None:
    await publish(bench, MANY.partition_at(0), *range(0, 200, 2))
    await publish(bench, MANY.partition_at(1), *range(1, 100, 2), *range(500, 510))
    answer = await read(bench, MANY, 40)
    expected = [*range(509, 499, -1), *range(198, 138, -2)]
    assert [message.publish_ms for message in answer.messages] == expected
    assert (answer.stopped, answer.partitions, answer.missing) == ("asked", 3, [])
    everything = await read(bench, MANY, 1000)
    assert (len(everything.messages), everything.stopped) == (160, "begin")
    for index in range(2):
        assert (await bench.loaded(MANY.partition_at(index))).subscriptions == {}


async def test_bytes_are_bounded(bench: AdminBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BYTES_MAX", 40_000)
    monkeypatch.setattr(parts, "PAGE_BYTES_MIN", 1_000)
    await publish(bench, PLAIN, *range(100_000, 100_400), size=200)
    answer = await read(bench, PLAIN, 400)
    assert answer.stopped == "bytes"
    assert 20 < len(answer.messages) < 60
    assert [message.publish_ms for message in answer.messages] == list(
        range(100_399, 100_399 - len(answer.messages), -1)
    )


class PartlySilent:
    """Brokers of which those of some partitions do not answer."""

    def __init__(self, admin: object, silent: set[int]) -> None:
        self._admin = admin
        self._silent = silent

    async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
        if isinstance(args, LatestEntries) and args.topic.partition in self._silent:
            raise NotReady("the broker is away")
        return await self._admin.call(operation, args)  # type: ignore[attr-defined,no-any-return]


async def test_a_partition_that_does_not_answer_is_named(bench: AdminBench) -> None:
    await publish(bench, MANY.partition_at(0), 1, 2, 3)
    await publish(bench, MANY.partition_at(1), 4, 5)
    partly = Engine(bench.store, PartlySilent(bench.admin, {0}))  # type: ignore[arg-type]
    answer = await latest.latest(partly, MANY, 10)
    assert ([message.publish_ms for message in answer.messages], answer.missing) == ([5, 4], [0])
    none = Engine(bench.store, PartlySilent(bench.admin, {0, 1, 2}))  # type: ignore[arg-type]
    with pytest.raises(NotReady, match="away"):
        await latest.latest(none, MANY, 10)


async def test_topics_without_stored_messages_and_missing_topics_are_refused(
    bench: AdminBench,
) -> None:
    with pytest.raises(Unsupported, match="non-persistent"):
        await read(bench, TopicName.parse("non-persistent://public/default/t"), 1)
    with pytest.raises(NotFound):
        await read(bench, TopicName.parse("persistent://public/default/none"), 1)
    assert (await read(bench, PLAIN, 5)).stopped == "begin"
