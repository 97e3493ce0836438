"""Writing a backup into an empty cluster: its bookies and metadata run, and no broker (K4).

A mark in the metadata says that the restore is not complete; servers refuse to start with it (K3). The same backup
continues an interrupted restore: closed ledgers are kept, an open one is begun anew.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.backup.backup_manifest import Counts
from engine.backup.backup_records import SavedEnd, SavedEntries, SavedLedger, SavedNode
from engine.backup.contents import Contents, LedgerSum
from engine.backup.errors import RestoreError
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import LedgerState, decode
from engine.ledger.metadata_update import decoded
from engine.ledger.writing.writer import LedgerWriter
from engine.metadata import paths
from engine.metadata.copying import all_of, continue_numbers
from engine.metadata.incomplete import RESTORING, check_complete
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError

PENDING_BYTES = 8 << 20
READ_BYTES = 1 << 20
NODES_AT_ONCE = 100
OWN_LEDGER_NODES = frozenset(
    {"available", "cookies", "idgen", "INSTANCEID", "LAYOUT", "underreplication"}
)
"""Children of /ledgers that bookies of an empty cluster make."""
Progress = Callable[[str, int], None]
"""Called with what is being done and how many of it."""


@dataclass(slots=True)
class Restorer:
    """Restores ``contents``, which were checked, by ``store`` and ``ledgers``."""

    contents: Contents
    store: MetadataStore
    ledgers: LedgerClient
    progress: Progress = lambda work, count: None

    async def restore(self) -> Counts:
        """Restore, compare everything with the backup, and return its numbers.

        Raises RestoreError: refused, with nothing changed, or different from the backup; the errors of stores and
        ledgers, after which the same call continues.
        """
        await self._begin()
        await self._write()
        await self._compare()
        await self.store.delete(RESTORING)
        return self.contents.manifest.counts

    async def _begin(self) -> None:
        own = self.contents.manifest.backup_id.encode()
        try:
            mark, _ = await self.store.get(RESTORING)
        except NoNodeError:
            await check_complete(self.store)
            await self._refuse_unless_empty()
            await self.store.create(RESTORING, own)
            return
        if mark != own:
            raise RestoreError(
                f"the metadata store holds an interrupted restore of backup {mark.decode(errors='replace')}, and this"
                f" is {own.decode()}: complete that one, or remove it with magnetar wipe"
            )

    async def _refuse_unless_empty(self) -> None:
        if brokers := await self._children(paths.LOADBALANCE_BROKERS):
            raise RestoreError(f"broker {brokers[0]} runs: stop all brokers before a restore")
        held = [
            f"/{name}" for name in await self._children("/") if name not in ("zookeeper", "ledgers")
        ]
        held += [
            f"{paths.LEDGERS}/{name}"
            for name in await self._children(paths.LEDGERS)
            if name not in OWN_LEDGER_NODES
        ]
        if await self._children(paths.MARKED_LEDGERS):
            held.append(paths.MARKED_LEDGERS)
        if held:
            raise RestoreError(
                f"the cluster is not empty: its metadata has {', '.join(held[:5])}; nothing was changed"
            )

    async def _children(self, path: str) -> list[str]:
        try:
            return await self.store.children(path)
        except NoNodeError:
            return []

    # Writing

    async def _write(self) -> None:
        writer: _LedgerCopy | None = None
        nodes: list[SavedNode] = []
        numbers: list[SavedNode] = []
        ledgers = written = 0
        async for record in self.contents.records():
            match record:
                case SavedNode():
                    nodes.append(record)
                    if record.next_number:
                        numbers.append(record)
                    if len(nodes) == NODES_AT_ONCE:
                        await self._put_nodes(nodes)
                        written += len(nodes)
                        nodes = []
                        self.progress("nodes", written)
                case SavedLedger():
                    writer = await self._open(record)
                case SavedEntries() if writer is not None:
                    await writer.add(record)
                case SavedEnd():
                    if writer is not None:
                        await writer.close(record)
                    ledgers += 1
                    writer = None
                    self.progress("ledgers", ledgers)
                case _:
                    pass  # entries of a ledger that is complete already, or that is no part of the backup
        await self._put_nodes(nodes)
        for node in numbers:
            await continue_numbers(self.store, node.path, node.next_number)

    async def _open(self, ledger: SavedLedger) -> "_LedgerCopy | None":
        """Return a writer for a ledger; None for one that needs none."""
        end = self.contents.ends.get(ledger.ledger_id)
        if end is None or await self._is_complete(end):
            return None
        copy = _LedgerCopy()
        copy.writer = await self.ledgers.create_again(
            ledger.ledger_id, decode(ledger.metadata), copy
        )
        return copy

    async def _is_complete(self, end: SavedEnd) -> bool:
        """Return whether an earlier attempt closed the ledger. Raises RestoreError when it closed another one."""
        try:
            stored = decoded(await self.store.get(paths.ledger(end.ledger_id)))
        except NoNodeError:
            return False
        if stored.state is not LedgerState.CLOSED:
            return False
        if (stored.last_entry, stored.length) != (end.last_entry, end.length):
            raise RestoreError(f"ledger {end.ledger_id} was closed with another end meanwhile")
        return True

    async def _put_nodes(self, nodes: Sequence[SavedNode]) -> None:
        # A node may stand before its parent, which is made empty then and gets its value afterwards.
        await all_of(self._put_node(node) for node in nodes)

    async def _put_node(self, node: SavedNode) -> None:
        try:
            await self.store.create(node.path, node.value, make_parents=True)
        except NodeExistsError:
            value, _ = await self.store.get(node.path)
            if value != node.value:
                await self.store.put(node.path, node.value)

    # Comparing

    async def _compare(self) -> None:
        """Read everything back. Raises RestoreError for the first difference."""
        nodes: list[SavedNode] = []
        ledgers = 0
        async for record in self.contents.records():
            if isinstance(record, SavedNode):
                nodes.append(record)
                if len(nodes) == NODES_AT_ONCE:
                    await self._compare_nodes(nodes)
                    nodes = []
            elif isinstance(record, SavedEnd):
                await self._compare_ledger(record)
                ledgers += 1
                self.progress("ledgers compared", ledgers)
        await self._compare_nodes(nodes)

    async def _compare_nodes(self, nodes: Sequence[SavedNode]) -> None:
        values, _ = await self.store.get_all([node.path for node in nodes])
        for node, stored in zip(nodes, values, strict=True):
            if stored is None or stored[0] != node.value:
                raise RestoreError(
                    f"{node.path} is not as in the backup: does another program use the metadata store?"
                )

    async def _compare_ledger(self, end: SavedEnd) -> None:
        try:
            metadata = await self.ledgers.metadata(end.ledger_id)
            reader = await self.ledgers.open(
                end.ledger_id, metadata.password or b"", recover=False, known=metadata
            )
            stored = LedgerSum(end.ledger_id)
            async with reader.scan(0, reader.last_confirmed, READ_BYTES) as scan:
                async for slices in scan:
                    for run in slices:
                        stored.add(run.first, run)
        except LedgerError as error:
            raise RestoreError(f"ledger {end.ledger_id} cannot be read back: {error}") from error
        if not reader.closed or stored.end() != end:
            raise RestoreError(f"ledger {end.ledger_id} is not as in the backup")


class _LedgerCopy:
    """A ledger that is being written, with a bounded number of unconfirmed bytes. Implements WriterListener."""

    writer: LedgerWriter

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._error: LedgerError | None = None

    def confirmed(self, below: int) -> None:
        self._changed.set()

    def failed(self, error: LedgerError) -> None:
        self._error = error
        self._changed.set()

    async def add(self, entries: SavedEntries) -> None:
        """Append entries, and wait while too many bytes are unconfirmed. Raises LedgerError."""
        self.writer.append(entries.run)
        while self.writer.pending_bytes > PENDING_BYTES and self._error is None:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    async def close(self, end: SavedEnd) -> None:
        """Close the ledger when all its entries are confirmed. Raises LedgerError; RestoreError for another end."""
        while self.writer.last_confirmed < end.last_entry and self._error is None:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        await self.writer.close()
        if (self.writer.last_confirmed, self.writer.length) != (end.last_entry, end.length):
            raise RestoreError(f"ledger {end.ledger_id} was written with another end")
