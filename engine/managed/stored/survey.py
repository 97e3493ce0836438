"""The stored records of a managed ledger, read without opening it: no owner is fenced, nothing is changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.names import SHADOW_SOURCE, TopicName, decode_name
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.metadata_update import decoded
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata import paths
from engine.metadata.store import MetadataStore, Stat


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The records as their nodes held them, each at its own moment, with the nodes' facts. ``cursors`` by name."""

    record: LogRecord
    stat: Stat
    cursors: dict[str, tuple[CursorRecord, Stat]]


CURSORS_AT_ONCE = 64
"""Cursors read in one request: each may have 256 KiB."""


async def read_ahead(
    store: MetadataStore, path: str, ledger_id: int | None, children: Sequence[str]
) -> tuple[LedgerMetadata | None, dict[str, tuple[bytes, Stat]]]:
    """Read what an opening needs besides the record at ``path``: metadata of a ledger, and the nodes of cursors by
    name. This is one request as long as they are few. Nodes that do not exist are omitted.

    Raises MetadataFormatError, the store's errors. Cancel-safe.
    """
    ledgers = [] if ledger_id is None else [paths.ledger(ledger_id)]
    metadata: LedgerMetadata | None = None
    cursors: dict[str, tuple[bytes, Stat]] = {}
    for i in range(0, max(len(children), len(ledgers)), CURSORS_AT_ONCE):
        names = children[i : i + CURSORS_AT_ONCE]
        values, _ = await store.get_all([*ledgers, *(f"{path}/{name}" for name in names)])
        if ledgers and values[0] is not None:
            metadata = decoded(values[0])
        rows = zip(names, values[len(ledgers) :], strict=True)
        cursors |= {name: row for name, row in rows if row is not None}
        ledgers = []
    return metadata, cursors


async def survey(store: MetadataStore, name: str) -> StoredLog:
    """Read the records of a managed ledger. Cancel-safe.

    Raises ManagedLedgerNotFoundError (also for one that is being deleted), StoredRecordError, the store's errors.
    """
    path = paths.managed_ledger(name)
    (row,), children = await store.get_all([path], path)
    if row is None:
        raise ManagedLedgerNotFoundError(f"there is no managed ledger {name}")
    value, stat = row
    record = LogRecord.decode(value)
    if record.deleted:
        raise ManagedLedgerNotFoundError(f"the managed ledger {name} is being deleted")
    if SHADOW_SOURCE in record.properties:
        record.ledgers = await _source_ledgers(store, record.properties[SHADOW_SOURCE])
    return StoredLog(record, stat, await read_cursors(store, path, children))


async def _source_ledgers(store: MetadataStore, source: str) -> list[LedgerSpan]:
    """Return the ledgers of a shadow topic, which are those of its source; none without that."""
    path = paths.managed_ledger(TopicName.parse(source).managed_ledger_name)
    (row,), _ = await store.get_all([path])
    return [] if row is None else LogRecord.decode(row[0]).ledgers


async def read_cursors(
    store: MetadataStore, path: str, children: Sequence[str]
) -> dict[str, tuple[CursorRecord, Stat]]:
    """Read the cursors of the topic at ``path``, by name, without those that are being deleted. ``children``: names of
    their nodes. Raises StoredRecordError, the store's errors. Cancel-safe."""
    cursors: dict[str, tuple[CursorRecord, Stat]] = {}
    _, rows = await read_ahead(store, path, None, children)
    for child, (value, stat) in rows.items():
        cursor = CursorRecord.decode(value)
        if not cursor.deleted:
            cursors[decode_name(child)] = cursor, stat
    return cursors
