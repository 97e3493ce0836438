"""The cursors of one managed ledger: made, loaded with the topic, deleted."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.names import decode_name
from engine.base.tasks import TaskScope, UnderWay, with_pauses
from engine.ledger.errors import LedgerError
from engine.managed.ack_state import AckState
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_store import CursorStore
from engine.managed.cursors.index_ledgers import IndexLedgers
from engine.managed.cursors.persister import Persister
from engine.managed.errors import (
    CursorNotFoundError,
    CursorUnreadableError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
    RecordTooLargeError,
    StoredRecordError,
)
from engine.managed.reading.entries import LogEntries
from engine.managed.shared import Shared
from engine.managed.state import LogState
from engine.managed.stored.node import StoredNode
from engine.managed.stored.records import check_cursor_properties
from engine.managed.stored.removal import discard_cursor
from engine.managed.tenure import Tenure
from engine.managed.trimming import Trimmer
from engine.managed.writing.rolling import LedgerList
from engine.metadata import paths
from engine.metadata.store import NoNodeError, Stat

log = logging.getLogger(__name__)


class InitialPosition(Enum):
    """Where a new cursor starts: at the first entry kept, or behind the last one written."""

    EARLIEST = "earliest"
    LATEST = "latest"


class CursorSet:
    """``by_name`` holds all cursors. Changes wait for each other; the caller acts on ManagedLedgerFencedError.

    ``unread``: cursors that are or may be stored and are not in memory, and why: their storage does not answer (M14:
    they do not keep the topic from opening, M5: what it holds is not given up either), or their creation or deletion
    got no answer (M16: nobody uses a cursor of which it is not known whether it exists). They are tried again until
    they can be read or are known to be gone; nothing is trimmed before. Reading one writes it, so a deletion that
    arrives late fails.
    """

    __slots__ = (
        "_discarding",
        "_entries",
        "_list",
        "_lock",
        "_reading",
        "_reads_later",
        "_shared",
        "_state",
        "_tasks",
        "_tenure",
        "_trimmer",
        "_when_read",
        "by_name",
        "unread",
    )

    def __init__(
        self,
        state: LogState,
        tenure: Tenure,
        ledger_list: LedgerList,
        trimmer: Trimmer,
        entries: LogEntries,
        tasks: TaskScope,
        shared: Shared,
    ) -> None:
        self.by_name: dict[str, Cursor] = {}
        self.unread: dict[str, str] = {}
        self._reading = UnderWay[str, Cursor | Exception](tasks)
        self._discarding: dict[str, None] = {}
        self._reads_later = False
        self._when_read: list[Callable[[Cursor], None]] = []
        self._state = state
        self._tenure = tenure
        self._list = ledger_list
        self._trimmer = trimmer
        self._entries = entries
        self._tasks = tasks
        self._shared = shared
        self._lock = asyncio.Lock()

    def on_read(self, callback: Callable[[Cursor], None]) -> None:
        """See ``ManagedLedger.on_cursor_read``."""
        self._when_read.append(callback)

    async def load(self, children: Sequence[str], found: Mapping[str, tuple[bytes, Stat]]) -> None:
        """All stored ones, taken from their previous owner, some at a time. ``children``: names of their nodes, of
        which ``found`` are as they were read."""
        names = [decode_name(child) for child in children]
        left = [(name, found.get(child)) for name, child in zip(names, children, strict=True)][::-1]
        scope = TaskScope(f"cursors of {self._state.name}", lambda name, error: None)
        count = min(len(names), self._shared.settings.cursor_loads_max)
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
        self._read_soon()

    async def _load_some(self, left: list[tuple[str, tuple[bytes, Stat] | None]]) -> None:
        while left:
            name, found = left.pop()
            try:
                await self._load(name, found)
            except NoNodeError:
                log.debug("cursor was gone log=%s cursor=%s", self._state.name, name)
            except CursorUnreadableError as error:
                self.unread[name] = str(error)
                log.warning("topic opens without a cursor log=%s: %s", self._state.name, error)

    def _lose(self, name: str, why: str) -> None:
        """Whether the cursor is stored is not known: it is to be read again, or found to be gone (M16)."""
        self.by_name.pop(name, None)
        self.unread[name] = why
        log.warning("cursor is in doubt log=%s cursor=%s: %s", self._state.name, name, why)
        self._read_soon()

    def _read_soon(self) -> None:
        if self.unread and not self._reads_later and not self._tasks.closed:
            self._reads_later = True
            self._tasks.spawn("unread cursors", self._read_later())

    async def _read_later(self) -> None:
        """Without the lock: nobody waits here for storage that he does not need."""
        settings = self._shared.settings
        backoff = Backoff(settings.retry_initial_s, settings.retry_max_s)
        try:
            while self.unread:
                await asyncio.sleep(backoff.next_s(self._shared.entropy.random()))
                for name in list(self.unread):
                    if name not in self._discarding:
                        await self._look_again(name)
        except ManagedLedgerError as error:
            self._tenure.fenced(error)
        finally:
            self._reads_later = False

    async def _look_again(self, name: str) -> None:
        try:
            await self._read_again(name)
        except NoNodeError:
            self._gone(name)
        except (CursorUnreadableError, WorldError) as error:
            log.debug("still without a cursor log=%s: %s", self._state.name, error)

    def _gone(self, name: str) -> None:
        if self.unread.pop(name, None) is not None:
            self._trimmer.soon()

    async def _read_again(self, name: str) -> Cursor:
        """An unread cursor, read by one at a time however many want it. Cancel-safe."""
        reading = self._reading.of(name) or self._reading.begin(
            name, f"cursor {name}", self._try(name)
        )
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
        check_cursor_properties(cursor_properties)
        if name in self.unread and name not in self._discarding:
            try:
                return await self._read_again(name)
            except NoNodeError:
                self._gone(name)
        async with self._lock:
            cursor = self.by_name.get(name)
            if cursor is not None:
                return cursor
            if name in self.unread:  # since we looked, or still
                raise CursorUnreadableError(f"cursor {name} cannot be read: {self.unread[name]}")
            if initial is InitialPosition.EARLIEST:
                initial = EARLIEST
            elif initial is InitialPosition.LATEST:
                initial = LATEST
            assert isinstance(initial, Position)
            acks = AckState(self._state.line.ordinal(initial))
            if not durable:
                cursor = Cursor(name, acks, self._entries, dict(properties), None)
                self.by_name[name] = cursor
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
        state = AckSnapshot.of(acks, self._state.line, properties).state()
        cursor = self._durable(name, acks, properties, store)
        self.by_name[name] = cursor  # from now on nothing is trimmed that it needs
        try:
            while not await store.create(state, cursor_properties):
                # An attempt of ours without an answer made it, or it is left of a deletion and goes now.
                with contextlib.suppress(NoNodeError):
                    cursor = await self._load(name)
                    break
            if not await self._list.still_ours():
                raise ManagedLedgerFencedError(f"{self._state.name} was opened by another owner")
        except BaseException as error:
            self._lose(name, f"its creation is not confirmed: {_reason(error)}")
            raise
        return cursor

    async def _load(self, name: str, found: tuple[bytes, Stat] | None = None) -> Cursor:
        try:
            cursor = await self._taken(name, found)
        except (LedgerError, StoredRecordError, RecordTooLargeError) as error:
            raise CursorUnreadableError(f"cursor {name} cannot be read: {error}") from error
        except (ManagedLedgerError, WorldError, NoNodeError):
            raise
        except Exception as error:
            # Nothing here provides for it: the topic and its other cursors can be used all the same (M14).
            log.exception("cursor cannot be read log=%s cursor=%s", self._state.name, name)
            raise CursorUnreadableError(f"cursor {name} cannot be read: {error!r}") from error
        self.by_name[name] = cursor
        if self.unread.pop(name, None) is not None:
            for callback in self._when_read:
                callback(cursor)
        return cursor

    async def _taken(self, name: str, found: tuple[bytes, Stat] | None) -> Cursor:
        store = self._cursor_store(name)
        limit_s = self._shared.settings.cursor_load_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                state = await store.take(found)
        except TimeoutError:
            raise CursorUnreadableError(
                f"cursor {name} was not read within {limit_s:g} s"
            ) from None
        acks = await with_pauses(state.acking(self._state.line))
        return self._durable(name, acks, state.properties, store, state.change)

    def _durable(
        self,
        name: str,
        acks: AckState,
        properties: dict[str, int],
        store: CursorStore,
        change: bytes = b"",
    ) -> Cursor:
        properties = dict(properties)
        persister = Persister(
            name, store, acks, self._state.line, properties,
            self._tenure, self._tasks, self._shared.settings, self._shared.entropy,
        )  # fmt: skip
        persister.change = change
        index = IndexLedgers(self._shared.ledgers, persister, self._state, name)
        cursor = Cursor(name, acks, self._entries, properties, persister, index)
        persister.on_stored(lambda: self._trimmer.stored(self._limit(cursor)))
        return cursor

    def _cursor_store(self, name: str) -> CursorStore:
        shared = self._shared
        return CursorStore(
            self._node(name),
            shared.ledgers,
            shared.clock,
            shared.settings,
            self._state,
            name,
        )

    def _node(self, name: str) -> StoredNode:
        return self._shared.node(paths.cursor(self._state.name, name))

    async def delete(self, name: str) -> None:
        """Delete a cursor with its state. Raises CursorNotFoundError.

        When it fails otherwise or is cancelled the cursor is unread: it comes back whole or is found to be gone.
        """
        self._discarding[name] = None  # nobody begins to read it again
        try:
            if reading := self._reading.of(name):
                await asyncio.wait([reading])
            async with self._lock:
                await self._delete(name)
        finally:
            self._discarding.pop(name, None)

    async def _delete(self, name: str) -> None:
        if name in self.unread:  # and stays so until it is gone: nothing may be trimmed before
            await discard_cursor(self._node(name), self._shared.ledgers, self._list.still_ours)
            self.unread.pop(name, None)
            return
        cursor = self.by_name.get(name)
        if cursor is None:
            raise CursorNotFoundError(f"{self._state.name} has no cursor {name}")
        try:
            await cursor.delete()
        except BaseException as error:
            cursor.abandon(ManagedLedgerClosedError(f"cursor {name} was being deleted"))
            self._lose(name, f"its deletion is not confirmed: {_reason(error)}")
            raise
        del self.by_name[name]

    def trimmed(self) -> None:
        """Ledgers in front were dropped."""
        for cursor in list(self.by_name.values()):
            cursor.trimmed()

    def abandon(self, error: ManagedLedgerError) -> None:
        """Stop all at once without writing anything more."""
        for cursor in self.by_name.values():
            cursor.abandon(error)

    def droppable(self) -> int | None:
        """As ``consumed``, but what a change by hand passed is left while that change can be taken back."""
        if self.unread:
            return self._state.line.base
        return min((self._limit(one) for one in self.by_name.values() if one.durable), default=None)

    def _limit(self, cursor: Cursor) -> int:
        return cursor.trim_limit_at(self._shared.clock.wall_ms())

    def consumed(
        self, passed: Mapping[str, Position] | None = None, gone: Collection[str] = ()
    ) -> int | None:
        """Ordinal below which every durable cursor's persisted state needs nothing; None without durable cursors. With
        ``passed`` and ``gone`` as if those had acknowledged all up to there, and these were deleted."""
        if self.unread:
            return self._state.line.base
        to = passed or {}
        limits = [
            one.trim_limit_passed_to(to[name]) if name in to else one.trim_limit
            for name, one in self.by_name.items()
            if one.durable and name not in gone
        ]
        return min(limits) if limits else None


def _reason(error: BaseException) -> str:
    """For clients' eyes: without the error's name."""
    return str(error) or "it was cut off"
