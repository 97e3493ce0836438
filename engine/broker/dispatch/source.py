"""Entries of one cursor on their way to a dispatcher: read ahead of permits, given back, read again.

At most one read is under way; a rewind waits for it, so that a late answer neither is delivered nor moves the cursor
(D7). Its end wakes the dispatcher (D2).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.slices import Pick, View
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.dispatch.ports import DispatchCursor
from engine.managed.errors import ManagedLedgerClosedError, ManagedLedgerFencedError

log = logging.getLogger(__name__)


class EntrySource:
    """What ``cursor`` still has to deliver. ``ready`` is called (never from inside ``next``) when a read has ended."""

    __slots__ = (
        "_acked_ahead",
        "_again",
        "_backoff",
        "_closed",
        "_context",
        "_entropy",
        "_failing",
        "_held",
        "_reading",
        "_ready",
        "_replaying",
        "_rest",
        "_rewind_due",
        "cursor",
        "scope",
    )

    def __init__(
        self,
        cursor: DispatchCursor,
        scope: TaskScope,
        context: Context,
        ready: Callable[[], None],
    ) -> None:
        self.cursor = cursor
        self.scope = scope
        self._context = context
        self._entropy = context.entropy
        self._backoff = Backoff()
        self._ready = ready
        # A deque is 620 bytes, and most subscriptions of many are idle: made with the first view.
        self._again: deque[View] | tuple[()] = ()
        """What was replayed or given back: it comes first."""
        self._held: deque[View] | tuple[()] = ()
        self._rest: list[Position] | tuple[()] = ()
        """What is replayed next: the buffers of all of it may be too many bytes."""
        self._reading: asyncio.Task[None] | None = None
        self._replaying = False
        self._rewind_due = False
        self._acked_ahead = False
        self._failing = False
        self._closed = False

    @property
    def waiting_for(self) -> str:
        """What ends the wait when ``next`` gave None: "append", "read" (storage answers) or "retry" (a timer)."""
        if self._failing:
            return "retry"
        return "read" if self._reading is not None else "append"

    @property
    def holds(self) -> bool:
        """Whether entries were read and not yet delivered."""
        return bool(self._again or self._held)

    @property
    def holds_first(self) -> bool:
        """Whether what was replayed or given back was not yet delivered."""
        return bool(self._again)

    @property
    def replaying(self) -> bool:
        """Whether what was asked for again is being read."""
        return self._replaying and self._reading is not None

    def next(self, entries_max: int, *, new: bool = True) -> View | None:
        """The next entries, in order; None when there are none now (see ``waiting_for``).

        Without ``new`` only what was replayed or given back.
        """
        while True:
            while queue := self._again or (self._held if new else ()):
                view = queue.popleft()
                if self._rest:
                    self._go_on()
                if not self._acked_ahead:
                    return view
                left = self.unacknowledged(view)
                if left is not None:
                    return left
            if not self.idle or not new:
                return None
            self._acked_ahead = False
            settings = self._context.settings
            entries = min(max(entries_max, 1), settings.dispatcher_max_read_batch_size)
            size = settings.dispatcher_max_read_size_bytes
            try:
                views = self.cursor.read_nowait(entries, size)
            except (ManagedLedgerFencedError, ManagedLedgerClosedError):
                return None  # the topic is on its way out and sends its consumers away, one after the other
            if views is None:
                self._start("read", partial(self.cursor.read, entries, size), front=False)
                return None
            if not views:
                return None
            self._hold(views)

    def _hold(self, views: list[View]) -> None:
        if isinstance(self._held, tuple):
            self._held = deque()
        self._held.extend(views)

    def _hold_first(self, views: Iterable[View]) -> None:
        """``views`` in reverse."""
        if isinstance(self._again, tuple):
            self._again = deque()
        self._again.extendleft(views)

    def give_back(self, view: View) -> None:
        """``view`` could not be delivered now; it comes first again."""
        self._hold_first((view,))

    def replay(self, positions: list[Position]) -> bool:
        """Read ``positions`` again, ahead of all else, some at a time; False while a read is under way (ask again
        later)."""
        if not self.idle:
            return False
        self._acked_ahead = True  # some may be acknowledged before they are sent
        self._rest = [*positions, *self._rest]
        self._go_on()
        return True

    def _go_on(self) -> None:
        """Read more of what is to be replayed once all that was read of it is taken."""
        if self._rest and not self._again and self.idle:
            positions, self._rest = self._rest, ()
            self._start("replay", partial(self._read_again, positions), front=True)

    async def _read_again(self, positions: Sequence[Position]) -> list[View]:
        size = self._context.settings.dispatcher_max_read_size_bytes
        views = await self.cursor.replay(positions, size)
        if views:
            last = views[-1].last_position
            self._rest = [position for position in positions if position > last]
        return views

    @property
    def idle(self) -> bool:
        """Whether a read could start now."""
        return self._reading is None and not self._closed

    def first_partial(self, view: View) -> int | None:
        """How many entries of ``view`` lie before the first batch that is acknowledged in part; None without any."""
        cursor = self.cursor
        if not cursor.has_partial_batches:
            return None
        run = view.run
        for before, i in enumerate(view.indexes):
            if cursor.ack_set(run.position(i)) is not None:
                return before
        return None

    def unacknowledged(self, view: View) -> View | None:
        """The entries in ``view`` that are still due."""
        run, cursor = view.run, self.cursor
        due = [i for i in view.indexes if not cursor.is_acknowledged(run.position(i))]
        if len(due) == view.count:
            return view
        return Pick(run, due) if due else None

    def acknowledged_ahead(self) -> None:
        """Something may have been acknowledged before it was delivered: look before delivering what is held."""
        if self.holds or self._reading is not None:
            self._acked_ahead = True

    def read_from(self, cursor: DispatchCursor) -> None:
        """Go on with the first unacknowledged entry of ``cursor``, another view of the same subscription."""
        self.cursor = cursor
        self.rewind()

    def rewind(self) -> None:
        """Drop what is held and start over at the first unacknowledged entry."""
        self._drop()
        if self._reading is not None:
            self._rewind_due = True
        else:
            self.cursor.rewind()

    async def settle(self) -> None:
        """Wait until no read is under way; what is held is dropped. For a reset of the cursor."""
        while (reading := self._reading) is not None:
            self._rewind_due = True
            await asyncio.wait([reading])
            if self._reading is reading:
                self._reading = None  # cancelled with the topic before it began: nobody was told
        self._drop()

    def close(self) -> None:
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        self._again = self._held = self._rest = ()

    def _start(self, what: str, call: Callable[[], Awaitable[list[View]]], front: bool) -> None:
        self._replaying = front
        self._reading = self.scope.spawn(what, self._fetch(call, front))

    async def _fetch(self, call: Callable[[], Awaitable[list[View]]], front: bool) -> None:
        views: list[View] = []
        try:
            views = await self._insist(call)
        finally:
            self._reading = None
            self._failing = False
        if self._closed:
            return
        if self._rewind_due:
            self._rewind_due = False
            self._rest = ()
            self.cursor.rewind()
        elif front:
            self._hold_first(reversed(_together(views)))
        else:
            self._hold(views)
        self._go_on()
        self._ready()

    async def _insist(self, call: Callable[[], Awaitable[list[View]]]) -> list[View]:
        """Try until it works or a rewind makes it pointless; storage may be away for a while."""
        while not self._rewind_due:
            try:
                views = await call()
            except MagnetarError as error:
                if not self._failing:
                    self._failing = True
                    log.warning(
                        "reading failed, trying again cursor=%s: %s", self.cursor.name, error
                    )
            else:
                self._backoff.reset()
                return views
            await asyncio.sleep(self._backoff.next_s(self._entropy.random()))
        return []


def _together(views: list[View]) -> list[View]:
    """What follows each other in one slice as one: it is sent in one go."""
    out: list[View] = []
    for run, those in groupby(views, lambda view: view.run):
        first, *more = those
        out.append(Pick(run, [i for v in (first, *more) for i in v.indexes]) if more else first)
    return out
