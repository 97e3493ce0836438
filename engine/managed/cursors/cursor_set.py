"""The cursors of one managed ledger: created, loaded with the topic, deleted."""

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
    """The start of a new cursor: at the first existing entry, or behind the last one."""

    EARLIEST = "earliest"
    LATEST = "latest"


class CursorSet:
    """All cursors of a managed ledger, in ``by_name``. Changes are made one at a time; the caller acts on
    ManagedLedgerFencedError.

    ``unread``: cursors that are stored, or may be, and are not in memory, with the reason. Either their storage does
    not answer: they do not prevent the topic from opening (M14), and their stored state is not given up (M5). Or their
    creation or deletion got no answer: a cursor that may not exist is not used (M16). Reading is retried until they can
    be read or are known not to exist; nothing is trimmed before. Reading a cursor writes its node, so a deletion that
    arrives late fails.
    """

    __slots__ = (
        "_discarding",
        "_entries",
        "_is_retrying",
        "_list",
        "_lock",
        "_reading",
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
        self._is_retrying = False
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
        """Register as ``ManagedLedger.on_cursor_read``."""
        self._when_read.append(callback)

    async def load(self, children: Sequence[str], nodes: Mapping[str, tuple[bytes, Stat]]) -> None:
        """Take all stored cursors over from their previous owner, some at a time. ``children``: names of their nodes.
        ``nodes``: value and stat of those that were read already."""
        names = [decode_name(child) for child in children]
        # Reversed, because the workers remove from the end.
        pairs = zip(names, children, strict=True)
        remaining = [(name, nodes.get(child)) for name, child in pairs][::-1]
        scope = TaskScope(f"cursors of {self._state.name}", lambda name, error: None)
        count = min(len(names), self._shared.settings.cursor_loads_max)
        workers = [scope.spawn(str(i), self._load_some(remaining)) for i in range(count)]
        try:
            if workers:
                await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in workers:
                if worker.done():
                    worker.result()
        finally:
            await scope.close()
        # In the order of the nodes, not in the order in which loading ended.
        self.by_name = {name: self.by_name[name] for name in names if name in self.by_name}
        self._start_retrying()

    async def _load_some(self, remaining: list[tuple[str, tuple[bytes, Stat] | None]]) -> None:
        """Load cursors until none remains. One whose storage does not answer is marked as unread."""
        while remaining:
            name, node = remaining.pop()
            try:
                await self._load(name, node)
            except NoNodeError:
                log.debug("cursor does not exist any more log=%s cursor=%s", self._state.name, name)
            except CursorUnreadableError as error:
                self.unread[name] = str(error)
                log.warning("topic opens without a cursor log=%s: %s", self._state.name, error)

    def _mark_unread(self, name: str, why: str) -> None:
        """Mark a cursor of which it is unknown whether it is stored. It is read again, or found not to exist (M16)."""
        self.by_name.pop(name, None)
        self.unread[name] = why
        log.warning("cursor is in doubt log=%s cursor=%s: %s", self._state.name, name, why)
        self._start_retrying()

    def _start_retrying(self) -> None:
        if self.unread and not self._is_retrying and not self._tasks.closed:
            self._is_retrying = True
            self._tasks.spawn("unread cursors", self._retry_unread())

    async def _retry_unread(self) -> None:
        """Read unread cursors until there are none. Without the lock, so that no caller waits for storage that it does
        not need."""
        settings = self._shared.settings
        backoff = Backoff(settings.retry_initial_s, settings.retry_max_s)
        try:
            while self.unread:
                await asyncio.sleep(backoff.next_s(self._shared.entropy.random()))
                for name in list(self.unread):
                    if name not in self._discarding:
                        await self._retry(name)
        except ManagedLedgerError as error:
            self._tenure.fenced(error)
        finally:
            self._is_retrying = False

    async def _retry(self, name: str) -> None:
        try:
            await self._read_again(name)
        except NoNodeError:
            self._forget_unread(name)
        except (CursorUnreadableError, WorldError) as error:
            log.debug("still without a cursor log=%s: %s", self._state.name, error)

    def _forget_unread(self, name: str) -> None:
        if self.unread.pop(name, None) is not None:
            self._trimmer.soon()

    async def _read_again(self, name: str) -> Cursor:
        """Return an unread cursor. Concurrent callers share one read. Cancel-safe."""
        reading = self._reading.of(name) or self._reading.begin(
            name, f"cursor {name}", self._read_once(name)
        )
        result = await asyncio.shield(reading)
        if isinstance(result, Exception):
            raise result
        return result

    async def _read_once(self, name: str) -> Cursor | Exception:
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
        """Open or create a cursor as ``ManagedLedger.open_cursor``."""
        check_cursor_properties(cursor_properties)
        if name in self.unread and name not in self._discarding:
            try:
                return await self._read_again(name)
            except NoNodeError:
                self._forget_unread(name)
        async with self._lock:
            cursor = self.by_name.get(name)
            if cursor is not None:
                return cursor
            if name in self.unread:  # it may have been added while this call waited for the lock
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
            return await self._create(name, acks, properties, cursor_properties)

    async def _create(
        self,
        name: str,
        acks: AckState,
        properties: dict[str, int],
        cursor_properties: dict[str, str],
    ) -> Cursor:
        store = self._cursor_store(name)
        state = AckSnapshot.of(acks, self._state.line, properties).state()
        cursor = self._durable(name, acks, properties, store)
        self.by_name[name] = cursor  # from now on, trimming keeps the entries that it needs
        try:
            while not await store.create(state, cursor_properties):
                # An attempt without an answer created it, or it remains of a deletion, which loading finishes.
                with contextlib.suppress(NoNodeError):
                    cursor = await self._load(name)
                    break
            if not await self._list.is_unchanged():
                raise ManagedLedgerFencedError(f"{self._state.name} was opened by another owner")
        except BaseException as error:
            self._mark_unread(name, f"its creation is not confirmed: {_reason(error)}")
            raise
        return cursor

    async def _load(self, name: str, node: tuple[bytes, Stat] | None = None) -> Cursor:
        try:
            cursor = await self._take_over(name, node)
        except (LedgerError, StoredRecordError, RecordTooLargeError) as error:
            raise CursorUnreadableError(f"cursor {name} cannot be read: {error}") from error
        except (ManagedLedgerError, WorldError, NoNodeError):
            raise
        except Exception as error:
            # An unexpected error must not prevent the use of the topic and its other cursors (M14).
            log.exception("cursor cannot be read log=%s cursor=%s", self._state.name, name)
            raise CursorUnreadableError(f"cursor {name} cannot be read: {error!r}") from error
        self.by_name[name] = cursor
        if self.unread.pop(name, None) is not None:
            for callback in self._when_read:
                callback(cursor)
        return cursor

    async def _take_over(self, name: str, node: tuple[bytes, Stat] | None) -> Cursor:
        store = self._cursor_store(name)
        limit_s = self._shared.settings.cursor_load_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                state = await store.take(node)
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

        When it fails otherwise or is cancelled, the cursor is unread: it is loaded again with its complete state, or
        found not to exist.
        """
        self._discarding[name] = None  # no further read of it is started
        try:
            if reading := self._reading.of(name):
                await asyncio.wait([reading])
            async with self._lock:
                await self._delete(name)
        finally:
            self._discarding.pop(name, None)

    async def _delete(self, name: str) -> None:
        # It stays unread until it is deleted, since nothing may be trimmed before.
        if name in self.unread:
            await discard_cursor(self._node(name), self._shared.ledgers, self._list.is_unchanged)
            self.unread.pop(name, None)
            return
        cursor = self.by_name.get(name)
        if cursor is None:
            raise CursorNotFoundError(f"{self._state.name} has no cursor {name}")
        try:
            await cursor.delete()
        except BaseException as error:
            cursor.abandon(ManagedLedgerClosedError(f"cursor {name} was being deleted"))
            self._mark_unread(name, f"its deletion is not confirmed: {_reason(error)}")
            raise
        del self.by_name[name]

    def trimmed(self) -> None:
        """Notify the cursors that ledgers at the front were dropped."""
        for cursor in list(self.by_name.values()):
            cursor.trimmed()

    def abandon(self, error: ManagedLedgerError) -> None:
        """Stop all cursors at once without writing anything more."""
        for cursor in self.by_name.values():
            cursor.abandon(error)

    def trim_limit(self) -> int:
        """Return the ordinal below which trimming may delete entries. It is that of ``consumed``, lowered to keep the
        entries passed by a change that can still be undone."""
        line = self._state.line
        if self.unread:
            return line.base
        limits = (self._limit(cursor) for cursor in self.by_name.values() if cursor.durable)
        return min([line.readable_to, *limits])

    def marks(self) -> dict[str, int]:
        """Return the ordinal by durable cursor below which its persisted state needs no entry."""
        return {name: item.trim_limit for name, item in self.by_name.items() if item.durable}

    def _limit(self, cursor: Cursor) -> int:
        return cursor.trim_limit_at(self._shared.clock.wall_ms())

    def consumed(
        self, passed: Mapping[str, Position] | None = None, deleted: Collection[str] = ()
    ) -> int:
        """Return the ordinal below which no durable cursor's persisted state needs an entry, and no entry waits to
        become readable (I40).

        Cursors of ``passed`` count as having acknowledged all entries up to these positions, those of ``deleted`` as
        deleted.
        """
        line = self._state.line
        if self.unread:
            return line.base
        positions = passed or {}
        limits = (
            cursor.trim_limit_passed_to(positions[name]) if name in positions else cursor.trim_limit
            for name, cursor in self.by_name.items()
            if cursor.durable and name not in deleted
        )
        return min([line.readable_to, *limits])


def _reason(error: BaseException) -> str:
    """Return an error's text for clients, without the name of its class."""
    return str(error) or "it was interrupted"
