"""Objects of tiered storage that the records of topics name (U5)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.offload.bucket import Bucket
from engine.offload.object_names import ObjectName

READ_AT_ONCE = 64
"""Records of one request to the metadata store."""
DOMAIN = "persistent"


@dataclass(slots=True)
class NamedObjects:
    """Names of all objects that records name, also of those that are to be deleted, and the buckets they are in."""

    names: set[ObjectName] = field(default_factory=set)
    buckets: set[Bucket] = field(default_factory=set)

    def add(self, record: LogRecord) -> None:
        for span in record.ledgers:
            offload = offload_of(span)
            if offload.attempt is not None:
                self.names.add(ObjectName(offload.attempt, span.ledger_id))
                self.buckets.add(offload.bucket)
        for doomed in record.doomed_objects:
            self.names.add(ObjectName(doomed.attempt, doomed.ledger_id))
            self.buckets.add(doomed.bucket)


async def named_objects(store: MetadataStore) -> NamedObjects:
    """Read the records of all topics. Raises StoredRecordError when one cannot be read, the store's errors."""
    named = NamedObjects()
    await _add_below(store, paths.MANAGED_LEDGERS, named)
    return named


async def _add_below(store: MetadataStore, path: str, named: NamedObjects) -> None:
    try:
        children = await store.children(path)
    except NoNodeError:
        return
    # /managed-ledgers/tenant/namespace/persistent/topic, or with a cluster before the namespace.
    if path.endswith(f"/{DOMAIN}") and path.count("/") >= 4:
        async for _, record in _records(store, [f"{path}/{child}" for child in children]):
            named.add(record)
        return
    for child in children:
        await _add_below(store, f"{path}/{child}", named)


async def records_of_namespace(store: MetadataStore, namespace: str) -> dict[str, LogRecord]:
    """Return the records of a namespace's topics by the names of their managed ledgers. Raises StoredRecordError when
    one cannot be read, the store's errors."""
    parent = paths.managed_ledgers(namespace)
    try:
        topics = [f"{parent}/{child}" for child in await store.children(parent)]
    except NoNodeError:
        return {}
    below = f"{paths.MANAGED_LEDGERS}/"
    return {path.removeprefix(below): record async for path, record in _records(store, topics)}


async def _records(
    store: MetadataStore, topics: Sequence[str]
) -> AsyncIterator[tuple[str, LogRecord]]:
    """Yield the paths of topics that exist, with their records."""
    for start in range(0, len(topics), READ_AT_ONCE):
        batch = topics[start : start + READ_AT_ONCE]
        nodes, _ = await store.get_all(batch)
        for path, node in zip(batch, nodes, strict=True):
            if node is not None:
                yield path, LogRecord.decode(node[0])
