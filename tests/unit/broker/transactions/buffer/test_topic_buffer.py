"""A topic with transactions: what consumers receive while they are open, after their ends, and after a reload."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.messages import CompactedEntries, LatestEntries, MessageById, NextEntries
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.administration.operations.messages import MessageOperations
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import InvalidTxnStatus, NotAllowed, ServiceNotReady
from engine.broker.topics.publish import Publish
from engine.broker.topics.topic import Topic
from engine.broker.transactions.buffer.snapshots import SINGLE
from engine.broker.transactions.txn_id import TxnId
from engine.managed.settings import ManagedSettings
from engine.wire import client_commands as say
from engine.wire.client_commands import send
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Bench, commands_in, opened, until
from tests.support.raw_client import entry_of
from tests.support.transactions.bench import KeptSnapshots, end, put, start

pytestmark = pytest.mark.virtual_time

A, B, C = TxnId(0, 0), TxnId(0, 1), TxnId(3, 7)
KINDS = [SubscriptionType(kind) for kind in range(4)]


@pytest.fixture
def snapshots() -> KeptSnapshots:
    return KeptSnapshots()


@pytest.fixture(params=[1 << 20, 1], ids=["memory", "storage"])
async def bench(request: pytest.FixtureRequest, snapshots: KeptSnapshots) -> AsyncIterator[Bench]:
    settings = ManagedSettings(cache_bytes_max=request.param)
    async with opened(settings=settings, snapshots=snapshots) as made:
        yield made


class HereAlone(OwnedTopics):
    """The one topic of a bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def get(self, name: TopicName) -> Topic:
        return self._bench.topic


def entries(received: list[Position]) -> list[int]:
    return [position.entry_id for position in received]


@pytest.mark.parametrize("kind", KINDS)
async def test_x1_messages_wait_for_the_first_open_transaction(
    bench: Bench, kind: SubscriptionType
) -> None:
    _, client = await bench.join(kind)
    await put(bench)
    await put(bench, A, 2)
    await put(bench)
    await put(bench, B)
    await put(bench)
    await until(lambda: entries(client.received) == [0])
    await end(bench, B, commit=True)
    assert entries(client.received) == [0]
    await end(bench, A, commit=True)
    await until(lambda: entries(client.received) == [0, 1, 2, 3, 4, 5])
    await put(bench)
    await until(lambda: entries(client.received)[6:] == [8])


@pytest.mark.parametrize("kind", KINDS)
async def test_x1_aborted_messages_are_acknowledged_and_use_no_permit(
    bench: Bench, kind: SubscriptionType
) -> None:
    await put(bench, A, 3)
    await put(bench)
    await put(bench, B)
    await end(bench, A, commit=False)
    await end(bench, B, commit=True)
    consumer, client = await bench.join(kind, permits=2)
    await until(lambda: entries(client.received) == [3, 4])
    assert consumer.permits == 0
    bench.subscription.acknowledge(consumer, client.received)
    cursor = bench.subscription.cursor
    bench.subscription.flow(consumer, 1)
    await until(lambda: cursor.backlog_entries() == 0)
    assert cursor.mark_delete.entry_id == 6
    await put(bench)
    await until(lambda: entries(client.received) == [3, 4, 7])


async def test_x3_ends_are_repeated_without_a_second_marker(bench: Bench) -> None:
    await put(bench, A)
    await end(bench, A, commit=False)
    last = bench.topic.log.last_confirmed
    await end(bench, A, commit=False)
    await end(bench, C, commit=True)
    assert bench.topic.log.last_confirmed == last
    with pytest.raises(InvalidTxnStatus, match="is ABORTED"):
        await end(bench, A, commit=True)
    with pytest.raises(InvalidTxnStatus, match="is COMMITTED"):
        await end(bench, C, commit=False)
    assert bench.topic.transactions is not None
    assert bench.topic.transactions.counts == (0, 0, 1)


async def test_an_ended_transaction_takes_no_more_messages(bench: Bench) -> None:
    await put(bench, A)
    await end(bench, A, commit=True, mark=5)
    for txn in (A, TxnId(0, 5)):
        start(bench, txn)
        text = f"Transaction [{txn}] has been ended. Please use a new transaction to send message."
        assert bench.publisher.errors.pop()[1:] == (NotAllowed.code, text)
    bench._sent -= 2
    await put(bench, TxnId(0, 6))
    await put(bench, TxnId(1, 5))
    assert bench.topic.log.stats().entries == 4


async def test_low_water_marks_abort_transactions_whose_end_was_lost(bench: Bench) -> None:
    _, client = await bench.join(SubscriptionType.SHARED)
    await put(bench, A)
    await put(bench, B)
    await put(bench)
    await put(bench, C)
    await end(bench, C, commit=True, mark=9)
    assert client.received == []
    await put(bench, TxnId(0, 4))
    await end(bench, TxnId(0, 4), commit=True, mark=1)
    await until(lambda: entries(client.received) == [2, 3, 5])
    assert bench.topic.transactions is not None
    assert list(bench.topic.transactions.aborted) == [A, B]


async def test_x1_what_was_stored_is_restored_before_anything_is_read(
    bench: Bench, snapshots: KeptSnapshots
) -> None:
    await put(bench, A)
    await put(bench, B)
    await end(bench, A, commit=False)
    await put(bench, C)
    await bench.registry.unload(NAME)
    snapshots.fails = True
    await bench.load()
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    await put(bench)
    start(bench, B)
    with pytest.raises(ServiceNotReady, match="not restored yet"):
        await bench.topic.last_message.read()
    with pytest.raises(ServiceNotReady, match="not restored yet"):
        await end(bench, B, commit=True)
    assert (client.received, bench.publisher.receipts) == ([], 1)
    snapshots.fails = False
    await until(lambda: bench.publisher.receipts == 2)
    await end(bench, B, commit=True)
    await until(lambda: len(client.received) == 1)
    await end(bench, C, commit=True)
    await until(lambda: len(client.received) == 4)
    assert bench.topic.transactions is not None
    assert list(bench.topic.transactions.aborted) == [A]


async def test_snapshots_follow_changes_and_shorten_the_recovery(
    bench: Bench, snapshots: KeptSnapshots
) -> None:
    await put(bench, A)
    assert snapshots.writes == 1
    await end(bench, A, commit=False)
    last = bench.topic.log.last_confirmed
    await until(lambda: snapshots.writes == 2)
    ((_, value),) = snapshots.values.items()
    assert value["topicName"] == NAME.full
    assert (value["maxReadPositionLedgerId"], value["maxReadPositionEntryId"]) == last
    assert [abort["entryId"] for abort in value["aborts"]] == [1]
    await bench.registry.unload(NAME)
    await bench.load()
    assert bench.topic.transactions is not None
    await bench.topic.transactions.ready()
    assert bench.topic.transactions.aborted == {A: last}
    await put(bench, count=1000)
    await until(lambda: snapshots.writes == 3)


async def test_messages_wait_for_the_first_snapshot_in_the_order_of_their_producer(
    bench: Bench, snapshots: KeptSnapshots
) -> None:
    snapshots.fails = True
    start(bench, A)
    start(bench)
    await until(lambda: bench.publisher.dropped == [1])
    assert bench.topic.log.stats().entries == 0
    snapshots.fails = False
    await bench.registry.unload(NAME)
    await bench.load()
    start(bench, A)
    start(bench)
    await until(lambda: bench.publisher.receipts == 2)
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    assert client.received == []


async def test_a_topic_without_transactions_has_no_buffer(
    bench: Bench, snapshots: KeptSnapshots
) -> None:
    await put(bench)
    assert (bench.topic.transactions, bench.topic.stages) == (None, ())
    snapshots.values[SINGLE, "another"] = {}
    await bench.registry.unload(NAME)
    await bench.load()
    await until(lambda: bench.topic.transactions is None)
    _, client = await bench.join(SubscriptionType.SHARED)
    await until(lambda: len(client.received) == 1)
    assert bench.topic.stages == ()


async def test_a_message_names_no_transaction_that_its_send_does_not_name(bench: Bench) -> None:
    await put(bench, A)
    entry = entry_of(b"v", txnid_most_bits=0, txnid_least_bits=0)
    data = send(1, bench._sent, entry)
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, bench.producer).start()
    assert bench.publisher.errors[0][1] == NotAllowed.code
    assert bench.topic.log.stats().entries == 1


async def test_x1_a_run_of_two_producers_in_one_transaction_waits_as_one(bench: Bench) -> None:
    session, sent = bench.sessions().accept(), bytearray()
    session.send = sent.extend  # type: ignore[method-assign, assignment]
    producers = b"".join(say.producer(NAME.full, i, i) for i in (1, 2))
    session.data_received(say.connect("test") + producers)

    def count(name: str) -> int:
        return sum(command.HasField(name) for command in commands_in(bytes(sent)))

    await until(lambda: count("producer_success") == 2)
    _, client = await bench.join(SubscriptionType.EXCLUSIVE)
    named = entry_of(b"v", txnid_most_bits=A.most, txnid_least_bits=A.least)
    bare = entry_of(b"v")
    first = [say.send(i % 2 + 1, i, named if i % 3 else bare, txn=A) for i in range(6)]
    plain = say.send(1, 6, bare)
    session.data_received(b"".join(first) + plain)  # the first snapshot is stored meanwhile
    await until(lambda: count("send_receipt") == 7)
    session.data_received(b"".join(say.send(1 + i, 7, named, txn=A) for i in range(2)))
    await until(lambda: count("send_receipt") == 9)
    assert client.received == []
    session.data_received(b"".join(say.send(1, 8 + i, named, txn=B) for i in range(2)))
    refused = [command.send_error for command in commands_in(bytes(sent))][-2:]
    assert [(error.sequence_id, error.error) for error in refused] == [
        (8, NotAllowed.code),
        (9, NotAllowed.code),
    ]
    await end(bench, A, commit=False)
    await until(lambda: len(client.received) == 1)
    assert bench.topic.log.stats().entries == 10
    session.closed(None)


async def test_aborted_transactions_are_forgotten_with_their_ledger(bench: Bench) -> None:
    bench.everything.ledger_entries = 3
    await bench.registry.unload(NAME)
    await bench.load()
    consumer, client = await bench.join(SubscriptionType.SHARED)
    await put(bench, A)
    await end(bench, A, commit=False)
    assert bench.topic.transactions is not None
    assert list(bench.topic.transactions.aborted) == [A]
    await put(bench, count=3)
    await until(lambda: len(client.received) == 3)
    bench.subscription.acknowledge(consumer, client.received)
    await until(lambda: not bench.topic.transactions.aborted)


async def test_the_last_message_and_a_compaction_are_of_committed_messages(bench: Bench) -> None:
    topic = bench.topic
    await put(bench)
    await put(bench, A, key="k")
    await put(bench, B, key="k")
    await put(bench, C, key="k")
    assert await topic.last_message.read() == (Position(topic.log.last_confirmed.ledger_id, 0), -1)
    await end(bench, A, commit=True)
    await end(bench, B, commit=False)
    last = Position(topic.log.last_confirmed.ledger_id, 1), -1
    assert await topic.last_message.read() == last
    assert topic.compaction.start()
    await until(lambda: topic.compaction.status == "SUCCESS")
    ledger = await topic.compaction.ledger()
    assert ledger is not None
    assert (ledger.entries, ledger.last) == (1, last)


async def test_messages_that_are_shown_are_committed_and_others_say_that_they_are_not(
    bench: Bench,
) -> None:
    operations = MessageOperations(HereAlone(bench))
    await put(bench, A)
    await put(bench, B)
    await put(bench)
    await put(bench, C)
    await end(bench, A, commit=False)
    await end(bench, B, commit=True)
    ledger_id = bench.topic.log.last_confirmed.ledger_id
    latest = await operations.latest_entries(LatestEntries(NAME, 10, 1 << 20))
    following = await operations.next_entries(NextEntries(NAME, 10, 1 << 20))
    assert [row[1] for row in latest["entries"]] == [2, 1]
    assert [row[1] for row in following["entries"]] == [1, 2]
    assert following["next"] == [ledger_id, 3]
    compacted = await operations.compacted_entries(CompactedEntries(NAME, 10, 1 << 20))
    assert compacted == following | {"ledger": -1, "horizon": None}
    shown = [
        (await operations.message_by_id(MessageById(NAME, ledger_id, i)))["headers"]
        for i in range(4)
    ]
    assert [headers.get("X-Pulsar-txn-aborted") for headers in shown] == ["true", None, None, None]
    uncommitted = [headers["X-Pulsar-txn-uncommitted"] for headers in shown]
    assert uncommitted == ["false", "false", "false", "true"]
    assert shown[3]["X-Pulsar-txnid-most-bits"] == "3"


async def test_a_topic_that_is_deleted_leaves_no_snapshot(
    bench: Bench, snapshots: KeptSnapshots
) -> None:
    await put(bench, A)
    assert len(snapshots.values) == 1
    await bench.registry.deletions.delete(NAME, force=True)
    assert snapshots.values == {}


@pytest.mark.parametrize("commit", [True, False])
async def test_transactions_of_a_terminated_topic_end_when_a_snapshot_stands_for_their_markers(
    bench: Bench, snapshots: KeptSnapshots, commit: bool
) -> None:
    _, client = await bench.join(SubscriptionType.SHARED)
    await put(bench, A)
    await put(bench, B)
    await put(bench, A)
    await put(bench)
    await bench.topic.terminate()
    first = asyncio.create_task(end(bench, A, commit=commit))
    again = asyncio.create_task(end(bench, A, commit=commit))
    buffer = bench.topic.transactions
    assert buffer is not None
    await until(lambda: buffer.counts.ongoing == 1)
    await until(lambda: entries(client.received) == ([0] if commit else []))
    assert (first.done(), again.done()) == (False, False)
    # Until both have ended, a load finds both open, and the first end is requested again.
    await bench.registry.unload(NAME)
    for ending in (first, again):
        with pytest.raises(ServiceNotReady, match="being unloaded"):
            await ending
    with pytest.raises(ServiceNotReady, match="being unloaded"):
        await buffer.end(B, commit=commit, low_water_mark=-1)
    await bench.load()
    _, client = await bench.join(SubscriptionType.SHARED)
    first = asyncio.create_task(end(bench, A, commit=commit))
    await until(lambda: entries(client.received) == ([0] if commit else []))
    assert not first.done()
    snapshots.fails = True
    with pytest.raises(ServiceNotReady, match="not stored"):
        await end(bench, B, commit=True)
    with pytest.raises(ServiceNotReady, match="not stored"):
        await first
    with pytest.raises(InvalidTxnStatus):
        await end(bench, A, commit=not commit)
    snapshots.fails = False
    await end(bench, B, commit=True)
    await end(bench, A, commit=commit)
    due = [0, 1, 2, 3] if commit else [1, 3]
    await until(lambda: entries(client.received) == due)
    await bench.registry.unload(NAME)
    await bench.load()
    assert bench.topic.transactions is not None
    await bench.topic.transactions.ready()
    assert bench.topic.transactions.counts.ongoing == 0
    assert list(bench.topic.aborted) == ([] if commit else [A])
    _, client = await bench.join(SubscriptionType.SHARED)
    await until(lambda: entries(client.received) == due)
