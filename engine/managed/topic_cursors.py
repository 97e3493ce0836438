"""The cursors of one managed ledger: made, loaded with the topic, deleted."""

import asyncio
import logging
from enum import Enum
from typing import Protocol

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.tasks import TaskScope
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.managed.ack_snapshot import AckSnapshot
from engine.managed.ack_state import AckState
from engine.managed.cursor import Cursor, CursorOwner
from engine.managed.cursor_store import CursorStore
from engine.managed.errors import (
    CursorNotFoundError,
    CursorUnreadableError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
    RecordFormatError,
)
from engine.managed.rolling import LedgerList
from engine.managed.settings import LedgerConfig
from engine.managed.stored import StoredNode
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError

log = logging.getLogger(__name__)


class InitialPosition(Enum):
    """Where a new cursor starts: at the first entry kept, or behind the last one written."""

    EARLIEST = "earliest"
    LATEST = "latest"


class TopicOwner(CursorOwner, Protocol):
    """What the cursors need of their managed ledger."""

    name: str
    config: LedgerConfig


class TopicCursors:
    """``by_name`` holds all cursors. Changes wait for each other; the caller acts on ManagedLedgerFencedError.

    ``unread``: stored cursors whose storage does not answer, and why (M14: they do not keep the topic from opening, M5:
    what it holds is not given up either). They are tried again until they can be read; nothing is trimmed before.
    """

    def __init__(
        self,
        owner: TopicOwner,
        ledger_list: LedgerList,
        store: MetadataStore,
        ledgers: LedgerClient,
    ) -> None:
        self.by_name: dict[str, Cursor] = {}
        self.unread: dict[str, str] = {}
        self._reading: dict[str, asyncio.Task[Cursor | Exception]] = {}
        self._owner = owner
        self._list = ledger_list
        self._store = store
        self._ledgers = ledgers
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """All stored ones, taken from their previous owner, some at a time."""
        owner = self._owner
        children = await self._store.children(paths.managed_ledger(owner.name))
        names = [paths.decode(child) for child in children]
        left = names[::-1]
        scope = TaskScope(f"cursors of {owner.name}", lambda name, error: None)
        count = min(len(names), owner.settings.cursor_loads_max)
        workers = [scope.spawn(str(i), self._load_some(left)) for i in range(count)]
        try:
            if workers:
                await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in workers:
                if worker.done():
                    worker.result()
        finally:
            await scope.close()
        self.by_name = {name: self.by_name[name] for name in names if name in self.by_name}
        if self.unread and not owner.tasks.closed:
            owner.tasks.spawn("unread cursors", self._read_later())

    async def _load_some(self, left: list[str]) -> None:
        while left:
            name = left.pop()
            try:
                await self._load(name)
            except CursorUnreadableError as error:
                self.unread[name] = str(error)
                log.warning("topic opens without a cursor topic=%s: %s", self._owner.name, error)

    async def _read_later(self) -> None:
        """Without the lock: nobody waits here for storage that he does not need."""
        settings = self._owner.settings
        backoff = Backoff(settings.retry_initial_s, settings.retry_max_s)
        while self.unread:
            await asyncio.sleep(backoff.next_s(self._owner.entropy.random()))
            for name in list(self.unread):
                try:
                    await self._read_again(name)
                except NoNodeError:
                    self.unread.pop(name, None)  # deleted behind our back: nothing to wait for
                except (CursorUnreadableError, WorldError) as error:
                    log.debug("still without a cursor topic=%s: %s", self._owner.name, error)
                except ManagedLedgerError as error:
                    self._owner.fenced(error)
                    return

    async def _read_again(self, name: str) -> Cursor:
        """An unread cursor, read by one at a time however many want it. Cancel-safe."""
        reading = self._reading.get(name)
        if reading is None:
            reading = self._owner.tasks.spawn(f"cursor {name}", self._try(name))
            self._reading[name] = reading
            reading.add_done_callback(lambda _: self._reading.pop(name, None))
        found = await asyncio.shield(reading)
        if isinstance(found, Exception):
            raise found
        return found

    async def _try(self, name: str) -> Cursor | Exception:
        try:
            return await self._load(name)
        except CursorUnreadableError as error:
            self.unread[name] = str(error)
            return error
        except (ManagedLedgerError, WorldError, NoNodeError) as error:
            return error

    async def open(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int],
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> Cursor:
        """See ``ManagedLedger.open_cursor``."""
        if name in self.unread:
            return await self._read_again(name)
        async with self._lock:
            cursor = self.by_name.get(name)
            if cursor is not None:
                return cursor
            if initial is InitialPosition.EARLIEST:
                initial = EARLIEST
            elif initial is InitialPosition.LATEST:
                initial = LATEST
            assert isinstance(initial, Position)
            acks = AckState(self._owner.line.ordinal(initial))
            if not durable:
                cursor = self.by_name[name] = Cursor(self._owner, name, acks, None, properties)
                return cursor
            return await self._make(name, acks, properties, cursor_properties)

    async def _make(
        self,
        name: str,
        acks: AckState,
        properties: dict[str, int],
        cursor_properties: dict[str, str],
    ) -> Cursor:
        store = self._cursor_store(name)
        state = AckSnapshot.of(acks, self._owner.line, properties).state()
        cursor = Cursor(self._owner, name, acks, store, properties)
        self.by_name[name] = cursor  # from now on nothing is trimmed that it needs
        try:
            made = await store.create(state, cursor_properties)
            if not await self._list.still_ours():
                raise ManagedLedgerFencedError(f"{self._owner.name} was opened by another owner")
            if not made:
                return await self._load(name)
        except BaseException:
            del self.by_name[name]
            raise
        return cursor

    async def _load(self, name: str) -> Cursor:
        owner, store = self._owner, self._cursor_store(name)
        limit_s = owner.settings.cursor_load_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                state = await store.take()
        except TimeoutError:
            raise CursorUnreadableError(
                f"cursor {name} was not read within {limit_s:g} s"
            ) from None
        except (LedgerError, RecordFormatError) as error:
            raise CursorUnreadableError(f"cursor {name} cannot be read: {error}") from error
        cursor = Cursor(owner, name, state.acks(owner.line), store, state.properties)
        self.by_name[name] = cursor
        self.unread.pop(name, None)
        return cursor

    def _cursor_store(self, name: str) -> CursorStore:
        owner = self._owner
        node = StoredNode(
            self._store, paths.cursor(owner.name, name), owner.entropy, owner.settings
        )
        return CursorStore(
            node,
            self._ledgers,
            owner.clock,
            owner.settings,
            lambda: owner.config,
            self._list.custom(name),
        )

    async def delete(self, name: str) -> None:
        """Delete a cursor with its state. Raises CursorNotFoundError."""
        async with self._lock:
            if name in self._reading:
                await asyncio.wait([self._reading[name]])
            if name in self.unread:
                await self._discard(name)
                return
            cursor = self.by_name.get(name)
            if cursor is None:
                raise CursorNotFoundError(f"{self._owner.name} has no cursor {name}")
            await cursor.delete()
            del self.by_name[name]

    async def _discard(self, name: str) -> None:
        """Delete a cursor that was never read."""
        why = self.unread.pop(name)  # nobody begins to read it again
        try:
            await self._cursor_store(name).discard()
        except BaseException:
            self.unread[name] = why
            raise

    def consumed(self) -> int | None:
        """Ordinal below which every durable cursor's persisted state needs nothing; None without durable cursors."""
        if self.unread:
            return self._owner.line.base
        limits = [one.trim_limit for one in self.by_name.values() if one.durable]
        return min(limits) if limits else None
