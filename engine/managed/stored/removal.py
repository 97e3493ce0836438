"""Deletion of things that are stored in several places. An interrupted deletion is finished by the next caller (M17).

First the record is marked by compare-and-set, which is the moment of the deletion: a marked record is not used. The
ledgers follow, and the node that names them is removed last. A caller that finds a marked record finishes the deletion.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerFencedError, StoredRecordError
from engine.managed.stored.node import StoredNode
from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata.store import NoNodeError

log = logging.getLogger(__name__)


async def remove_cursor(node: StoredNode, ledgers: LedgerClient, record: CursorRecord) -> None:
    """Delete the cursor that ``node`` holds as ``record``, or continue its deletion.

    Raises ManagedLedgerFencedError when another owner wrote the node, and the store's errors; call it again after
    these.
    """
    if record.ledger_id >= 0 and not record.deleted:
        record = replace(record, deleted=True)
        await node.write(record.encode())
    for ledger_id in record.ledgers:
        await ledgers.delete(ledger_id)
    await node.delete()


async def discard_cursor(
    node: StoredNode, ledgers: LedgerClient, is_unchanged: Callable[[], Awaitable[bool]]
) -> None:
    """Delete a cursor that is not in memory here, if it is stored. Raises as ``remove_cursor``.

    ``is_unchanged`` is called after the node was read, because the topic's next owner may have created a cursor of the
    same name.
    """
    try:
        value = await node.read()
    except NoNodeError:
        return
    if not await is_unchanged():
        raise ManagedLedgerFencedError(f"the topic of {node.path} has another owner")
    try:
        record = CursorRecord.decode(value)
    except StoredRecordError as error:
        log.warning("cursor ledger may leak node=%s error=%s", node.path, error)
        await node.delete()
        return
    await remove_cursor(node, ledgers, record)


async def mark_deleted(node: StoredNode, record: LogRecord) -> LogRecord:
    """Mark the topic as deleted and return the stored record, which has the topic's ledgers in ``doomed``."""
    if record.deleted:
        return record
    doomed = [*record.doomed, *(span.ledger_id for span in record.ledgers)]
    marked = LogRecord(extra=record.extra, doomed=doomed, deleted=True)
    await node.write(marked.encode())
    return marked
