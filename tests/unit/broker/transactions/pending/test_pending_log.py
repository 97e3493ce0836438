"""The stored log: its name, its records in order, and what is trimmed from it."""

import asyncio

import pytest

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.policies import TopicPolicies
from engine.broker.transactions.pending.ack_records import ack_record, end_record
from engine.broker.transactions.pending.pending_log import (
    PendingLog,
    StoredPendingLogs,
    log_name,
    own_log_name,
)
from engine.broker.transactions.ports import LogPlace, StatedAck
from engine.broker.transactions.record_writer import RecordOutcome
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb
from tests.support.managed_cluster import ONE, Brokers

pytestmark = pytest.mark.virtual_time
NAME = "public/default/persistent/t-s__transaction_pending_ack"
PLACE = TopicName.parse("persistent://public/default/t"), "s"
TXN = TxnId(1, 7)


def test_names() -> None:
    topic = TopicName.parse("persistent://public/default/t-partition-3")
    name = log_name(topic, "a/b c")
    assert name == ("public/default/persistent/t-partition-3-a%2Fb+c__transaction_pending_ack")


def _append(log: PendingLog, record: bytes) -> "asyncio.Future[LogPlace]":
    future: asyncio.Future[LogPlace] = asyncio.get_running_loop().create_future()
    log.writer.append(record, RecordOutcome(future.set_result, future.set_exception))
    return future


async def _records(log: PendingLog) -> list[tuple[LogPlace, int]]:
    return [(place, record.pending_ack_op) async for place, record in log.records()]


async def test_records_survive_until_they_are_dropped() -> None:
    brokers = Brokers()
    await brokers.start()
    policies = TopicPolicies()
    logs = StoredPendingLogs(brokers.broker(), lambda _: ONE)
    assert await logs.open(*PLACE, policies, make=False) is None
    ledger = await logs.open(*PLACE, policies, make=True)
    assert ledger is not None
    log = await PendingLog.of(ledger)
    ack = ack_record(TXN, [StatedAck(Position(62, 0))], cumulative=False)
    places = await asyncio.gather(
        _append(log, ack), _append(log, end_record(TXN, commit=True)), _append(log, ack)
    )
    assert [place.position.entry_id for place in places] == [0, 1, 2]
    log.drop([places[0], places[1]])
    await ledger.close()

    again = await StoredPendingLogs(brokers.broker(), lambda _: ONE).open(
        *PLACE, policies, make=False
    )
    assert again is not None
    log = await PendingLog.of(again)
    assert await _records(log) == [(places[2], pb.PendingAckMetadataEntry.ACK)]
    await log.clear()
    assert await _records(log) == []
    await brokers.close()


async def test_records_of_one_entry_are_dropped_one_by_one() -> None:
    brokers = Brokers()
    await brokers.start()
    logs = StoredPendingLogs(brokers.broker(), lambda _: ONE)
    ledger = await logs.open(*PLACE, TopicPolicies(), make=True)
    assert ledger is not None
    log = await PendingLog.of(ledger)
    ack = pb.PendingAckMetadataEntry.FromString(ack_record(TXN, [], cumulative=False))
    end = pb.PendingAckMetadataEntry.FromString(end_record(TXN, commit=False))
    batch = pb.BatchedPendingAckMetadataEntry(pending_ack_logs=[ack, end, ack])
    await _append(log, b"\x0e\x01\x00\x01" + batch.SerializeToString())
    (first, _), (second, _), (third, _) = await _records(log)
    assert (first.member, second.member, third.members) == (0, 1, 3)
    log.drop([second])
    assert [place for place, _ in await _records(log)] == [first, third]
    log.drop([first, third])
    assert await _records(log) == []
    await brokers.close()


async def test_a_deleted_log_is_gone() -> None:
    brokers = Brokers()
    await brokers.start()
    factory = brokers.broker()
    logs = StoredPendingLogs(factory, lambda _: ONE)
    await logs.delete(*PLACE)
    ledger = await logs.open(*PLACE, TopicPolicies(), make=True)
    assert ledger is not None
    await logs.delete(*PLACE)
    assert ledger.ended
    assert not await factory.exists(NAME)
    await brokers.close()


SHORT = TopicName.parse("persistent://public/default/a"), "b-c"
LONG = TopicName.parse("persistent://public/default/a-b"), "c"


def test_names_of_two_subscriptions_may_be_one() -> None:
    assert log_name(*SHORT) == log_name(*LONG)
    names = {own_log_name(*SHORT), own_log_name(*LONG), log_name(*SHORT)}
    assert len(names) == 3
    assert all(name.endswith("__transaction_pending_ack") for name in names)


@pytest.mark.parametrize(("first", "second"), [(SHORT, LONG), (LONG, SHORT)])
async def test_subscriptions_with_logs_of_one_name_have_a_log_each(
    first: tuple[TopicName, str], second: tuple[TopicName, str]
) -> None:
    brokers = Brokers()
    await brokers.start()
    policies = TopicPolicies()
    factory = brokers.broker()
    logs = StoredPendingLogs(factory, lambda _: ONE)

    async def open_log(place: tuple[TopicName, str], *, make: bool = False) -> PendingLog | None:
        ledger = await logs.open(*place, policies, make=make)
        return None if ledger is None else await PendingLog.of(ledger)

    first_log = await open_log(first, make=True)
    assert first_log is not None
    await _append(first_log, ack_record(TXN, [StatedAck(Position(62, 0))], cumulative=False))
    # Neither a look for the other log, nor its deletion, concerns the first.
    assert await open_log(second) is None
    await logs.delete(*second)
    second_log = await open_log(second, make=True)
    assert second_log is not None
    assert second_log.ledger.name != first_log.ledger.name
    await _append(second_log, end_record(TXN, commit=True))
    for log in (first_log, second_log):
        await log.ledger.close()
    logs = StoredPendingLogs(factory := brokers.broker(), lambda _: ONE)
    for place, operation in ((first, 1), (second, 2)):
        log = await open_log(place)
        assert log is not None
        assert [kind for _, kind in await _records(log)] == [operation]
    await logs.delete(*first)
    # The second one keeps its name, although that of the rule is free now.
    log = await open_log(second, make=True)
    assert log is not None
    assert [kind for _, kind in await _records(log)] == [2]
    assert not await factory.exists(log_name(*first))
    await brokers.close()


async def test_a_log_of_apaches_brokers_is_the_subscriptions() -> None:
    brokers = Brokers()
    await brokers.start()
    factory = brokers.broker()
    made = await PendingLog.of(await factory.open(NAME, ONE))
    await _append(made, end_record(TXN, commit=True))
    await made.ledger.close()
    logs = StoredPendingLogs(factory, lambda _: ONE)
    ledger = await logs.open(*PLACE, TopicPolicies(), make=True)
    assert ledger is not None
    assert len(await _records(await PendingLog.of(ledger))) == 1
    await brokers.close()


async def test_logs_of_one_name_that_are_made_at_the_same_time_are_two() -> None:
    brokers = Brokers()
    await brokers.start()
    logs = StoredPendingLogs(brokers.broker(), lambda _: ONE)
    short, long = await asyncio.gather(
        *(logs.open(*place, TopicPolicies(), make=True) for place in (SHORT, LONG))
    )
    assert short is not None
    assert long is not None
    assert short.name != long.name
    assert (short.ended, long.ended) == (False, False)
    await brokers.close()
