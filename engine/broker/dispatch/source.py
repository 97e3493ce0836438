"""Entries of one cursor for a dispatcher: read ahead of permits, given back, read again. Markers and the messages of
aborted transactions are left out (D17, X1).

At most one read is under way; a rewind waits for it, so that a late answer neither is delivered nor moves the cursor
(D7). The end of a read wakes the dispatcher (D2).
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
from engine.broker.dispatch.facts import MARKER, hidden_of
from engine.broker.dispatch.ports import DispatchCursor, Transactional
from engine.managed.errors import ManagedLedgerClosedError, ManagedLedgerFencedError

log = logging.getLogger(__name__)


class EntrySource:
    """Entries that ``cursor`` still has to deliver. ``ready`` is called, never from inside ``next``, after a read.

    ``left_out`` is called with the entries that were read and are left out; with None none is. ``topic`` knows which
    transactions are aborted. ``wanted``: the facts that the dispatcher wants of the entries, as of ``facts_of``.
    """

    __slots__ = (
        "_acked_ahead",
        "_backoff",
        "_closed",
        "_context",
        "_entropy",
        "_failing",
        "_first",
        "_held",
        "_left_out",
        "_reading",
        "_ready",
        "_replaying",
        "_rewind_due",
        "_to_replay",
        "_topic",
        "cursor",
        "scope",
        "wanted",
    )

    def __init__(
        self,
        cursor: DispatchCursor,
        scope: TaskScope,
        context: Context,
        ready: Callable[[], None],
        left_out: Callable[[list[View]], None] | None,
        topic: Transactional,
    ) -> None:
        self.cursor = cursor
        self._topic = topic
        self.wanted = MARKER
        self.scope = scope
        self._context = context
        self._entropy = context.entropy
        self._backoff = Backoff()
        self._ready = ready
        self._left_out = left_out
        # A deque takes 620 bytes, and of many subscriptions most are idle: it is created with the first view.
        self._first: deque[View] | tuple[()] = ()
        """Entries replayed or given back, which are delivered first."""
        self._held: deque[View] | tuple[()] = ()
        """Entries read ahead."""
        self._to_replay: list[Position] | tuple[()] = ()
        """Positions not replayed yet, because the buffers of all of them may be too many bytes."""
        self._reading: asyncio.Task[None] | None = None
        self._replaying = False
        self._rewind_due = False
        self._acked_ahead = False
        self._failing = False
        self._closed = False

    @property
    def waiting_for(self) -> str:
        """The event that ends the wait after ``next`` returned None: "append", "read" or "retry" (after a failure)."""
        if self._failing:
            return "retry"
        return "read" if self._reading is not None else "append"

    @property
    def holds(self) -> bool:
        """True when entries were read and not yet delivered."""
        return bool(self._first or self._held)

    @property
    def holds_first(self) -> bool:
        """True when entries were replayed or given back and not yet delivered."""
        return bool(self._first)

    @property
    def first_held(self) -> Position | None:
        """The first entry that was read and not yet delivered; None without one."""
        queue = self._first or self._held
        return queue[0].run.position(queue[0].indexes[0]) if queue else None

    @property
    def replaying(self) -> bool:
        """True when a replay is being read."""
        return self._replaying and self._reading is not None

    def next(self, entries_max: int, *, new: bool = True) -> View | None:
        """Return the next entries, in order; None when there are none now (see ``waiting_for``).

        Without ``new``: only entries that were replayed or given back.
        """
        while True:
            while queue := self._first or (self._held if new else ()):
                view = queue.popleft()
                if self._to_replay:
                    self._continue_replay()
                if not self._acked_ahead:
                    return view
                due = self.unacknowledged(view)
                if due is not None:
                    return due
            if not self.idle or not new:
                return None
            # Nothing is held: entries read from here on are unacknowledged when they are read.
            self._acked_ahead = False
            settings = self._context.settings
            entries = min(max(entries_max, 1), settings.dispatcher_max_read_batch_size)
            size = settings.dispatcher_max_read_size_bytes
            try:
                views = self.cursor.read_nowait(entries, size)
            except (ManagedLedgerFencedError, ManagedLedgerClosedError):
                return None  # the topic is closing and disconnects its consumers one by one
            if views is None:
                self._start("read", partial(self.cursor.read, entries, size), front=False)
                return None
            if not views:
                return None
            self._hold(self._messages(views))

    def _messages(self, views: list[View]) -> list[View]:
        """Return ``views`` without the markers and the messages of aborted transactions in them."""
        if self._left_out is None:
            return views
        aborted = self._topic.aborted
        for view in views:
            if hidden_of(view.run, self.wanted, aborted):  # rare: brokers write few
                break
        else:
            return views
        messages: list[View] = []
        left_out: list[View] = []
        for view in views:
            run, places = view.run, set(hidden_of(view.run, MARKER, aborted))
            indexes = [i for i in view.indexes if i not in places]
            if len(indexes) < view.count:
                left_out.append(Pick(run, [i for i in view.indexes if i in places]))
            if len(indexes) == view.count:
                messages.append(view)
            elif indexes:
                messages.append(Pick(run, indexes))
        if left_out:
            self._left_out(left_out)
        return messages

    def _hold(self, views: list[View]) -> None:
        if isinstance(self._held, tuple):
            self._held = deque()
        self._held.extend(views)

    def _hold_first(self, views: Iterable[View]) -> None:
        """Put ``views``, which are in reverse order, before all other entries."""
        if isinstance(self._first, tuple):
            self._first = deque()
        self._first.extendleft(views)

    def give_back(self, view: View) -> None:
        """Return an undelivered ``view``, to be delivered before all other entries."""
        self._hold_first((view,))

    def replay(self, positions: list[Position]) -> bool:
        """Read ``positions`` again, before all other entries, some at a time.

        Return False, having done nothing, while a read is under way.
        """
        if not self.idle:
            return False
        self._acked_ahead = True  # some may be acknowledged before they are sent
        self._to_replay = [*positions, *self._to_replay]
        self._continue_replay()
        return True

    def _continue_replay(self) -> None:
        """Read more of the positions to replay when all replayed entries are taken."""
        if self._to_replay and not self._first and self.idle:
            positions, self._to_replay = self._to_replay, ()
            self._start("replay", partial(self._read_again, positions), front=True)

    async def _read_again(self, positions: Sequence[Position]) -> list[View]:
        size = self._context.settings.dispatcher_max_read_size_bytes
        views = await self.cursor.replay(positions, size)
        if views:
            last = views[-1].last_position
            # All up to the last entry are done: those that the cursor left out are acknowledged or deleted.
            self._to_replay = [position for position in positions if position > last]
        return views

    @property
    def idle(self) -> bool:
        """True when a read could start now."""
        return self._reading is None and not self._closed

    def first_partial(self, view: View) -> int | None:
        """Return how many entries of ``view`` precede the first partly acknowledged batch; None without one."""
        cursor = self.cursor
        if not cursor.has_partial_batches:
            return None
        run = view.run
        for before, i in enumerate(view.indexes):
            if cursor.ack_set(run.position(i)) is not None:
                return before
        return None

    def unacknowledged(self, view: View) -> View | None:
        """Return the entries of ``view`` that are not acknowledged; None when all are."""
        run, cursor = view.run, self.cursor
        due = [i for i in view.indexes if not cursor.is_acknowledged(run.position(i))]
        if len(due) == view.count:
            return view
        return Pick(run, due) if due else None

    def take_unsent(self) -> tuple[list[View], list[Position]]:
        """Remove and return what was read and not sent, and the positions that are still to be replayed. Called while
        no read is under way."""
        unsent = [*self._first, *self._held], [*self._to_replay]
        self._drop()
        return unsent

    def acknowledged_ahead(self) -> None:
        """Note that entries may have been acknowledged before their delivery: held ones are checked from now on."""
        if self.holds or self._reading is not None:
            self._acked_ahead = True

    def read_from(self, cursor: DispatchCursor) -> None:
        """Continue at the first unacknowledged entry of ``cursor``, another reader of the same subscription."""
        self.cursor = cursor
        self.rewind()

    def rewind(self) -> None:
        """Drop the held entries and start over at the first unacknowledged one."""
        self._drop()
        if self._reading is not None:  # its answer moves the cursor: the rewind follows it (D7)
            self._rewind_due = True
        else:
            self.cursor.rewind()

    async def settle(self) -> None:
        """Wait until no read is under way and drop the held entries. Called before the cursor is reset."""
        while (reading := self._reading) is not None:
            self._rewind_due = True
            await asyncio.wait([reading])
            if self._reading is reading:
                # Cancelled with the topic before it began: ``_fetch`` never ran.
                self._reading = None
        self._drop()

    def close(self) -> None:
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        self._first = self._held = self._to_replay = ()

    def _start(self, what: str, call: Callable[[], Awaitable[list[View]]], front: bool) -> None:
        self._replaying = front
        self._reading = self.scope.spawn(what, self._fetch(call, front))

    async def _fetch(self, call: Callable[[], Awaitable[list[View]]], front: bool) -> None:
        views: list[View] = []
        try:
            views = await self._retry(call)
        finally:
            self._reading = None
            self._failing = False
        if self._closed:
            return
        views = self._messages(views)
        if self._rewind_due:
            self._rewind_due = False
            self._to_replay = ()  # ``_read_again`` may have set it after the rewind dropped the rest
            self.cursor.rewind()
        elif front:
            self._hold_first(reversed(_joined(views)))
        else:
            self._hold(views)
        self._continue_replay()
        self._ready()

    async def _retry(self, call: Callable[[], Awaitable[list[View]]]) -> list[View]:
        """Call until storage answers; return no views when a rewind makes the read needless."""
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


def _joined(views: list[View]) -> list[View]:
    """Join consecutive views of one slice, so that they are sent with one call."""
    joined: list[View] = []
    for run, group in groupby(views, lambda view: view.run):
        first, *more = group
        joined.append(Pick(run, [i for v in (first, *more) for i in v.indexes]) if more else first)
    return joined
