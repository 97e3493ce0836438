"""Acknowledgements of open transactions: hidden, committed, given back, and the same after a reload."""

import asyncio

import pytest

from engine.base.ids import EARLIEST
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import NotAllowed, ServiceNotReady, TransactionConflict
from engine.broker.settings import TransactionSettings
from engine.broker.transactions.log_batches import pending_ack_records
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId
from tests.support.broker_bench import Client
from tests.support.shelf import simulated
from tests.support.transactions.pending_logs import MemoryLogs, PendingReading

pytestmark = pytest.mark.virtual_time

ONE, TWO = TxnId(0, 1), TxnId(0, 2)
KINDS = pytest.mark.parametrize(
    "kind", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE], ids=["shared", "exclusive"]
)


@KINDS
@simulated
async def test_a_commit_acknowledges_and_an_abort_delivers_again(kind: SubscriptionType) -> None:
    reading = PendingReading()
    reading.publish(4)
    places, client = reading.shelf.places, Client()
    consumer = await reading.join(client, 100, kind)
    await reading.acknowledge(consumer, ONE, places[0], places[1])
    await reading.acknowledge(consumer, TWO, places[2])
    assert reading.cursor.backlog_entries() == 4
    await reading.commit(ONE)
    assert reading.cursor.mark_delete == places[1]
    client.received.clear()
    await reading.abort(TWO)
    await asyncio.sleep(1)
    again = [places[2]] if kind == SubscriptionType.SHARED else places[2:]
    assert client.received == again
    assert (reading.pending.committed, reading.pending.aborted) == (1, 1)


@KINDS
@simulated
async def test_x4_nothing_pending_is_delivered_to_the_next_consumer(kind: SubscriptionType) -> None:
    reading = PendingReading()
    reading.publish(5)
    places = reading.shelf.places
    first = await reading.join(Client(), 100, kind)
    await reading.acknowledge(first, ONE, places[1], places[4])
    reading.subscription.detach(first)
    client = Client()
    consumer = await reading.join(client, 100, kind)
    await asyncio.sleep(1)
    assert client.received == [places[0], places[2], places[3]]
    reading.subscription.redeliver(consumer, None, None)
    await asyncio.sleep(1)
    assert places[1] not in client.received


@simulated
async def test_the_redelivery_of_an_aborted_message_is_counted() -> None:
    reading = PendingReading()
    reading.publish(1)
    client = Client()
    consumer = await reading.join(client, 100)
    await reading.acknowledge(consumer, ONE, reading.shelf.places[0])
    assert consumer.unacked == 0
    await reading.abort(ONE)
    await asyncio.sleep(1)
    assert client.counts[reading.shelf.places[0]] == 1


@simulated
async def test_x4_acknowledgements_conflict() -> None:
    reading = PendingReading()
    reading.publish(3)
    places = reading.shelf.places
    consumer = await reading.join(Client(), 100)
    await reading.acknowledge(consumer, ONE, places[0])
    for txn in (ONE, TWO):
        with pytest.raises(TransactionConflict, match="in pending ack status"):
            await reading.acknowledge(consumer, txn, places[0])
    # A refused request acknowledges nothing of it.
    with pytest.raises(TransactionConflict):
        await reading.acknowledge(consumer, TWO, places[1], places[0])
    await reading.acknowledge(consumer, TWO, places[1])
    await reading.commit(ONE)
    with pytest.raises(TransactionConflict, match="already acked before"):
        await reading.acknowledge(consumer, TWO, places[0])


@simulated
async def test_of_two_acknowledgements_at_once_one_is_refused() -> None:
    reading = PendingReading()
    reading.publish(1)
    place = reading.shelf.places[0]
    consumer = await reading.join(Client(), 100)
    outcomes = await asyncio.gather(
        *(reading.acknowledge(consumer, txn, place) for txn in (ONE, TWO)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), TransactionConflict]


@simulated
async def test_parts_of_a_batch_in_two_transactions() -> None:
    reading = PendingReading()
    reading.publish(1, messages=3)
    place = reading.shelf.places[0]
    client = Client()
    consumer = await reading.join(client, 100)
    await reading.acknowledge_part(consumer, ONE, place, 0b110, 3)
    with pytest.raises(TransactionConflict):
        await reading.acknowledge_part(consumer, TWO, place, 0b100, 3)
    await reading.acknowledge_part(consumer, TWO, place, 0b101, 3)
    assert consumer.unacked == 1
    await reading.commit(TWO)
    assert reading.cursor.ack_set(place) == [0b101]
    client.received.clear()
    await reading.abort(ONE)
    await asyncio.sleep(1)
    # Those of the aborted transaction are delivered again, those of the committed one are not.
    assert client.received == [place]
    assert client.ack_sets[place] == [0b101]


@simulated
async def test_a_cumulative_acknowledgement() -> None:
    reading = PendingReading()
    reading.publish(5)
    places, client = reading.shelf.places, Client()
    consumer = await reading.join(client, 100, SubscriptionType.EXCLUSIVE)
    await reading.acknowledge(consumer, ONE, places[1], cumulative=True)
    with pytest.raises(TransactionConflict):
        await reading.acknowledge(consumer, TWO, places[3], cumulative=True)
    with pytest.raises(TransactionConflict):
        await reading.acknowledge(consumer, ONE, places[0], cumulative=True)
    await reading.acknowledge(consumer, ONE, places[2], cumulative=True)
    client.received.clear()
    reading.subscription.redeliver(consumer, None, None)
    await asyncio.sleep(1)
    assert client.received == places[3:]
    await reading.commit(ONE)
    assert reading.cursor.mark_delete == places[2]
    await reading.acknowledge(consumer, TWO, places[4], cumulative=True)
    client.received.clear()
    await reading.abort(TWO)
    await asyncio.sleep(1)
    assert client.received == places[3:]


@simulated
async def test_a_cumulative_acknowledgement_of_a_shared_subscription_is_ignored() -> None:
    reading = PendingReading()
    reading.publish(2)
    consumer = await reading.join(Client(), 100)
    await reading.acknowledge(consumer, ONE, reading.shelf.places[1], cumulative=True)
    assert reading.pending.stats(low_water_marks=False)["ongoingTxnSize"] == 0


@KINDS
@simulated
async def test_x5_a_reload_restores_what_is_pending(kind: SubscriptionType) -> None:
    before = PendingReading()
    before.publish(6)
    places = before.shelf.places
    consumer = await before.join(Client(), 100, kind)
    await before.acknowledge(consumer, ONE, places[1])
    await before.acknowledge(consumer, TWO, places[2])
    await before.acknowledge(consumer, TxnId(1, 1), places[3])
    await before.commit(ONE)
    await before.abort(TWO)
    after = PendingReading(logs=before.logs)  # its cursor has stored nothing
    after.publish(6)
    client = Client()
    again = await after.join(client, 100, kind)
    await asyncio.sleep(1)
    assert client.received == [places[0], places[2], places[4], places[5]]
    assert after.cursor.is_acknowledged(places[1])
    with pytest.raises(NotAllowed, match="has been ended"):
        await after.acknowledge(again, TWO, places[2])
    await after.abort(TxnId(1, 1))
    await asyncio.sleep(1)
    assert places[3] in client.received


@simulated
async def test_x5_an_unknown_outcome_is_settled_by_a_replay() -> None:
    reading = PendingReading()
    reading.publish(3)
    places, client = reading.shelf.places, Client()
    consumer = await reading.join(client, 100)
    await reading.acknowledge(consumer, ONE, places[0])
    reading.logs.only.fails = "unknown"
    with pytest.raises(ServiceNotReady):
        await reading.acknowledge(consumer, ONE, places[1])
    assert reading.pending.status == "Error"
    await reading.pending.ready()
    reading.logs.only.fails = "unknown"
    with pytest.raises(ServiceNotReady):
        await reading.commit(ONE)
    assert not reading.cursor.is_acknowledged(places[0])
    await reading.pending.ready()
    assert [reading.cursor.is_acknowledged(place) for place in places] == [True, True, False]


@simulated
async def test_a_lost_acknowledgement_is_delivered_again_after_the_replay() -> None:
    reading = PendingReading()
    reading.publish(2)
    places, client = reading.shelf.places, Client()
    consumer = await reading.join(client, 100)
    await reading.acknowledge(consumer, ONE, places[0])
    reading.logs.only.fails = "lost"
    with pytest.raises(ServiceNotReady):
        await reading.subscription.acknowledge_in(
            TWO, consumer, [StatedAck(places[1])], cumulative=False
        )
    client.received.clear()
    await reading.abort(TWO)
    await asyncio.sleep(1)
    assert client.received == [places[1]]


@simulated
async def test_an_end_is_made_once_and_an_unknown_transaction_ends_without_a_trace() -> None:
    reading = PendingReading()
    reading.publish(2)
    place = reading.shelf.places[0]
    consumer = await reading.join(Client(), 100)
    await reading.commit(TWO)
    assert not reading.logs.shelves
    await reading.acknowledge(consumer, ONE, place)
    await asyncio.gather(reading.commit(ONE), reading.commit(ONE))
    await reading.commit(ONE)
    assert len(reading.logs.records()) == 2
    for ended in (ONE, TWO):
        with pytest.raises(NotAllowed, match="has been ended"):
            await reading.acknowledge(consumer, ended, reading.shelf.places[1])


@simulated
async def test_transactions_up_to_the_low_water_mark_are_aborted() -> None:
    reading = PendingReading()
    reading.publish(4)
    places, client = reading.shelf.places, Client()
    consumer = await reading.join(client, 100)
    lost, other, last = TxnId(0, 3), TxnId(1, 3), TxnId(0, 9)
    for txn, place in zip((lost, other, last), places, strict=False):
        await reading.acknowledge(consumer, txn, place)
    client.received.clear()
    await reading.commit(last, low_water_mark=8)
    await asyncio.sleep(1)
    assert client.received == [places[0]]
    assert reading.pending.stats(low_water_marks=True) | {"recoverEndTime": 0} == {
        "state": "Ready",
        "lowWaterMarks": {"0": 8},
        "ongoingTxnSize": 1,
        "recoverStartTime": reading.pending.stats(low_water_marks=True)["recoverStartTime"],
        "recoverEndTime": 0,
    }
    with pytest.raises(NotAllowed):
        await reading.acknowledge(consumer, TxnId(0, 8), places[3])


@simulated
async def test_records_go_once_the_cursor_is_stored_with_them() -> None:
    reading = PendingReading()
    reading.topic.context.transactions = TransactionSettings(
        transaction_pending_ack_log_index_min_lag=4
    )
    reading.publish(3)
    consumer = await reading.join(Client(), 100)
    for i, place in enumerate(reading.shelf.places):
        await reading.acknowledge(consumer, TxnId(0, i), place)
    await reading.abort(TxnId(0, 0))
    assert len(reading.logs.records()) == 4
    await reading.commit(TxnId(0, 1))
    await asyncio.sleep(1)
    assert len(reading.logs.records()) == 1


@KINDS
@simulated
async def test_x5_a_seek_forgets_open_and_committed_transactions(kind: SubscriptionType) -> None:
    reading = PendingReading()
    reading.publish(4)
    places = reading.shelf.places
    consumer = await reading.join(Client(), 100, kind)
    await reading.acknowledge(consumer, ONE, places[0])
    await reading.acknowledge(consumer, TWO, places[1])
    await reading.commit(ONE)
    await reading.subscription.moves.reset(EARLIEST)
    reading.attach_pending()
    client = Client()
    again = await reading.join(client, 100, kind)
    await asyncio.sleep(1)
    assert client.received == places
    await reading.commit(TWO)
    assert reading.cursor.backlog_entries() == 4
    await reading.acknowledge(again, TxnId(0, 3), places[1])


@simulated
async def test_an_acknowledgement_during_a_seek_is_made_or_not() -> None:
    reading = PendingReading()
    reading.publish(2)
    place = reading.shelf.places[0]
    consumer = await reading.join(Client(), 100)
    await reading.acknowledge(consumer, TWO, reading.shelf.places[1])
    acknowledging = asyncio.create_task(reading.acknowledge(consumer, ONE, place))
    await asyncio.sleep(0)
    await reading.subscription.moves.reset(EARLIEST)
    await acknowledging
    await reading.commit(ONE)
    assert reading.logs.records() == []
    assert reading.cursor.backlog_entries() == 2


@simulated
async def test_a_new_subscription_does_not_take_over_the_log_of_an_earlier_one() -> None:
    logs = MemoryLogs()
    before = PendingReading(logs=logs)
    before.publish(1)
    consumer = await before.join(Client(), 100)
    await before.acknowledge(consumer, ONE, before.shelf.places[0])
    after = PendingReading(logs=logs, fresh=True)
    after.publish(1)
    client = Client()
    await after.join(client, 100)
    assert client.received == after.shelf.places
    assert len(logs.deleted) == 1


@simulated
async def test_the_states_of_positions() -> None:
    reading = PendingReading()
    reading.publish(2)
    reading.publish(1, messages=3)
    places = reading.shelf.places
    consumer = await reading.join(Client(), 100)
    reading.subscription.acknowledge(consumer, [places[0]])
    await reading.acknowledge_part(consumer, ONE, places[2], 0b101, 3)
    state = reading.pending.position_state
    assert state(places[0], None) == "MarkDelete"
    assert state(places[1], None) == "NotInPendingAck"
    assert state(places[2], None) == "PendingAck"
    assert [state(places[2], i) for i in (0, 1, 3)] == [
        "NotInPendingAck",
        "PendingAck",
        "InvalidPosition",
    ]


@simulated
async def test_a_closed_subscription_refuses() -> None:
    reading = PendingReading()
    reading.publish(1)
    consumer = await reading.join(Client(), 100)
    await reading.acknowledge(consumer, ONE, reading.shelf.places[0])
    await reading.pending.close()
    with pytest.raises(ServiceNotReady, match="being unloaded"):
        await reading.commit(ONE)
    assert reading.pending.status == "Close"


@simulated
async def test_an_entry_that_does_not_exist_is_refused() -> None:
    reading = PendingReading()
    reading.publish(1)
    consumer = await reading.join(Client(), 100)
    place = reading.shelf.places[0]
    with pytest.raises(NotAllowed, match="does not exist"):
        await reading.acknowledge(consumer, ONE, place._replace(entry_id=7))
    with pytest.raises(NotAllowed, match="16384 words"):
        await reading.acknowledge_part(consumer, ONE, place, 0b10, 1 << 30)


@pytest.mark.parametrize("batched", [False, True])
@simulated
async def test_acknowledgements_of_one_turn_are_one_record_before_the_end(batched: bool) -> None:
    reading = PendingReading()
    reading.topic.context.transactions = TransactionSettings(
        transaction_pending_ack_batched_write_enabled=batched
    )
    reading.publish(6)
    places = reading.shelf.places
    consumer = await reading.join(Client(), 100)
    await reading.pending.ready(make=True)
    acks = [
        reading.acknowledge(consumer, txn, place)
        for txn, place in ((ONE, places[0]), (TWO, places[1]), (ONE, places[2]), (TWO, places[3]))
    ]
    tasks = [asyncio.ensure_future(ack) for ack in acks]
    await asyncio.gather(*tasks)
    entries = reading.logs.records()
    assert len(entries) == (1 if batched else 2)
    records = [record for entry in entries for record in pending_ack_records(entry)]
    assert [(r.txnid_least_bits, len(r.pending_ack_metadata)) for r in records] == [(1, 2), (2, 2)]
    late = asyncio.ensure_future(reading.acknowledge(consumer, ONE, places[4]))
    await asyncio.sleep(0)
    await reading.commit(ONE)
    await late
    reading.attach_pending()
    await reading.pending.ready()
    assert [reading.cursor.is_acknowledged(place) for place in places] == [
        *(True, False, True, False, True, False)
    ]
    states = [reading.pending.position_state(place, None) for place in places[1:4:2]]
    assert states == ["PendingAck"] * 2
    await reading.commit(TWO)
    assert reading.cursor.is_acknowledged(places[3])
