"""The report of a topic's tiers says where each ledger is, what would be moved, and what is not read."""

import uuid

from engine.broker.administration.tiers.tier_report import read_error_of, tiers
from engine.managed.stats import LedgerInfo
from engine.managed.stored.offloads import Offload, with_offload
from engine.offload.bucket import S3, Bucket
from engine.offload.offload_policy import OffloadPolicy
from engine.wire import mledger_pb2 as pb

BUCKET = Bucket(S3, "cold")
ATTEMPT = uuid.UUID(int=7)


def info(ledger_id: int, offload: Offload | None = None, *, extra: bytes = b"") -> LedgerInfo:
    stored = extra if offload is None else with_offload(b"", offload)
    return LedgerInfo(ledger_id, 10, 100, 1, True, stored)


def streamed(*, deleted: bool) -> bytes:
    made = pb.ManagedLedgerInfo.LedgerInfo()
    made.offloadContext.complete = True
    made.offloadContext.bookkeeperDeleted = deleted
    made.offloadContext.offloadSegment.add(uidMsb=1, uidLsb=2, complete=True, endEntryId=9)
    return made.SerializePartialToString()


BOTH = Offload(ATTEMPT, complete=True, completed_ms=5, bucket=BUCKET)
STORE = Offload(ATTEMPT, complete=True, deleted_from_bookies=True, completed_ms=5, bucket=BUCKET)
LEDGERS = [
    info(1, STORE),
    info(2, BOTH),
    info(3, Offload(ATTEMPT, bucket=BUCKET)),
    info(4, extra=streamed(deleted=False)),
    info(5, extra=streamed(deleted=True)),
    info(6),
]


def test_each_ledger_has_its_place_and_only_those_on_bookies_alone_would_be_moved() -> None:
    report = tiers(LEDGERS, OffloadPolicy(BUCKET, threshold_bytes=0), None, None, 10)
    rows = report["ledgers"]
    assert isinstance(rows, list)
    assert [row["tier"] for row in rows] == [
        "store", "both", "bookies", "bookies", "unreadable", "bookies",
    ]  # fmt: skip
    assert [row["ledger_id"] for row in rows if row["due"]] == [3, 4, 6]
    assert (report["due_ledgers"], report["due_bytes"]) == (3, 300)


def test_ledgers_that_are_only_in_streamed_objects_are_named_before_anyone_reads_them() -> None:
    error = read_error_of(LEDGERS, "")
    assert error.startswith("unreadable: ledger 5: only in objects of several ledgers")
    many = [info(number, extra=streamed(deleted=True)) for number in range(9)]
    assert read_error_of(many, "").startswith("unreadable: ledgers 0, 1, 2, 3, 4, …: only in")
    assert read_error_of(LEDGERS[:4], "away: no answer") == "away: no answer"
