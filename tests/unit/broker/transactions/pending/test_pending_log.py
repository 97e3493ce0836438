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
)
from engine.broker.transactions.ports import LogPlace, StatedAck
from engine.broker.transactions.record_writer import RecordOutcome
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb
from tests.support.managed_cluster import ONE, Brokers

pytestmark = pytest.mark.virtual_time
NAME = "public/default/persistent/t-s__transaction_pending_ack"
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
    assert await logs.open(NAME, policies, make=False) is None
    ledger = await logs.open(NAME, policies, make=True)
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
        NAME, policies, make=False
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
    ledger = await logs.open(NAME, TopicPolicies(), make=True)
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
    await logs.delete(NAME)
    ledger = await logs.open(NAME, TopicPolicies(), make=True)
    assert ledger is not None
    await logs.delete(NAME)
    assert ledger.ended
    assert not await factory.exists(NAME)
    await brokers.close()
