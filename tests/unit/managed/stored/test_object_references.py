"""The records of all topics name their objects, wherever the topics are."""

import uuid

import pytest

from engine.base.clock import LoopClock
from engine.managed.errors import StoredRecordError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.object_references import named_objects
from engine.managed.stored.offloads import DoomedObjects, Offload, with_offload
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.offload.bucket import S3, Bucket
from engine.offload.object_names import ObjectName

COLD, OLD = Bucket(S3, "cold"), Bucket(S3, "old")
IDS = [uuid.UUID(int=number) for number in (1, 2, 3)]


def span(ledger_id: int, offload: Offload | None) -> LedgerSpan:
    made = LedgerSpan(ledger_id)
    made.extra = b"" if offload is None else with_offload(b"", offload)
    return made


async def test_objects_of_attempts_copies_and_deletions_are_named() -> None:
    store = MemoryServer(LoopClock()).session(10.0)
    complete = Offload(IDS[0], complete=True, completed_ms=1, bucket=COLD)
    begun = Offload(IDS[1], bucket=COLD)
    doomed = DoomedObjects(7, IDS[2], OLD)
    record = LogRecord([span(1, complete), span(2, begun), span(3, None)])
    legacy = LogRecord([], doomed_objects=[doomed])
    for name, value in (
        ("t/n/persistent/a", record),
        ("t/c/n/persistent/b", legacy),
        ("t/n/persistent/empty", LogRecord([])),
    ):
        await store.create(paths.managed_ledger(name), value.encode(), make_parents=True)
    named = await named_objects(store)
    assert named.names == {
        ObjectName(IDS[0], 1),
        ObjectName(IDS[1], 2),
        ObjectName(IDS[2], 7),
    }
    assert named.buckets == {COLD, OLD}


async def test_without_topics_nothing_is_named_and_a_record_that_cannot_be_read_is_an_error() -> (
    None
):
    store = MemoryServer(LoopClock()).session(10.0)
    assert (await named_objects(store)).names == set()
    path = paths.managed_ledger("t/n/persistent/a")
    await store.create(path, b"\xff\xff", make_parents=True)
    with pytest.raises(StoredRecordError):
        await named_objects(store)
