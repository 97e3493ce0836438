"""Comparison of a namespace's records with the objects that its buckets have, ledger by ledger.

Apache's brokers list every object of the bucket, also those of other tenants. Tenants share a bucket, so
that only objects of the namespace's own ledgers are described here; the others are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.admin.api.arguments import JsonObject
from engine.base.names import NamespaceName, decode_name
from engine.managed.stored.object_references import records_of_namespace
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import LogRecord
from engine.metadata.store import MetadataStore
from engine.offload.bucket import Bucket
from engine.offload.errors import MissingObjectError
from engine.offload.object_names import ObjectName, object_name_of
from engine.offload.object_store import BucketObject, ObjectStore
from engine.offload.tiered_storage import TieredStorage

OK = "OK"
NOT_OFFLOADED = "NOT-OFFLOADED"
BAD_ATTEMPT = "BAD-UUID"
NOT_FOUND = "NOT-FOUND"
MISSING = "MISSING"
OBJECTS_MAX = 10_000
"""Objects that one answer describes."""


class KnownLedger(NamedTuple):
    """A ledger of a topic with what its record keeps of the copy; ``listed`` is False for one that has left the list,
    of which objects may still exist."""

    log: str
    entries: int
    name: ObjectName
    bucket: Bucket
    complete: bool
    listed: bool = True


@dataclass(slots=True)
class NamespaceCopies:
    """The copies that the records of a namespace name, by ledger, and the buckets they are in."""

    ledgers: dict[int, KnownLedger] = field(default_factory=dict)

    @classmethod
    async def read(cls, store: MetadataStore, namespace: NamespaceName) -> "NamespaceCopies":
        """Read the records. Raises StoredRecordError, the store's errors."""
        copies = cls()
        for log, record in (await records_of_namespace(store, str(namespace))).items():
            copies.add(log, record)
        return copies

    def add(self, log: str, record: LogRecord) -> None:
        for doomed in record.doomed_objects:
            name = ObjectName(doomed.attempt, doomed.ledger_id)
            known = KnownLedger(log, 0, name, doomed.bucket, complete=False, listed=False)
            self.ledgers.setdefault(doomed.ledger_id, known)
        for span in record.ledgers:
            offload = offload_of(span)
            if offload.attempt is not None:
                self.ledgers[span.ledger_id] = KnownLedger(
                    log,
                    span.entries,
                    ObjectName(offload.attempt, span.ledger_id),
                    offload.bucket,
                    offload.complete,
                )

    @property
    def buckets(self) -> set[Bucket]:
        return {known.bucket for known in self.ledgers.values()}


async def scan_namespace(
    store: MetadataStore, tiered: TieredStorage, namespace: NamespaceName
) -> JsonObject:
    """Return the objects of a namespace's ledgers as SCAN_LEDGERS does. Raises OffloadError, StoredRecordError, the
    store's errors.

    The records are read before and after the buckets are listed: a copy is missing only if both name it.
    """
    before = await NamespaceCopies.read(store, namespace)
    opened: dict[Bucket, ObjectStore] = {}
    listed: dict[str, tuple[Bucket, BucketObject]] = {}
    for bucket in sorted(before.buckets):
        opened[bucket] = tiered.stores.open(bucket)
        async for known in opened[bucket].listed():
            listed[known.key] = bucket, known
    after = await NamespaceCopies.read(store, namespace)
    rows: list[JsonObject] = []
    unknown = 0
    for key, (bucket, stored) in listed.items():
        name = object_name_of(key)
        ledger = None if name is None else after.ledgers.get(name.ledger_id)
        if name is None or ledger is None:
            unknown += 1
        elif len(rows) < OBJECTS_MAX:
            rows.append(await _row(opened[bucket], bucket, stored, name, ledger))
    missing = [
        _object(known, known.name, known.bucket, key, MISSING)
        for ledger_id, known in after.ledgers.items()
        if known.complete and before.ledgers.get(ledger_id) == known
        for key in (known.name.data_key, known.name.index_key)
        if key not in listed
    ]
    objects = [*rows, *missing][:OBJECTS_MAX]
    return {
        "objects": objects,
        "total": len(objects),
        "errors": sum(row["status"] != OK for row in objects),
        "unknown": unknown,
        "truncated": len(rows) == OBJECTS_MAX or len(rows) + len(missing) > OBJECTS_MAX,
    }


async def _row(
    store: ObjectStore,
    bucket: Bucket,
    stored: BucketObject,
    name: ObjectName,
    ledger: KnownLedger,
) -> JsonObject:
    attributes: Mapping[str, str] | None = None
    try:
        if store.keeps_attributes:
            attributes = dict(await store.attributes(stored.key))
    except MissingObjectError:
        # It was deleted after the listing.
        attributes = None
    described = _object(ledger, name, bucket, stored.key, _status(name, ledger))
    return described | {
        "size": stored.size,
        "lastModified": stored.modified_ms,
        "userMetadata": attributes,
    }


def _status(name: ObjectName, ledger: KnownLedger) -> str:
    if not ledger.listed:
        return NOT_FOUND
    if name != ledger.name:
        return BAD_ATTEMPT
    return OK if ledger.complete else NOT_OFFLOADED


def _object(
    ledger: KnownLedger, name: ObjectName, bucket: Bucket, key: str, status: str
) -> JsonObject:
    """Describe an object of a ledger, without what its bucket states of it."""
    return {
        "ledger": name.ledger_id,
        "name": key,
        "uri": f"{bucket.name}/{key}",
        "uuid": str(name.attempt),
        "size": 0,
        "lastModified": 0,
        "userMetadata": None,
        "managedLedgerName": decode_name(ledger.log),
        "numEntries": ledger.entries,
        "offloaded": ledger.complete,
        "status": status,
    }
