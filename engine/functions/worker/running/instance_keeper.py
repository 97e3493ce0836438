"""One instance on this worker: started while it is assigned here, restarted when it ends by itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.base.backoff import Backoff
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, restarting
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.runtime.ports import InstanceRuntime, InstanceSpec, RunningInstance
from engine.functions.worker.placing.known_assignments import split_key
from engine.functions.worker.running.instance_lease import InstanceLease
from engine.metadata import paths
from engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)
T = TypeVar("T")

STEADY_S = 60.0
"""Time after which an instance counts as healthy: its next restart is again after the first pause."""
RENEWAL_S = 0.25
"""Seconds by which a lease must last longer before it is renewed at the instance."""
LEASE_WAIT = "waits for the worker that ran it before"


@dataclass(frozen=True, slots=True)
class KeeperParts:
    """Parts that all instances of a worker share.

    ``prepare`` yields the specification of an assigned instance with its code fetched, and removes the code behind it;
    it raises MagnetarError or OSError.
    """

    store: MetadataStore
    clock: Clock
    entropy: Entropy
    worker: str
    runtime: InstanceRuntime
    prepare: Callable[[pb.Assignment], AbstractAsyncContextManager[InstanceSpec]]
    stop_s: float
    """Time in which an instance ends in order."""
    backoff_s: tuple[float, float]
    """First and longest pause before an instance that ended is started again."""


class InstanceKeeper:
    """Keeper of an instance from the first ``want`` until ``ended``."""

    def __init__(self, parts: KeeperParts, key: str) -> None:
        self.key = key
        self.restarts = 0
        """Starts after an end that was not requested."""
        self.error = ""
        """Reason why it does not run; empty while it does, and while it is stopped."""
        self.running: RunningInstance | None = None
        self._parts = parts
        self._lease = InstanceLease(
            parts.store, paths.function_instance(*split_key(key)), parts.worker
        )
        self._leased_until_s = float("-inf")
        """The end of the lease, as the running instance knows it."""
        self._wanted: pb.Assignment | None = None
        self._begun = False
        """True from the begin of a start to the end of the instance."""
        self._changed = asyncio.Event()
        self._backoff = Backoff(*parts.backoff_s)
        self._tasks = TaskScope(f"instance {key}", lambda name, error: None)  # the keeper has it
        self._task: asyncio.Task[None] | None = None

    @property
    def wanted(self) -> pb.Assignment | None:
        """The assignment that it follows; None when it is to end."""
        return self._wanted

    @property
    def leased(self) -> bool:
        """True while no other worker can run the instance."""
        return self._lease.held

    def want(self, assignment: pb.Assignment | None) -> None:
        """Follow an assignment to this worker, or end the instance for good with None."""
        same = _runs_alike(self._wanted, assignment)
        self._wanted = assignment
        if not same:
            self._backoff.reset()
            self._changed.set()
        if self._task is None:
            self._task = self._tasks.spawn("keep", restarting(f"instance {self.key}", self._keep))

    def restart(self) -> None:
        """End the instance if it runs; it starts again at once."""
        self._backoff.reset()
        self._changed.set()

    def fence(self) -> None:
        """End the instance at once, or its start, if the lease is lost."""
        if self._begun and not self._lease.held:
            self._changed.set()

    def renew(self) -> None:
        """Send the running instance the end of its lease, if that is later by now."""
        until_s = self._lease.until_s
        if self.running is not None and until_s - self._leased_until_s >= RENEWAL_S:
            self._leased_until_s = until_s
            self.running.lease_until(until_s)

    def _lease_end(self) -> float:
        self._leased_until_s = self._lease.until_s
        return self._leased_until_s

    @property
    def ended(self) -> bool:
        """True when nothing of it runs any more and it will not start again."""
        return self._task is not None and self._task.done()

    async def close(self) -> None:
        """End the instance and give the lease back."""
        self.want(None)
        assert self._task is not None
        await asyncio.wait([self._task])

    # --- the loop --------------------------------------------------------------------------------

    async def _keep(self) -> None:
        await self._follow()
        while self._wanted is not None:  # it was assigned again while it ended
            await self._follow()

    async def _follow(self) -> None:
        """Run the instance while it is assigned, then give the lease back."""
        try:
            while self._wanted is not None:
                self._changed.clear()
                if is_stopped(self._wanted):
                    self.error = ""
                    await self._changed.wait()
                elif not self._lease.held:
                    await self._claim()
                else:
                    await self._run(self._wanted)
        finally:
            await self._lease.release()

    async def _claim(self) -> None:
        self.error = LEASE_WAIT
        try:
            await self._unless_changed(self._lease.acquire())
        except MagnetarError as error:
            self.error = str(error)
            await self._pause()

    async def _run(self, assignment: pb.Assignment) -> None:
        """Run the instance until it ends or its assignment changes."""
        self._begun, self.error = True, ""
        try:
            async with self._parts.prepare(assignment) as spec:
                if not self._lease.held:
                    return
                spec = replace(spec, lease_end=self._lease_end)
                self.running = await self._unless_changed(self._parts.runtime.start(spec))
                if self.running is not None:
                    try:
                        await self._watch(self.running)
                    finally:
                        await self._stop(self.running)
                        self.running = None
        except (MagnetarError, OSError) as error:
            self.error = str(error) or type(error).__name__
            log.warning("instance %s cannot run: %s", self.key, self.error)
            self.restarts += 1
        finally:
            self._begun = False
        if not self._changed.is_set():
            await self._pause()

    async def _watch(self, running: RunningInstance) -> None:
        """Return when the instance has ended or must end."""
        started_s = self._parts.clock.monotonic_s()
        self.error = ""
        reason = await self._unless_changed(running.wait())
        if reason is None:
            return
        self.restarts += 1
        self.error = reason.text or f"ended with status {reason.status}"
        log.warning("instance %s ended: %s", self.key, self.error.splitlines()[-1])
        if self._parts.clock.monotonic_s() - started_s >= STEADY_S:
            self._backoff.reset()

    async def _stop(self, running: RunningInstance) -> None:
        """End the instance, in order while no other worker can start it, else at once."""
        await asyncio.shield(running.stop(self._parts.stop_s if self._lease.held else 0.0))

    async def _pause(self) -> None:
        await self._unless_changed(
            asyncio.sleep(self._backoff.next_s(self._parts.entropy.random()))
        )

    async def _unless_changed(self, work: Awaitable[T]) -> T | None:
        """Return the result of ``work``; None when the instance must change before, which cancels the work."""
        task = self._tasks.spawn("work", _awaited(work))
        changed = self._tasks.spawn("changed", _awaited(self._changed.wait()))
        try:
            await asyncio.wait({task, changed}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            changed.cancel()
            await asyncio.wait({task, changed})


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def is_stopped(assignment: pb.Assignment) -> bool:
    """Return whether the user stopped this instance."""
    instance = assignment.instance
    states = instance.functionMetaData.instanceStates
    return states.get(instance.instanceId, pb.RUNNING) == pb.STOPPED


def _runs_alike(before: pb.Assignment | None, after: pb.Assignment | None) -> bool:
    """Return whether an instance can go on when its assignment changes: the states of other
    instances, and with them the version, do not matter to it."""
    if before is None or after is None:
        return before is after
    if is_stopped(before) != is_stopped(after):
        return False
    return _without_states(before) == _without_states(after)


def _without_states(assignment: pb.Assignment) -> pb.FunctionMetaData:
    copy = pb.FunctionMetaData()
    copy.CopyFrom(assignment.instance.functionMetaData)
    copy.ClearField("instanceStates")
    copy.ClearField("version")
    return copy
