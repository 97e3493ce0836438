"""Event loop of brokers and bookies with callbacks at the end of a wake-up, and limits on the garbage collector.

The results of one wake-up (a bookie's answers, receipts for many clients) are gathered and written once. With
``call_soon`` each such step costs another turn of the loop with its system call, six for a single message;
``call_last`` runs the steps in the turn that caused them.

The loop measures how long it waits for events (``waited_s``), from which the share of time is known that it is busy.
"""

import asyncio
import gc
import math
import select
import selectors
import sys
from collections.abc import Callable, Mapping
from typing import Any

from engine.base.clock import SystemClock

MEASURE_EVERY = 16
"""Collections of generation 1 between two measurements of the heap, which take 3 ms for half a gigabyte."""


_NOT_IN, _NOT_OUT = ~select.EPOLLIN, ~select.EPOLLOUT


class _TimedSelector(selectors.EpollSelector):
    """Selector that sums the time it waits; a poll without waiting reads no clock."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0
        self._clock = SystemClock.monotonic_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events as EpollSelector does, without a call per event, which makes up for reading the clock."""
        keys: Any = self._fd_to_key  # type: ignore[attr-defined]
        poll = self._selector.poll  # type: ignore[attr-defined]
        try:
            if timeout is not None and timeout <= 0:
                events = poll(0, len(keys) or 1)
            else:
                # Rounded up to the resolution of epoll, so that the loop never wakes up before a timer is due.
                wait_s = -1 if timeout is None else math.ceil(timeout * 1e3) * 1e-3
                before = self._clock()
                events = poll(wait_s, len(keys) or 1)
                self.waited_s += self._clock() - before
        except InterruptedError:
            return []
        ready = []
        for fd, event in events:
            key = keys.get(fd)
            if key is not None:
                wanted = selectors.EVENT_WRITE if event & _NOT_IN else 0
                if event & _NOT_OUT:
                    wanted |= selectors.EVENT_READ
                ready.append((key, wanted & key.events))
        return ready


class EventLoop(asyncio.SelectorEventLoop):
    """Event loop with ``call_last``, for ``asyncio.Runner(loop_factory=EventLoop)``."""

    time = staticmethod(SystemClock.monotonic_s)  # as asyncio's, without a frame of its own

    def __init__(self) -> None:
        selector = _TimedSelector()
        super().__init__(selector)
        self._waiting = selector
        self._last: list[Callable[[], object]] = []

    @property
    def waited_s(self) -> float:
        """Seconds for which the loop waited for events since its creation; in the rest of the time it was busy."""
        return self._waiting.waited_s

    def call_last(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` after all callbacks that are ready now, before the loop polls for events.

        Must be called from callbacks of this loop. Callbacks run in order, in no particular context; callbacks that
        they add run afterwards.
        """
        self._last.append(callback)

    def _accept_connection(
        self,
        protocol_factory: Any,
        sock: Any,
        sslcontext: Any = None,
        server: Any = None,
        backlog: int = 100,
        *limits: float,
    ) -> None:
        """Accept one connection in each turn, not up to ``backlog``.

        While there are no descriptors left, asyncio logs each attempt of a turn and schedules as many retries, which
        multiply: the log fills the disk.
        """
        super()._accept_connection(  # type: ignore[misc]
            protocol_factory, sock, sslcontext, server, 1, *limits
        )

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        while self._last:
            due, self._last = self._last, []
            for callback in due:
                try:
                    callback()
                except Exception as error:
                    self.call_exception_handler(
                        {"message": f"exception in {callback!r}", "exception": error}
                    )


def last_call(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], object]], object]:
    """Return the function that schedules a callback at the end of the wake-up.

    This is ``call_last``, or ``call_soon`` on other loops (jobs, tests).
    """
    return loop.call_last if isinstance(loop, EventLoop) else loop.call_soon


def shorten_collections() -> None:
    """Let the garbage collector examine objects only while they are young; called once after the start of a process.

    A collection of 100,000 objects blocks the loop for 0.1 s, and CPython runs one whenever the number of objects has
    grown by a quarter. Long-lived objects (topics, cursors, connections) are in no reference cycles and are freed by
    their reference counts. Old cycles are searched when the heap has doubled.
    """
    gc.collect()
    gc.freeze()
    if sys.version_info < (3, 14):  # later versions collect incrementally
        gc.callbacks.append(_Collections())


def collect_all() -> None:
    """Search all objects for cycles now, also frozen ones, which blocks the process for 0.1 s for each 100,000."""
    gc.unfreeze()
    gc.collect()


class _Collections:
    """Callback of the collector before and after each collection.

    Generation 0 has the youngest objects; generation 2 has all objects that are not frozen.
    """

    def __init__(self) -> None:
        self._blocks = sys.getallocatedblocks()
        """Size of the heap in blocks after its last full collection."""
        self._turns = 0
        self._due = False
        """True while no object is frozen, so that the next collection of generation 2 covers the complete heap."""

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        generation = info["generation"]
        if phase == "start":
            if generation == 2:
                self._thaw_if_doubled()
            return
        if generation == 1 and not self._due:
            self._turns += 1
            if self._turns % MEASURE_EVERY == 0:
                self._thaw_if_doubled()
        if generation == 2 and self._due:
            self._blocks = sys.getallocatedblocks()
            self._due = False
        if generation > 0 and not self._due:
            gc.freeze()

    def _thaw_if_doubled(self) -> None:
        """Unfreeze the heap once it has doubled.

        No object is frozen again until the full collection has run, because freezing resets the collector's counts, so
        that it would never reach generation 2 by itself.
        """
        if not self._due and sys.getallocatedblocks() > 2 * self._blocks:
            self._due = True
            gc.unfreeze()


def from_any_thread(
    loop: asyncio.AbstractEventLoop, call: Callable[[], object]
) -> Callable[[], None]:
    """Return a function that any thread may call to make ``call`` on ``loop``: at once when it runs there, which saves
    the write to the loop's socket, and never once the loop is closed."""

    def notify() -> None:
        if asyncio._get_running_loop() is loop:
            call()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return notify


def waited_s(loop: asyncio.AbstractEventLoop) -> float | None:
    """Return the seconds for which ``loop`` waited for events; None for other loops than EventLoop."""
    return loop.waited_s if isinstance(loop, EventLoop) else None
