"""The leader: the only writer of functions and assignments, while this worker has the place and both producers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from engine.base.backoff import Backoff
from engine.base.clock import Clock
from engine.base.errors import Conflict, MagnetarError, NotReady
from engine.base.tasks import TaskScope, restarting
from engine.client.client import PulsarClient
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import encode
from engine.functions.registered_workers import draining_workers, registered_workers
from engine.functions.worker.placing.exclusive_writer import ExclusiveWriter
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.known_functions import DeletedFunction, full_name
from engine.functions.worker.placing.leadership import Leadership
from engine.functions.worker.placing.scheduling import (
    AssignmentChange,
    Workers,
    rebalance,
    schedule,
)
from engine.functions.worker.placing.worker_presence import WorkerPresence
from engine.metadata import paths
from engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)

NOT_LEADER = "Leader not yet ready. Please retry again"
"""Apache's text."""
MOVES_MAX = 10
"""Instances that one round moves to even out the workers."""
REBALANCE_EVERY_S = 2.0
"""Least time between two such rounds, in which moved instances start."""
CLEANUP_WITHIN_MS = 600_000
"""Time after a deletion within which a new leader removes what an earlier one may have left. Later, a subscription of
the same name may be another's."""
RETRY_S_MAX = 5.0

OtherMembers = Callable[[], Awaitable[set[str]]]
"""Returns the ids of the workers that are not registered in the metadata store: Apache's."""
CleanUp = Callable[[pb.FunctionMetaData], Awaitable[bool]]
"""Removes what a deleted function leaves; returns False while its instances have not ended yet."""


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """``reschedule_s``: time that a missing worker keeps its instances. ``check_s``: longest time between rounds."""

    reschedule_s: float
    check_s: float


class FunctionLeader:
    """The leader's part of a worker; ``start`` must be called inside the running loop.

    ``ready`` while this worker leads, has read both topics behind its producers, and schedules.
    """

    def __init__(
        self,
        client: PulsarClient,
        store: MetadataStore,
        clock: Clock,
        presence: WorkerPresence,
        followed: FollowedTopics,
        times: LeaderTimes,
        *,
        others: OtherMembers,
        clean_up: CleanUp,
    ) -> None:
        self._client = client
        self._store = store
        self._clock = clock
        self._presence = presence
        self._followed = followed
        self._times = times
        self._others = others
        self._clean_up = clean_up
        self.place = Leadership(
            client,
            followed.names.coordination,
            presence.record.label,
            self._turned,
            eligible=lambda: presence.proven,
        )
        self.ready = False
        self.rounds = 0
        """Rounds of scheduling since the start."""
        self._metadata: ExclusiveWriter | None = None
        self._assignments: ExclusiveWriter | None = None
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._missing: dict[str, float] = {}
        """Time at which each assigned worker was first missing."""
        self._rebalanced_s = 0.0
        self._cleaned: dict[str, int] = {}
        """Time of deletion of the functions of which nothing is left."""
        self._tasks = TaskScope("leader")
        self._leading: asyncio.Task[None] | None = None
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        for path in (paths.FUNCTION_WORKERS, paths.FUNCTION_DRAINS):
            self._stops.append(self._store.watch(path, lambda _: self.changed()))
        self.place.start()

    async def close(self) -> None:
        """Stop leading; another worker leads then."""
        for stop in self._stops:
            stop()
        await self._tasks.close()
        await self.place.close()

    def changed(self) -> None:
        """Have the next round run at once."""
        self._changed.set()

    def _turned(self) -> None:
        if self.place.active and not self._tasks.closed:
            if self._leading is None or self._leading.done():
                self._leading = self._tasks.spawn("lead", restarting("the leader", self._lead))
        elif self._leading is not None:
            self._leading.cancel()

    # --- leading ---------------------------------------------------------------------------------

    async def _lead(self) -> None:
        backoff = Backoff(max_s=RETRY_S_MAX)
        while self.place.active:
            try:
                await self._with_writers()
            except MagnetarError as error:
                if self.ready:
                    backoff.reset()
                log.info("does not lead now: %s", error)
            finally:
                self.ready = False
                self._metadata = self._assignments = None
            await asyncio.sleep(backoff.next_s(self._client.entropy.random()))

    async def _with_writers(self) -> None:
        """Lead until a producer ends. Raises its error, and MagnetarError."""
        names, worker = self._followed.names, self._presence.record.id
        async with AsyncExitStack() as stack:
            writers = []
            for topic, name in (
                (names.assignments, f"{worker}-scheduler-manager"),
                (names.metadata, f"{worker}-leader"),
            ):
                writer = await ExclusiveWriter.open(self._client, topic, name, self._clock)
                stack.push_async_callback(writer.close)
                writers.append(writer)
            await self._followed.caught_up()
            self._assignments, self._metadata = writers
            await self._presence.lead()
            stack.push_async_callback(self._give_up)
            log.info("leads the workers")
            self._missing.clear()
            self.ready = True
            try:
                await self._schedule(writers)
            finally:
                self.ready = False

    async def _give_up(self) -> None:
        with suppress(MagnetarError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._presence.withdraw(paths.FUNCTION_LEADER)

    async def _schedule(self, writers: Sequence[ExclusiveWriter]) -> None:
        """Run a round after each change, and at least every ``check_s``. Raises the error that ended a producer."""
        wake = self._changed.set
        for writer in writers:
            writer.ended.add_done_callback(lambda _: wake())
        while True:
            self._changed.clear()
            for writer in writers:
                if writer.ended.done():
                    raise writer.ended.result()
            async with self._writing:
                settled = await self._round()
            await self._remove_deleted()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._times.check_s if settled else REBALANCE_EVERY_S):
                    await self._changed.wait()

    async def _round(self) -> bool:
        """Write what should change now; return False when there may be more to do soon. Raises MagnetarError."""
        self.rounds += 1
        await self._followed.caught_up()
        functions, assignments = self._followed.functions, self._followed.assignments
        workers = await self._workers()
        changes = schedule(functions.functions, assignments.assignments, workers)
        if changes:
            await self._assign(changes)
            return False
        now_s = self._clock.monotonic_s()
        if now_s - self._rebalanced_s < REBALANCE_EVERY_S:
            return False
        moves = rebalance(assignments.assignments, workers, MOVES_MAX)
        if moves:
            self._rebalanced_s = now_s
            await self._assign(moves)
        return not moves and not self._missing

    async def _assign(self, changes: Iterable[AssignmentChange]) -> None:
        """Write changes and wait until this worker has read them. Raises MagnetarError."""
        assert self._assignments is not None
        writer = self._assignments
        writes = []
        for key, assignment in changes:
            log.info("instance %s: %s", key, assignment.workerId if assignment else "not assigned")
            value = b"" if assignment is None else encode(assignment)
            writes.append(writer.write(value, key=key))
        await asyncio.gather(*writes)
        await self._followed.caught_up()

    async def _workers(self) -> Workers:
        """Return the workers that get and that keep instances. Raises the store's errors."""
        apaches = await self._others()
        here = set(await registered_workers(self._store)) | apaches
        drained = await draining_workers(self._store)
        now_s = self._clock.monotonic_s()
        assigned = {
            assignment.workerId for assignment in self._followed.assignments.assignments.values()
        }
        self._missing = {
            worker: self._missing.get(worker, now_s) for worker in sorted(assigned - here)
        }
        waited_for = {
            worker
            for worker, since_s in self._missing.items()
            if now_s - since_s < self._times.reschedule_s
        }
        usable = here - drained
        return Workers(sorted(usable), sorted(here | waited_for), sorted(apaches))

    async def _remove_deleted(self) -> None:
        """Remove what deleted functions have left. Failures are logged; the next round tries again."""
        now_ms = self._clock.wall_ms()
        for name, deleted in list(self._followed.functions.deleted.items()):
            if (
                now_ms - deleted.deleted_ms > CLEANUP_WITHIN_MS
                or self._cleaned.get(name) == deleted.deleted_ms
                or self._is_assigned(deleted)
            ):
                continue
            try:
                if await self._clean_up(deleted.metadata):
                    self._cleaned[name] = deleted.deleted_ms
                else:
                    self._rerun_soon()
            except MagnetarError as error:
                log.info("what %s left cannot be removed now: %s", name, error)
        self._cleaned = {
            name: at for name, at in self._cleaned.items() if now_ms - at <= CLEANUP_WITHIN_MS
        }

    def _rerun_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.5, self.changed)

    def _is_assigned(self, deleted: DeletedFunction) -> bool:
        name = full_name(deleted.metadata)
        return any(
            full_name(assignment.instance.functionMetaData) == name
            for assignment in self._followed.assignments.assignments.values()
        )

    # --- what the operations ask -----------------------------------------------------------------

    async def store(self, request: pb.ServiceRequest, expected: int | None) -> None:
        """Write a function's change and wait until it is known here.

        ``expected``: the stored version that the change is of, None for a new function. Raises Conflict for another
        one, NotReady when this worker does not lead or the change may have happened or not.
        """
        async with self._writing:
            if not self.ready or self._metadata is None:
                raise NotReady(NOT_LEADER)
            metadata = request.functionMetaData
            name = full_name(metadata)
            stored = self._followed.functions.functions.get(name)
            if (None if stored is None else stored.version) != expected:
                raise Conflict(f"{name} was changed meanwhile; try again")
            try:
                await self._metadata.write(
                    encode(request), properties={"version": str(metadata.version)}
                )
                await self._followed.caught_up()
            except MagnetarError as error:
                raise NotReady(f"{name}: the change may have happened: {error}") from error
        self.changed()

    async def rebalance(self) -> None:
        """Distribute the instances evenly at once. Raises NotReady, and MagnetarError."""
        async with self._writing:
            if not self.ready:
                raise NotReady(NOT_LEADER)
            assignments = self._followed.assignments.assignments
            moves = rebalance(assignments, await self._workers(), len(assignments))
            await self._assign(moves)
