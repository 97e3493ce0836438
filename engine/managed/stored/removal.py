"""Deletion of things that are stored in several places. An interrupted deletion is finished by the next caller (M17).

First the record is marked by compare-and-set, which is the moment of the deletion: a marked record is not used. The
ledgers follow, and the node that names them is removed last. A caller that finds a marked record finishes the deletion.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerFencedError, StoredRecordError
from engine.managed.stored.node import StoredNode
from engine.managed.stored.offloads import DoomedObjects, doomed_objects_of
from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata.store import MetadataStore, NoNodeError, NotEmptyError
from engine.offload.errors import OffloadError
from engine.offload.object_names import ObjectName
from engine.offload.object_store import ObjectStores

log = logging.getLogger(__name__)

Forget = Callable[[], Awaitable[None]]
"""Callback that deletes what is stored elsewhere of a deleted topic. Idempotent."""


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
    """Mark the topic as deleted and return the stored record, which has the topic's ledgers in ``doomed`` and their
    copies in ``doomed_objects``."""
    if record.deleted:
        return record
    doomed = [*record.doomed, *(span.ledger_id for span in record.ledgers)]
    objects = [*record.doomed_objects, *doomed_objects_of(record.ledgers)]
    marked = LogRecord(extra=record.extra, doomed=doomed, deleted=True, doomed_objects=objects)
    await node.write(marked.encode())
    return marked


async def delete_objects(objects: ObjectStores | None, doomed: DoomedObjects) -> None:
    """Delete the objects of one attempt (U4). Raises OffloadError."""
    if objects is None:
        raise OffloadError(f"{doomed.bucket}: no tiered storage is configured here")
    name = ObjectName(doomed.attempt, doomed.ledger_id)
    # The index first: without it no reader opens what remains of the data.
    store = objects.open(doomed.bucket)
    await store.delete([name.index_key])
    await store.delete([name.data_key])


class Deletion:
    """The deletion of a topic that no process can use any more; ``finish`` completes it.

    The record is marked as deleted, or names nothing: then the removal of the node is the whole deletion.
    """

    def __init__(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        objects: ObjectStores | None,
        node: StoredNode,
        record: LogRecord,
        children: Sequence[str] | None,
        forget: Forget | None,
    ) -> None:
        """``children``: names of the cursors' nodes; None when they are not known. ``forget``: see ``Forget``."""
        self._store = store
        self._ledgers = ledgers
        self._objects = objects
        self._node = node
        self._record = record
        self._children = children
        self._forget = forget

    async def finish(self) -> None:
        """Delete cursors, ledgers and their copies in tiered storage, call ``forget``, and remove the node last.

        Raises ManagedLedgerFencedError when another owner wrote the node, OffloadError when copies cannot be deleted
        now, the store's errors and those of ``forget``.
        """
        if self._children is None:
            self._children = await self._store.children(self._node.path)
        await self._remove_cursors()
        for ledger_id in self._record.doomed:
            await self._ledgers.delete(ledger_id)
        for doomed in self._record.doomed_objects:
            await delete_objects(self._objects, doomed)
        if self._forget is not None:
            await self._forget()
        try:
            await self._node.delete()
        except NotEmptyError:
            # A cursor was created after the names were read, by a request that was answered late.
            self._record = await mark_deleted(self._node, self._record)
            self._children = await self._store.children(self._node.path)
            await self._remove_cursors()
            await self._node.delete()

    async def _remove_cursors(self) -> None:
        for child in self._children or ():
            node = self._node.child(child)
            await discard_cursor(node, self._ledgers, self._node.unchanged)
