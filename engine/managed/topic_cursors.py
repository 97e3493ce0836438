"""The cursors of one managed ledger: made, loaded with the topic, deleted."""

import asyncio
from enum import Enum
from typing import Protocol

from engine.base.ids import EARLIEST, LATEST, Position
from engine.ledger.client import LedgerClient
from engine.managed.ack_state import AckState
from engine.managed.cursor import Cursor, CursorOwner
from engine.managed.cursor_store import CursorStore
from engine.managed.errors import CursorNotFoundError, ManagedLedgerFencedError
from engine.managed.records import CursorState
from engine.managed.rolling import LedgerList
from engine.managed.settings import LedgerConfig
from engine.managed.stored import StoredNode
from engine.metadata import paths
from engine.metadata.store import MetadataStore


class InitialPosition(Enum):
    """Where a new cursor starts: at the first entry kept, or behind the last one written."""

    EARLIEST = "earliest"
    LATEST = "latest"


class TopicOwner(CursorOwner, Protocol):
    """What the cursors need of their managed ledger."""

    name: str
    config: LedgerConfig


class TopicCursors:
    """``by_name`` holds all cursors. Changes wait for each other; the caller acts on ManagedLedgerFencedError."""

    def __init__(
        self,
        owner: TopicOwner,
        ledger_list: LedgerList,
        store: MetadataStore,
        ledgers: LedgerClient,
    ) -> None:
        self.by_name: dict[str, Cursor] = {}
        self._owner = owner
        self._list = ledger_list
        self._store = store
        self._ledgers = ledgers
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """All stored ones, taken from their previous owner."""
        for child in await self._store.children(paths.managed_ledger(self._owner.name)):
            await self._load(paths.decode(child))

    async def open(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int],
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> Cursor:
        """See ``ManagedLedger.open_cursor``."""
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
        state = CursorState.of(acks, self._owner.line, properties)
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
        store = self._cursor_store(name)
        state = await store.take()
        cursor = Cursor(self._owner, name, state.acks(self._owner.line), store, state.properties)
        self.by_name[name] = cursor
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
            cursor = self.by_name.get(name)
            if cursor is None:
                raise CursorNotFoundError(f"{self._owner.name} has no cursor {name}")
            await cursor.delete()
            del self.by_name[name]

    def consumed(self) -> int | None:
        """Ordinal below which every durable cursor's persisted state needs nothing; None without durable cursors."""
        limits = [one.trim_limit for one in self.by_name.values() if one.durable]
        return min(limits) if limits else None
