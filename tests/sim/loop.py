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


class Deadlock(RuntimeError):
    """Nothing can ever run again: a lost wake-up in the code under test."""


class Node:
    """One incarnation of a process. A restart makes a new one under the same name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.parked: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return f"Node({self.name}{', dead' if self.dead else ''})"


WORLD = Node("world")
NODE: contextvars.ContextVar[Node] = contextvars.ContextVar("node", default=WORLD)


class _Counted:
    """Hash by order of creation instead of by address, so that sets iterate alike in every run."""

    _count = 0

    def _number(self) -> None:
        _Counted._count += 1
        self._hash = _Counted._count

    def __hash__(self) -> int:
        return self._hash


class SimFuture(_Counted, asyncio.Future):  # type: ignore[type-arg]
    def __init__(self, **kwargs: Any) -> None:
        self._number()
        super().__init__(**kwargs)

    __hash__ = _Counted.__hash__


class SimTask(_Counted, asyncio.Task):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number()
        context = kwargs.get("context")
        self.node: Node = NODE.get() if context is None else context.get(NODE, WORLD)
        super().__init__(*args, **kwargs)
        self._log_destroy_pending = False

    __hash__ = _Counted.__hash__


def _sim_task(loop: Any, coro: Any, context: Any = None) -> SimTask:
    return SimTask(coro, loop=loop, context=context)


class SimLoop(asyncio.BaseEventLoop):
    """``rng`` is the only source of chance of a run; ``trace`` its fingerprint; ``failures`` what nobody caught."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        _Counted._count = 0
        self.seed = seed
        self.now = 0.0
        self.rng = random.Random(seed)
        self.events = 0
        self.deadline = float("inf")
        self.events_max = 1_000_000
        self.trace = hashlib.blake2b(digest_size=16)
        self.failures: list[dict[str, Any]] = []
        self._graveyard: list[asyncio.Task[Any]] = []
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
        """Tasks that were cut short may still call us when the interpreter ends and frees them: nothing happens."""

    def run_in_executor(self, *_: Any) -> Any:
        raise RuntimeError("a thread in simulated code: use a Lane")

    def _call_soon(self, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        return self._unless_dead(handle)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self._unless_dead(super().call_at(when, callback, *args, context=context))

    @staticmethod
    def _unless_dead(handle: asyncio.Handle) -> asyncio.Handle:
        if handle._context.get(NODE, WORLD).dead:  # type: ignore[attr-defined]
            handle.cancel()
        return handle

    def _run_once(self) -> None:
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not scheduled:
                raise Deadlock(
                    f"seed {self.seed}: nothing is runnable at {self.now:.3f} s and no timer is set"
                )
            self.now = max(self.now, scheduled[0]._when)  # type: ignore[attr-defined]
            if self.now > self.deadline:
                raise TimeoutError(f"seed {self.seed}: still running at {self.now:.0f} simulated s")
        while scheduled and scheduled[0]._when <= self.now:  # type: ignore[attr-defined]
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer._cancelled:  # type: ignore[attr-defined]
                ready.append(timer)
        if self.events > self.events_max:
            raise TimeoutError(f"seed {self.seed}: {self.events} events by {self.now:.3f} s")
        if len(ready) > 1:
            self._mix(ready)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:  # type: ignore[attr-defined]
                continue
            node = handle._context.get(NODE, WORLD)  # type: ignore[attr-defined]
            if node.dead:
                continue
            if node.paused:
                node.parked.append(handle)
                continue
            self.events += 1
            handle._run()

    def _mix(self, ready: "deque[asyncio.Handle]") -> None:
        """Interleave the nodes' queues by chance, each queue in its own order."""
        queues: dict[Node, deque[asyncio.Handle]] = {}
        for handle in ready:
            queues.setdefault(handle._context.get(NODE, WORLD), deque()).append(handle)  # type: ignore[attr-defined]
        if len(queues) == 1:
            return
        ready.clear()
        order = list(queues.values())
        while order:
            i = self.rng.randrange(len(order))
            ready.append(order[i].popleft())
            if not order[i]:
                order.pop(i)

    # -- nodes

    def spawn(
        self, node: Node, work: Coroutine[Any, Any, Any], name: str = ""
    ) -> asyncio.Task[Any]:
        """Run ``work`` as ``node``; its tasks and timers inherit the node."""
        context = contextvars.copy_context()
        context.run(NODE.set, node)
        return context.run(self.create_task, work, name=name or node.name)

    def kill(self, node: Node) -> None:
        """No callback of ``node`` runs any more. Its pipes and disk are the callers' to break."""
        node.dead = True
        self._graveyard += [
            task
            for task in asyncio.all_tasks(self)
            if isinstance(task, SimTask) and task.node is node
        ]
        node.parked.clear()
        self.note("kill", node.name)

    def pause(self, node: Node) -> None:
        """As SIGSTOP: its callbacks wait."""
        node.paused = True
        self.note("pause", node.name)

    def resume(self, node: Node) -> None:
        node.paused = False
        self._ready.extend(node.parked)  # type: ignore[attr-defined]
        node.parked.clear()
        self.note("resume", node.name)

    def note(self, *what: object) -> None:
        """Fold an event into the run's fingerprint."""
        self.trace.update(f"{self.now:.9f} {what}\n".encode())


def simulate(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, Any]], limit_s: float) -> Any:
    """Run ``main(loop)`` on a fresh loop to its end; at most ``limit_s`` simulated seconds.

    Raises what ``main`` raises, Deadlock, or TimeoutError. Failures nobody caught are in ``loop.failures``.
    """
    loop = SimLoop(seed)
    loop.deadline = limit_s
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        asyncio.set_event_loop(None)
        loop._ready.clear()  # type: ignore[attr-defined]
        loop._scheduled.clear()  # type: ignore[attr-defined]
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            loop._graveyard.append(task)
        KEPT.extend(loop._graveyard)
        loop.close()


# Tasks that were cut short stay referenced for the life of the process: collecting one would run its `finally` blocks.
KEPT: list[asyncio.Task[Any]] = []
