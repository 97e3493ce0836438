"""The simulator's event loop: one seed, virtual time, nodes that can be killed, paused and started again.

Waiting moves the clock to the next timer. Every callback belongs to a node (a context variable); a dead node's
callbacks never run again, not even ``finally`` blocks, as after ``kill -9``. The order in which callbacks of different
nodes run is drawn from the seed; within one node it is first in, first out.
"""

import asyncio
import contextvars
import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

EVENTS_FREE = 300_000
EVENTS_PER_S = 10_000.0
"""A run with more events than these, free and for each simulated second, goes in circles."""


class Deadlock(RuntimeError):
    """No callback can ever run again: a lost wake-up in the code under test."""


class Node:
    """One incarnation of a process. A restart makes a new one under the same name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.parked: list[SimHandle] = []

    def __repr__(self) -> str:
        return f"Node({self.name}{', dead' if self.dead else ''})"


WORLD = Node("world")
NODE: contextvars.ContextVar[Node] = contextvars.ContextVar("node", default=WORLD)


class _Numbered:
    """A hash by the order of first use, not by address: sets iterate alike in every run."""

    _count = 0
    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            _Numbered._count += 1
            self._number = _Numbered._count
        return self._number


class SimFuture(_Numbered, asyncio.Future):  # type: ignore[type-arg]
    __hash__ = _Numbered.__hash__


class SimTask(_Numbered, asyncio.Task):  # type: ignore[type-arg]
    node: Node

    __hash__ = _Numbered.__hash__


def _sim_task(loop: Any, coro: Any, context: Any = None) -> SimTask:
    task = SimTask(coro, loop=loop, context=context)
    task.node = NODE.get() if context is None else context.get(NODE, WORLD)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task


class SimHandle(asyncio.TimerHandle):
    """A callback of a node, at a time or as soon as possible. One class for both, and no bookkeeping but ``node``:
    most of a run's events are handles, so what one costs decides how many runs a minute has."""

    __slots__ = ("node",)

    def __init__(
        self, when: float, callback: Any, args: Any, loop: "SimLoop", context: Any
    ) -> None:
        if context is None:
            context = contextvars.copy_context()
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False
        self.node: Node = context.get(NODE, WORLD)

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class SimLoop(asyncio.BaseEventLoop):
    """``rng`` is the only source of chance of a run; ``trace`` its fingerprint; ``failures`` the uncaught errors."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        _Numbered._count = 0
        self.seed = seed
        self.now = 0.0
        self.rng = random.Random(seed)
        self.events = 0
        self._events_max: float = EVENTS_FREE
        self.deadline = float("inf")
        self.trace = hashlib.blake2b(digest_size=16)
        self.failures: list[dict[str, Any]] = []
        self.excused: dict[str, None] = {}
        """Names of nodes that may log errors: their disks were damaged."""
        self._graveyard: list[asyncio.Task[Any]] = []
        self._queue: deque[SimHandle] = deque()
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._timer_count = 0
        self._clock_resolution = 1e-9
        self.set_task_factory(_sim_task)
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    def time(self) -> float:
        return self.now

    def create_future(self) -> "asyncio.Future[Any]":
        return SimFuture(loop=self)

    def _write_to_self(self) -> None:
        pass

    def _check_closed(self) -> None:
        """Do nothing: interrupted tasks may still call this when the interpreter frees them at its end."""

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("a thread in simulated code: use a Lane")

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = SimHandle(self.now, callback, args, self, context)
        if handle.node.dead:
            handle.cancel()
        else:
            self._queue.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = SimHandle(when, callback, args, self, context)
        if handle.node.dead:
            handle.cancel()
        else:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def _run_once(self) -> None:
        queue, timers = self._queue, self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not queue and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Deadlock(
                    f"seed {self.seed}: nothing is runnable at {self.now:.3f} s and no timer is set"
                )
            self._pass_time(timers[0][0])
        if self.events > self._events_max:
            raise TimeoutError(f"seed {self.seed}: {self.events} events by {self.now:.3f} s")
        now = self.now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:
                queue.append(handle)
        if len(queue) > 1:
            self._mix(queue)
        for _ in range(len(queue)):
            handle = queue.popleft()
            node = handle.node
            if handle._cancelled or node.dead:
                continue
            if node.paused:
                node.parked.append(handle)
                continue
            self.events += 1
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler(
                    {"message": f"exception in {handle!r}", "exception": error}
                )

    def _pass_time(self, when: float) -> None:
        """Move the clock to ``when``. Raises TimeoutError when the run lasts too long."""
        self.now = max(self.now, when)
        if self.now > self.deadline:
            raise TimeoutError(f"seed {self.seed}: still running at {self.now:.0f} simulated s")
        self._events_max = EVENTS_FREE + EVENTS_PER_S * self.now

    def _mix(self, queue: "deque[SimHandle]") -> None:
        """Interleave the nodes' queues by chance, each queue in its own order."""
        first = queue[0].node
        if all(handle.node is first for handle in queue):
            return
        queues: dict[Node, deque[SimHandle]] = {}
        for handle in queue:
            queues.setdefault(handle.node, deque()).append(handle)
        queue.clear()
        order = list(queues.values())
        chance = self.rng.random
        while len(order) > 1:
            i = int(chance() * len(order))
            queue.append(order[i].popleft())
            if not order[i]:
                order.pop(i)
        queue.extend(order[0])

    # -- nodes

    def spawn(
        self, node: Node, work: Coroutine[Any, Any, Any], name: str = ""
    ) -> asyncio.Task[Any]:
        """Run ``work`` as ``node``; its tasks and timers inherit the node."""
        context = contextvars.copy_context()
        context.run(NODE.set, node)
        return context.run(self.create_task, work, name=name or node.name)

    def kill(self, node: Node) -> None:
        """Run no callback of ``node`` any more. The caller breaks its pipes and its disk."""
        node.dead = True
        self._graveyard += [
            task
            for task in asyncio.all_tasks(self)
            if isinstance(task, SimTask) and task.node is node
        ]
        node.parked.clear()
        self.note("kill", node.name)

    def pause(self, node: Node) -> None:
        """Hold the callbacks of ``node`` back, as SIGSTOP does."""
        node.paused = True
        self.note("pause", node.name)

    def resume(self, node: Node) -> None:
        node.paused = False
        self._queue.extend(node.parked)
        node.parked.clear()
        self.note("resume", node.name)

    def note(self, *what: object) -> None:
        """Fold an event into the run's fingerprint."""
        self.trace.update(f"{self.now:.9f} {what}\n".encode())


def simulate(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, Any]], limit_s: float) -> Any:
    """Run ``main(loop)`` on a fresh loop to its end; at most ``limit_s`` simulated seconds.

    Raises what ``main`` raises, Deadlock, or TimeoutError. Uncaught failures are in ``loop.failures``.
    """
    loop = SimLoop(seed)
    loop.deadline = limit_s
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        asyncio.set_event_loop(None)
        loop._queue.clear()
        loop._timers.clear()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            loop._graveyard.append(task)
        KEPT.extend(loop._graveyard)
        loop.close()


# Tasks that were cut short stay referenced for the life of the process: collecting one would run its `finally` blocks.
KEPT: list[asyncio.Task[Any]] = []
