"""Objects of tiered storage that the records of topics name (U5)."""

from collections.abc import Sequence
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
        await _add_topics(store, [f"{path}/{child}" for child in children], named)
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
    records = {}
    for start in range(0, len(topics), READ_AT_ONCE):
        batch = topics[start : start + READ_AT_ONCE]
        nodes, _ = await store.get_all(batch)
        for path, node in zip(batch, nodes, strict=True):
            if node is not None:
                name = path.removeprefix(f"{paths.MANAGED_LEDGERS}/")
                records[name] = LogRecord.decode(node[0])
    return records


async def _add_topics(store: MetadataStore, topics: Sequence[str], named: NamedObjects) -> None:
    for start in range(0, len(topics), READ_AT_ONCE):
        nodes, _ = await store.get_all(topics[start : start + READ_AT_ONCE])
        for node in nodes:
            if node is not None:
                named.add(LogRecord.decode(node[0]))
