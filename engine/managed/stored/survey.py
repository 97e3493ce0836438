"""What the metadata store holds of a managed ledger, read without opening it: nobody is fenced, nothing is changed."""

from dataclasses import dataclass

from engine.base.names import decode_name
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError, Stat


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The records as their nodes held them, each at its own moment, with the nodes' facts. ``cursors`` by name."""

    record: LogRecord
    stat: Stat
    cursors: dict[str, tuple[CursorRecord, Stat]]


async def survey(store: MetadataStore, name: str) -> StoredLog:
    """Raises ManagedLedgerNotFoundError (also for one that is being deleted), StoredRecordError, the store's errors.
    Cancel-safe."""
    path = paths.managed_ledger(name)
    try:
        value, stat = await store.get(path)
        children = await store.children(path)
    except NoNodeError:
        raise ManagedLedgerNotFoundError(f"there is no managed ledger {name}") from None
    record = LogRecord.decode(value)
    if record.deleted:
        raise ManagedLedgerNotFoundError(f"the managed ledger {name} is being deleted")
    cursors: dict[str, tuple[CursorRecord, Stat]] = {}
    for child in sorted(children):
        try:
            value, its_stat = await store.get(f"{path}/{child}")
        except NoNodeError:
            continue  # deleted since
        cursor = CursorRecord.decode(value)
        if not cursor.deleted:
            cursors[decode_name(child)] = cursor, its_stat
    return StoredLog(record, stat, cursors)
