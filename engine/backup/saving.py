"""Reading a cluster into a backup, while it runs or not; nothing is fenced, and nothing but the backup is written.

Each topic is read in an order that keeps what belongs together: first its cursors and their ledgers, then its list of
ledgers, then these up to what an ack quorum stores. So a cursor is never ahead of the messages, and every message that
was confirmed before is in (K1). A ledger that is deleted meanwhile makes the record that names it be read again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.backup.backup_manifest import Counts
from engine.backup.backup_records import (
    SavedEnd,
    SavedLedger,
    SavedNode,
    encode_end,
    encode_entries,
    encode_ledger,
    encode_node,
)
from engine.backup.errors import BackupError
from engine.backup.moved_ledgers import moved_ledgers
from engine.backup.part_files import PartWriter
from engine.backup.references import (
    UNREADABLE,
    ledgers_of_cursor,
    ledgers_of_schema,
    ledgers_of_state,
    ledgers_of_topic,
)
from engine.base.crc32c import crc32c
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.ledger.ledger_metadata import LedgerMetadata, encode
from engine.ledger.reading.reader import LedgerReader
from engine.metadata import paths
from engine.metadata.copying import RESERVED, next_number, walk
from engine.metadata.incomplete import check_complete
from engine.metadata.store import MetadataStore, NoNodeError

READ_BYTES = 1 << 20
ATTEMPTS = 100
"""Times that a record is read again because a ledger that it names was deleted meanwhile."""
DOMAIN = "persistent"
SEQUENCES = (paths.ID_GENERATOR, paths.LONG_ID_GENERATOR, "/counters")
"""Trees of nodes with sequential children, whose numbers must never be given again."""
Progress = Callable[[Counts], None]


class SavedState(NamedTuple):
    """The last entry of a saved ledger, and of a cursor's ledger the ledgers that this entry names."""

    last_entry: int
    named: list[int]


@dataclass(slots=True)
class Saver:
    """Saves one cluster by ``store`` and ``ledgers`` into ``writer``."""

    store: MetadataStore
    ledgers: LedgerClient
    writer: PartWriter
    progress: Progress = lambda counts: None
    missing: list[str] = field(default_factory=list)
    """Ledgers that records name and that do not exist, with the reason."""
    moved: dict[str, int] = field(default_factory=dict)
    """Number of ledgers that are only in tiered storage, by bucket."""
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Counts.__slots__, 0))
    _saved: dict[int, SavedState] = field(default_factory=dict)

    @property
    def counts(self) -> Counts:
        return Counts(**self._counts)

    async def save(self) -> Counts:
        """Save everything and return its numbers. Raises BackupError, IncompleteStoreError, the store's errors,
        OSError."""
        await check_complete(self.store)
        await self._save_topics(paths.MANAGED_LEDGERS)
        await self._save_schemas()
        # Behind the topics: a namespace that is created meanwhile has its policies in the backup, too.
        left_out = {*RESERVED, paths.MANAGED_LEDGERS, paths.SCHEMAS, paths.LEDGERS}
        async for node in walk(self.store, left_out=left_out):
            if not node.stat.ephemeral_owner and node.path != "/":
                number = next_number(node) if node.path.startswith(SEQUENCES) else 0
                await self._put_node(node.path, node.value, number)
        # Last: no ledger of the backup has a number that is not below these.
        for tree in (paths.ID_GENERATOR, paths.LONG_ID_GENERATOR):
            async for node in walk(self.store, start=tree):
                if not node.stat.ephemeral_owner:
                    await self._put_node(node.path, node.value, next_number(node))
        return self.counts

    # Topics

    async def _save_topics(self, path: str) -> None:
        """Save the topics below a node that is not a topic."""
        try:
            value, _ = await self.store.get(path)
            names = await self.store.children(path)
        except NoNodeError:
            return
        await self._put_node(path, value)
        depth = path.count("/")
        for name in names:
            child = f"{path}/{name}"
            # /managed-ledgers/tenant/namespace/persistent, or with a cluster before the namespace.
            if path.endswith(f"/{DOMAIN}") and depth >= 4:
                await self._save_topic(child)
            else:
                await self._save_topics(child)

    async def _save_topic(self, path: str) -> None:
        try:
            names = await self.store.children(path)
        except NoNodeError:
            return
        cursors = {}
        for name in names:
            value = await self._settled(f"{path}/{name}", self._save_cursor)
            if value is not None:
                cursors[name] = value
        record = await self._settled(path, self._save_messages)
        if record is None:
            return
        await self._put_node(path, record)
        for name, value in cursors.items():
            await self._put_node(f"{path}/{name}", value)
        self._counts["topics"] += 1
        self._counts["cursors"] += len(cursors)
        self.progress(self.counts)

    async def _settled(
        self, path: str, save: Callable[[bytes], Awaitable[list[int] | None]]
    ) -> bytes | None:
        """Return the value of a node all of whose ledgers are saved; None for a node that is not to be saved.

        ``save`` saves the ledgers that a value names, and returns those that do not exist, or None. Raises BackupError.
        """
        before: bytes | None = None
        for _ in range(ATTEMPTS):
            try:
                value, _ = await self.store.get(path)
            except NoNodeError:
                return None
            try:
                absent = await save(value)
            except UNREADABLE as error:
                self.missing.append(f"{path}: its record cannot be read: {error}")
                return value
            if absent is None:
                return None
            if not absent:
                return value
            if value == before:
                self.missing += [f"{path}: ledger {number} does not exist" for number in absent]
                return value
            before = value
        raise BackupError(f"{path} changed {ATTEMPTS} times while it was read: try again later")

    async def _save_cursor(self, value: bytes) -> list[int] | None:
        named = ledgers_of_cursor(value)
        if named is None:
            return None
        ledger_id, others = named
        absent = []
        if ledger_id >= 0:
            state = await self._save_ledger(ledger_id, holds_cursor=True)
            if state is None:
                absent.append(ledger_id)
            else:
                others = [*others, *state.named]
        return absent + await self._save_ledgers(others)

    async def _save_messages(self, value: bytes) -> list[int] | None:
        ledger_ids = ledgers_of_topic(value)
        if ledger_ids is None:
            return None
        absent = await self._save_ledgers(ledger_ids)
        if not absent:
            for ledger in moved_ledgers(value):
                bucket = str(ledger.bucket)
                self.moved[bucket] = self.moved.get(bucket, 0) + 1
        return absent

    # Schemas

    async def _save_schemas(self) -> None:
        async for node in walk(self.store, start=paths.SCHEMAS):
            if not node.value:
                await self._put_node(node.path, node.value)
                continue
            value = await self._settled(node.path, self._save_schema)
            if value is not None:
                await self._put_node(node.path, value)
                self._counts["schemas"] += 1

    async def _save_schema(self, value: bytes) -> list[int]:
        return await self._save_ledgers(ledgers_of_schema(value))

    # Ledgers

    async def _save_ledgers(self, ledger_ids: list[int]) -> list[int]:
        """Save ledgers and return those that do not exist."""
        return [number for number in ledger_ids if await self._save_ledger(number) is None]

    async def _save_ledger(
        self, ledger_id: int, *, holds_cursor: bool = False
    ) -> SavedState | None:
        """Save a ledger once; return None when it does not exist. Raises BackupError when it cannot be read."""
        saved = self._saved.get(ledger_id)
        if saved is not None:
            return saved
        try:
            metadata = await self.ledgers.metadata(ledger_id)
            last, payload = await self._copy_ledger(ledger_id, metadata)
        except NoSuchLedgerError:
            return None
        except LedgerError as error:
            if await self.store.exists(paths.ledger(ledger_id)) is None:
                return None
            raise BackupError(f"ledger {ledger_id} cannot be read: {error}") from error
        named = ledgers_of_state(payload) if holds_cursor and payload else []
        self._saved[ledger_id] = SavedState(last, named)
        return self._saved[ledger_id]

    async def _copy_ledger(self, ledger_id: int, metadata: LedgerMetadata) -> tuple[int, bytes]:
        """Write a ledger's records and return its last entry with its payload, empty for a ledger without entries."""
        reader = await self.ledgers.open(
            ledger_id, metadata.password or b"", recover=False, unconfirmed=True, known=metadata
        )
        await self.writer.put(encode_ledger(SavedLedger(ledger_id, encode(metadata))))
        length = checksum = 0
        payload = b""
        async with reader.scan(0, reader.last_confirmed, READ_BYTES) as scan:
            async for slices in scan:
                for run in slices:
                    await self.writer.put(encode_entries(run))
                    length += run.size
                    for i in range(run.count):
                        payload = run.entry(i)
                        checksum = crc32c(payload, checksum)
        await self._end_ledger(reader, length, checksum)
        return reader.last_confirmed, payload

    async def _end_ledger(self, reader: LedgerReader, length: int, checksum: int) -> None:
        last = reader.last_confirmed
        await self.writer.put(encode_end(SavedEnd(reader.ledger_id, last, length, checksum)))
        self._counts["ledgers"] += 1
        self._counts["entries"] += last + 1
        self._counts["entry_bytes"] += length
        self.progress(self.counts)

    async def _put_node(self, path: str, value: bytes, number: int = 0) -> None:
        await self.writer.put(encode_node(SavedNode(path, value, number)))
        self._counts["nodes"] += 1
