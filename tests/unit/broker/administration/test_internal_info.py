"""ManagedLedgerInfo in Pulsar's JSON; the expected values are what Apache Pulsar 4.0.8 answered."""

import uuid

import pytest

from engine.base.ids import Position
from engine.broker.administration.internal_info import internal_info, internal_stats
from engine.broker.administration.reports import iso
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.managed.stored.survey import StoredLog
from engine.metadata.store import Stat
from engine.wire import mledger_pb2 as pb
from tests.support.broker_bench import NAME, opened

CREATED_MS, CHANGED_MS, NOW_MS = 1_795_367_786_092, 1_795_367_786_097, 1_795_367_789_233
NODE = {
    "version": 1,
    "creationDate": "2026-11-22T17:16:26.092Z",
    "modificationDate": "2026-11-22T17:16:26.097Z",
}
STAT = Stat(1, 0, CREATED_MS, CHANGED_MS, 0, 0)


def test_a_closed_and_an_open_ledger_and_a_cursor_with_ranges() -> None:
    info = pb.ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=14, entries=10, size=360, timestamp=1_795_367_789_261)
    info.ledgerInfo.add(ledgerId=16, timestamp=0)
    state = CursorState(
        Position(14, 0),
        [(Position(14, 2), Position(14, 3)), (Position(14, 7), Position(14, 7))],
    )
    record = LogRecord.decode(info.SerializeToString())
    stored = StoredLog(record, STAT, {"b": (CursorRecord(-1, state), STAT)})
    assert internal_info(stored, NOW_MS) == {
        **NODE,
        "ledgers": [
            {
                "ledgerId": 14, "entries": 10, "size": 360, "timestamp": 1795367789261,
                "isOffloaded": False,
            },
            {"ledgerId": 16, "timestamp": NOW_MS, "isOffloaded": False},
        ],
        "cursors": {
            "b": {
                **NODE,
                "cursorsLedgerId": -1,
                "markDelete": {"ledgerId": 14, "entryId": 0},
                "individualDeletedMessages": [
                    {
                        "from": {"ledgerId": 14, "entryId": 1},
                        "to": {"ledgerId": 14, "entryId": 3},
                    },
                    {
                        "from": {"ledgerId": 14, "entryId": 6},
                        "to": {"ledgerId": 14, "entryId": 7},
                    },
                ],
            }
        },
    }  # fmt: skip


def test_the_sealed_position_and_the_properties_of_topic_and_cursor() -> None:
    record = LogRecord(terminated=Position(5, -1), properties={"a": "1"})
    cursor = CursorRecord(6, CursorState(Position(5, -1), properties={"n": 3}))
    out = internal_info(StoredLog(record, STAT, {"s": (cursor, STAT)}), NOW_MS)
    assert out["terminatedPosition"] == {"ledgerId": 5, "entryId": -1}
    assert out["properties"] == {"a": "1"}
    assert out["cursors"]["s"]["cursorsLedgerId"] == 6
    assert out["cursors"]["s"]["properties"] == {"n": 3}


def test_a_ledger_that_another_broker_moved_to_cheaper_storage() -> None:
    attempt = uuid.UUID("f2345678-1234-1234-9234-123456789abc")
    info = pb.ManagedLedgerInfo()
    stored = info.ledgerInfo.add(ledgerId=3, entries=2, size=9, timestamp=7)
    stored.offloadContext.uidMsb = int.from_bytes(attempt.bytes[:8], signed=True)
    stored.offloadContext.uidLsb = int.from_bytes(attempt.bytes[8:], signed=True)
    stored.offloadContext.complete = True
    record = LogRecord.decode(info.SerializeToString())
    (ledger,) = internal_info(StoredLog(record, STAT, {}), NOW_MS)["ledgers"]
    assert (ledger["isOffloaded"], ledger["offloadedContextUuid"]) == (True, str(attempt))


def test_times_have_no_zeros_at_their_end() -> None:
    assert [iso(ms) for ms in (0, 1, 1500, 61_020)] == [
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00.001Z",
        "1970-01-01T00:00:01.5Z",
        "1970-01-01T00:01:01.02Z",
    ]


def test_dates_are_left_out_when_the_store_has_no_times() -> None:
    stored = StoredLog(LogRecord.decode(b""), STAT._replace(ctime_ms=0, mtime_ms=0), {})
    assert internal_info(stored, NOW_MS) == {"version": 1, "ledgers": [], "cursors": {}}


@pytest.mark.virtual_time
async def test_without_a_ledger_made_since_the_load_there_is_no_time_of_one() -> None:
    async with opened() as bench:
        await bench.publish(1)
        assert str(internal_stats(bench.topic)["lastLedgerCreatedTimestamp"]) > "1971"
        await bench.topic.log.terminate()
        await bench.registry.unload(NAME)
        assert internal_stats(await bench.load())["lastLedgerCreatedTimestamp"] is None
