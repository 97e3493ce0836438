"""Ledgers that stored records name. Pure."""

from engine.managed.errors import StoredRecordError
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import (
    COMPACTED_LEDGER,
    CursorRecord,
    CursorState,
    LogRecord,
)
from engine.metadata.records import RecordFormatError
from engine.schema.locator import parse_locator


def ledgers_of_topic(value: bytes) -> list[int] | None:
    """Return the ledgers with a topic's messages that bookies hold; None for a topic that is being deleted.

    Ledgers that another broker moved to tiered storage are left out. Raises StoredRecordError.
    """
    record = LogRecord.decode(value)
    if record.deleted:
        return None
    return [span.ledger_id for span in record.ledgers if not offload_of(span).deleted_from_bookies]


def ledgers_of_cursor(value: bytes) -> tuple[int, list[int]] | None:
    """Return the ledger with a cursor's state, -1 where the node has it, and the others that the node names; None for a
    cursor that is being deleted. Raises StoredRecordError."""
    record = CursorRecord.decode(value)
    if record.deleted:
        return None
    others = list(record.index)
    if record.ledger_id < 0:
        others += _compacted(record.state)
    return record.ledger_id, others


def ledgers_of_state(entry: bytes) -> list[int]:
    """Return the ledgers that a cursor's state names, which was the last entry of its ledger; none where it cannot be
    read."""
    try:
        return _compacted(CursorState.decode(entry))
    except StoredRecordError:
        return []


def _compacted(state: CursorState) -> list[int]:
    ledger_id = state.properties.get(COMPACTED_LEDGER, -1)
    return [ledger_id] if ledger_id >= 0 else []


def ledgers_of_schema(value: bytes) -> list[int]:
    """Return the ledgers of a topic's schema versions. Raises RecordFormatError."""
    _, versions = parse_locator(value)
    return [version.ledger_id for version in versions if version.ledger_id >= 0]


UNREADABLE = (StoredRecordError, RecordFormatError)
"""Errors of a record that cannot be read. A backup keeps its bytes; brokers refuse such a topic, too."""
