"""Deleting what is stored in several places so that a deletion cut off anywhere is finished by the next one (M17).

First the record is marked by compare-and-set, which is the moment of the deletion: nobody uses what is marked. The
ledgers follow, the node that names them goes last. Whoever finds a marked record finishes the deletion.
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
    """Delete the cursor that ``node`` holds as ``record``, or go on with it.

    Raises ManagedLedgerFencedError when another owner wrote the node, and the store's errors: call again.
    """
    if record.ledger_id >= 0 and not record.deleted:
        record = replace(record, deleted=True)
        await node.write(record.encode())
    for ledger_id in record.ledgers:
        await ledgers.delete(ledger_id)
    await node.delete()


async def discard_cursor(
    node: StoredNode, ledgers: LedgerClient, still_ours: Callable[[], Awaitable[bool]]
) -> None:
    """Delete a cursor that nobody here has in memory, if it is there. Raises as ``remove_cursor``.

    ``still_ours`` is asked when the node has been read: a topic's next owner may have made one of the same name.
    """
    try:
        value = await node.read()
    except NoNodeError:
        return
    if not await still_ours():
        raise ManagedLedgerFencedError(f"the topic of {node.path} has another owner")
    try:
        record = CursorRecord.decode(value)
    except StoredRecordError as error:
        log.warning("cursor ledger may leak node=%s error=%s", node.path, error)
        await node.delete()
        return
    await remove_cursor(node, ledgers, record)


async def mark_deleted(node: StoredNode, record: LogRecord) -> LogRecord:
    """From now on the topic is deleted; what it had is in ``doomed`` of what is stored, which is returned."""
    if record.deleted:
        return record
    doomed = [*record.doomed, *(one.ledger_id for one in record.ledgers)]
    marked = LogRecord(extra=record.extra, doomed=doomed, deleted=True)
    await node.write(marked.encode())
    return marked
