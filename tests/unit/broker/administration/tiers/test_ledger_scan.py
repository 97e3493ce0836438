"""A scan of a namespace describes the objects of its own ledgers, and names the copies that are missing."""

import uuid

import pytest

from engine.base.clock import LoopClock
from engine.base.names import NamespaceName
from engine.broker.administration.tiers.ledger_scan import scan_namespace
from engine.managed.errors import StoredRecordError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.offloads import DoomedObjects, Offload, with_offload
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.offload.bucket import S3, Bucket
from engine.offload.errors import ObjectStoreError
from engine.offload.object_names import ObjectName, attributes_of
from engine.offload.object_store import StoredObject
from engine.offload.tiered_storage import TieredStorage
from tests.support.stores.memory_objects import MemoryObjectStores

pytestmark = pytest.mark.virtual_time

BUCKET = Bucket(S3, "cold")
NAMESPACE = NamespaceName.parse("t/n")
IDS = [uuid.UUID(int=number) for number in range(9)]
ATTRIBUTES = attributes_of("c", "0")


def span(ledger_id: int, offload: Offload) -> LedgerSpan:
    made = LedgerSpan(ledger_id, entries=5, size=50, timestamp_ms=1)
    made.extra = with_offload(b"", offload)
    return made


class Scanned:
    """A topic ``a`` of the namespace with the ``ledgers``, and a bucket."""

    def __init__(self) -> None:
        self.store: MetadataStore = MemoryServer(LoopClock()).session(10.0)
        self.stores = MemoryObjectStores()
        self.bucket = self.stores.open(BUCKET)

    async def record(self, name: str, *ledgers: LedgerSpan, doomed: int = 0) -> None:
        objects = [DoomedObjects(doomed, IDS[8], BUCKET)] if doomed else []
        record = LogRecord(list(ledgers), doomed_objects=objects)
        await self.store.create(paths.managed_ledger(name), record.encode(), make_parents=True)

    def put(self, attempt: int, ledger_id: int) -> None:
        name = ObjectName(IDS[attempt], ledger_id)
        for key in (name.data_key, name.index_key):
            self.bucket.objects[key] = StoredObject(b"12345", ATTRIBUTES)

    async def scan(self) -> dict[str, object]:
        return await scan_namespace(self.store, TieredStorage(self.stores, {}), NAMESPACE)


async def test_each_object_of_the_namespace_has_its_status_and_others_are_only_counted() -> None:
    scanned = Scanned()
    complete, begun = Offload(IDS[1], complete=True, completed_ms=1, bucket=BUCKET), Offload(IDS[2])
    await scanned.record(
        "t/n/persistent/a%2Fb",
        span(1, complete),
        span(2, Offload(begun.attempt, bucket=BUCKET)),
        span(3, Offload(IDS[3], complete=True, completed_ms=1, bucket=BUCKET)),
        span(4, Offload(IDS[4], complete=True, completed_ms=1, bucket=BUCKET)),
        doomed=8,
    )
    await scanned.record(
        "t/other/persistent/x",
        span(5, Offload(IDS[5], complete=True, completed_ms=1, bucket=BUCKET)),
    )
    for attempt, ledger_id in ((1, 1), (2, 2), (3, 3), (7, 3), (5, 5), (6, 6), (8, 8)):
        scanned.put(attempt, ledger_id)
    scanned.bucket.objects["photo.jpg"] = StoredObject(b"", {})
    answer = await scanned.scan()
    rows = answer["objects"]
    assert isinstance(rows, list)
    statuses = {(row["ledger"], row["uuid"]): row["status"] for row in rows}
    assert statuses == {
        (1, str(IDS[1])): "OK",
        (2, str(IDS[2])): "NOT-OFFLOADED",
        (3, str(IDS[3])): "OK",
        (3, str(IDS[7])): "BAD-UUID",
        (4, str(IDS[4])): "MISSING",
        (8, str(IDS[8])): "NOT-FOUND",
    }
    assert (answer["total"], answer["errors"], answer["unknown"]) == (12, 8, 5)
    assert answer["truncated"] is False
    first = next(row for row in rows if row["name"] == ObjectName(IDS[1], 1).index_key)
    assert first == {
        "ledger": 1,
        "name": ObjectName(IDS[1], 1).index_key,
        "uri": f"cold/{ObjectName(IDS[1], 1).index_key}",
        "uuid": str(IDS[1]),
        "size": 5,
        "lastModified": 0,
        "userMetadata": ATTRIBUTES,
        "managedLedgerName": "t/n/persistent/a/b",
        "numEntries": 5,
        "offloaded": True,
        "status": "OK",
    }


async def test_a_bucket_or_a_record_that_cannot_be_read_ends_the_scan() -> None:
    scanned = Scanned()
    await scanned.record("t/n/persistent/a", span(1, Offload(IDS[1], bucket=BUCKET)))
    scanned.bucket.fail = lambda method, _key: method == "listed"
    with pytest.raises(ObjectStoreError, match="listed"):
        await scanned.scan()
    await scanned.store.create(paths.managed_ledger("t/n/persistent/b"), b"\xff")
    with pytest.raises(StoredRecordError):
        await scanned.scan()


async def test_a_namespace_without_copies_has_no_objects() -> None:
    scanned = Scanned()
    scanned.put(1, 1)
    assert (await scanned.scan())["objects"] == []
