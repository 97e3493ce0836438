"""The times at which a cursor's state is written: lazily, or at once when a caller waits, and never two writes at a
time.

Each change increments a version. A write contains the complete state and remembers the version it had. So everything
acknowledged during a write is part of the next one, and no older state is written after a newer one (M4, M9, I38: a
reset is one more version; marks queued before it are part of what it replaces).
"""

import asyncio
import logging
from collections.abc import Callable

from engine.base.backoff import Backoff
from engine.base.entropy import Entropy
from engine.base.errors import WorldError
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerError
from engine.managed.ack_state import AckState
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.cursors.cursor_store import CursorStore
from engine.managed.errors import (
    CursorStateTooLargeError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
    RecordTooLargeError,
)
from engine.managed.positions import LedgerLine
from engine.managed.settings import ManagedSettings
from engine.managed.tenure import Tenure

log = logging.getLogger(__name__)

BLOCK_AT = 0.75
"""Part of the largest state from which on dispatch pauses."""
COST_SHARE = 20
"""Least ratio of the pause before a lazy write to the time that encoding took last: large states are written less
often."""


class Persister:
    """Makes the state of a durable cursor durable. ``mark``: ordinal of the mark-delete position that would survive a
    crash now."""

    __slots__ = (
        "_acks",
        "_due_s",
        "_ended",
        "_entropy",
        "_flush",
        "_line",
        "_name",
        "_on_stored",
        "_properties",
        "_settings",
        "_stored_version",
        "_tasks",
        "_tenure",
        "_timer",
        "_version",
        "_waiters",
        "change",
        "mark",
        "near_limit",
        "state_bytes",
        "store",
    )

    def __init__(
        self,
        name: str,
        store: CursorStore,
        acks: AckState,
        line: LedgerLine,
        properties: dict[str, int],
        tenure: Tenure,
        tasks: TaskScope,
        settings: ManagedSettings,
        entropy: Entropy,
    ) -> None:
        """``acks`` and ``properties`` are the cursor's own objects, which it changes at any time."""
        self.store = store
        self.mark = acks.mark
        self.state_bytes = 0
        self.near_limit = False
        self.change = b""
        """The cursor's last change by an administrator, encoded; part of the state."""
        self._name = name
        self._acks = acks
        self._line = line
        self._properties = properties
        self._tenure = tenure
        self._tasks = tasks
        self._settings = settings
        self._entropy = entropy
        self._on_stored: list[Callable[[], None]] = []
        self._version = 0
        self._stored_version = 0
        self._due_s = float("-inf")
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._flush: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def on_stored(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each write. Must not raise."""
        self._on_stored.append(callback)

    @property
    def limit_bytes(self) -> int:
        """The largest state that can be stored."""
        return self._settings.cursor_state_bytes_max

    def snapshot(self) -> AckSnapshot:
        """Return the present state."""
        return AckSnapshot.of(self._acks, self._line, self._properties, self.change)

    def changed(self) -> None:
        """Schedule a write, because the state changed."""
        self._version += 1
        if self._flush is None and self._timer is None:
            self._schedule()

    async def wait(self, check: Callable[[], None]) -> None:
        """Return when the present state survives a crash and may be confirmed. ``check`` raises when it never will.
        Cancel-safe."""
        if self._stored_version < self._version:
            check()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((self._version, waiter))
            self._start()
            await waiter
        if not self._tenure.proven():
            check()

    async def write_properties(self, properties: dict[str, str]) -> None:
        """Replace the subscription's properties; durable before it returns.

        Raises LedgerError and the store's errors when they may or may not be stored, ManagedLedgerFencedError when
        another owner took over.
        """
        with self._tenure.owned():
            await self.store.write_properties(self.snapshot(), properties)

    async def replacing(self, old: int, new: int) -> None:
        """Call ``CursorStore.replacing``. Raises as ``write_properties``."""
        with self._tenure.owned():
            await self.store.replacing(self.snapshot(), old, new)

    async def replaced(self, kept: int) -> None:
        """Call ``CursorStore.replaced``. Raises as ``write_properties``."""
        with self._tenure.owned():
            await self.store.replaced(self.snapshot(), kept)

    async def begin_index(self, ledger_id: int) -> None:
        """Call ``CursorStore.begin_index``. Raises as ``write_properties``."""
        with self._tenure.owned():
            await self.store.begin_index(self.snapshot(), ledger_id)

    async def write_index(self, index: dict[int, int]) -> None:
        """Call ``CursorStore.write_index``. Raises as ``write_properties``."""
        with self._tenure.owned():
            await self.store.write_index(self.snapshot(), index)

    async def close(self) -> None:
        """Write the last state to its final place. Raises the error that prevents it; stopped in any case."""
        await self.stop()
        state, self.mark = self.snapshot(), self._acks.mark
        try:
            changed = self._version > self._stored_version
            await self.store.close(state, state.encode(), changed)
        except BaseException:
            closed = ManagedLedgerClosedError(f"cursor {self._name} was not persisted")
            self.abandon(closed)
            raise
        self._stored(self._version)

    async def stop(self) -> None:
        """End the write in progress and start no other. Callers of ``wait`` wait until ``abandon``."""
        self._stop()
        if self._flush is not None:
            await asyncio.wait([self._flush])

    def abandon(self, error: ManagedLedgerError) -> None:
        """Stop at once without writing anything more."""
        self._stop()
        self._fail(error)
        self.store.abandon()

    def _stop(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flush is not None:
            self._flush.cancel()

    @property
    def _is_stopped(self) -> bool:
        """True when no further write is started, because this or the topic ended."""
        return self._ended or self._tasks.closed

    def _schedule(self) -> None:
        if not self._is_stopped:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(self._due_s, loop.time()), self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flush is None and not self._is_stopped:
            self._flush = self._tasks.spawn(f"cursor {self._name}", self._run())

    async def _run(self) -> None:
        """Write the newest state until no caller waits for a newer one; failures of storage are tried again."""
        settings = self._settings
        backoff = Backoff(settings.retry_initial_s, settings.retry_max_s)
        warned = False
        try:
            while True:
                try:
                    await self._write()
                except (LedgerError, WorldError) as error:
                    if not warned:
                        warned = True
                        log.warning("cursor is not persisted name=%s error=%s", self._name, error)
                    await asyncio.sleep(backoff.next_s(self._entropy.random()))
                    continue
                except (CursorStateTooLargeError, RecordTooLargeError) as error:
                    self._fail(error)
                if not self._waiters:
                    break
        except ManagedLedgerError as error:
            self._fail(error)
            self._tenure.fenced(error)
        except Exception as error:
            # After an unexpected error the callers must not wait for ever, and the write must not be retried without a
            # pause.
            log.exception("cursor cannot be written name=%s", self._name)
            self._fail(ManagedLedgerError(f"cursor {self._name} cannot be written: {error!r}"))
            self._due_s = asyncio.get_running_loop().time() + settings.retry_max_s
        finally:
            self._flush = None
            if self._version > self._stored_version:
                self._schedule()

    async def _write(self) -> None:
        settings = self._settings
        version = self._version
        began_s = asyncio.get_running_loop().time()
        state, mark = self.snapshot(), self._acks.mark
        payload, cost_s = await _encoded(state)
        self.state_bytes = len(payload)
        limit = settings.cursor_state_bytes_max
        self.near_limit = len(payload) >= limit * BLOCK_AT
        self._due_s = began_s + max(settings.cursor_persist_interval_s, cost_s * COST_SHARE)
        if len(payload) > limit:  # M6: kept, not shortened; ``Cursor.blocked`` pauses dispatch
            text = f"acknowledgements have {len(payload)} bytes, at most {limit} can be stored"
            raise CursorStateTooLargeError(f"cursor {self._name}: {text}")
        await self.store.write(state, payload)
        self.mark = mark
        self._stored(version)
        for callback in self._on_stored:
            callback()

    def _stored(self, version: int) -> None:
        self._stored_version = version
        waiting = self._waiters
        self._waiters = [row for row in waiting if row[0] > version]
        for wanted, waiter in waiting:
            if wanted <= version and not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        waiting, self._waiters = self._waiters, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)


async def _encoded(state: AckSnapshot) -> tuple[bytes, float]:
    """Encode with pauses for other tasks. Return the bytes and the seconds that it took without the pauses."""
    loop = asyncio.get_running_loop()
    steps = state.encoding()
    cost_s = 0.0
    while True:
        began_s = loop.time()
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value), cost_s + loop.time() - began_s
        cost_s += loop.time() - began_s
        await asyncio.sleep(0)
