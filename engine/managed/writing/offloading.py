"""Moving of a topic's closed ledgers to tiered storage, and their deletion from the bookies.

Each step is stored before the next begins (U1, U3): the id of a new attempt; then the objects are written and
read back; then the copy is stored as complete; after the deletion lag its objects are looked up again, it is stored as
the only one, and then the ledger is deleted from the bookies. Whatever process ends at any step, a ledger is readable,
and the objects of an attempt that failed are deleted by the next one or with the ledger.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerError
from engine.managed.errors import ManagedLedgerError, OffloadRunningError
from engine.managed.positions import LedgerSpan
from engine.managed.reading.reads import LedgerReads
from engine.managed.shared import Shared
from engine.managed.state import LogState
from engine.managed.stats import MoveCounters, MoveProgress, OffloadPhase, OffloadStatus
from engine.managed.stored.offloads import DoomedObjects, Offload, offload_of
from engine.managed.stored.removal import delete_objects
from engine.managed.tenure import Tenure
from engine.managed.writing.copy_checks import check_copy
from engine.managed.writing.offload_rules import due_ledgers, ledgers_before, releasable
from engine.managed.writing.rolling import LedgerList, OffloadChange
from engine.offload.errors import (
    DamagedObjectError,
    MissingObjectError,
    ObjectStoreError,
    OffloadError,
    StoreTrouble,
)
from engine.offload.ledger_writing import write_ledger
from engine.offload.object_names import ObjectName
from engine.offload.object_store import ObjectStore
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.tiered_storage import TieredStorage

log = logging.getLogger(__name__)

RETRY_MIN_S = 1.0
RETRY_MAX_S = 3600.0


class LedgerMover:
    """Moves the ledgers of one log, one at a time, in the background."""

    __slots__ = (
        "_backoff",
        "_list",
        "_not_before_ms",
        "_reads",
        "_shared",
        "_state",
        "_tasks",
        "_tenure",
        "counters",
        "progress",
        "status",
    )

    def __init__(
        self,
        state: LogState,
        tenure: Tenure,
        ledger_list: LedgerList,
        reads: LedgerReads,
        shared: Shared,
        tasks: TaskScope,
    ) -> None:
        self._state = state
        self._tenure = tenure
        self._list = ledger_list
        self._reads = reads
        self._shared = shared
        self._tasks = tasks
        self._backoff = Backoff(RETRY_MIN_S, RETRY_MAX_S)
        self._not_before_ms = 0
        self.counters = MoveCounters()
        self.progress = MoveProgress()
        self.status = OffloadStatus()

    @property
    def running(self) -> bool:
        return self.status.phase is OffloadPhase.RUNNING

    def configured(self) -> None:
        """Apply the present policy to reads."""
        policy = self._state.config.offload
        self._reads.bookies_first = policy is not None and policy.bookies_first

    def soon(self) -> None:
        """Move in the background what the policy says, and delete from bookies what it says. Cheap when that is
        nothing. After a failure nothing is tried again before a time that grows with each."""
        policy, tiered = self._state.config.offload, self._shared.tiered
        if policy is None or tiered is None or self._state.ended or self.running:
            return
        if not self._list.owns_ledgers:
            return
        now_ms, ledgers = self._shared.clock.wall_ms(), self._state.line.ledgers
        if now_ms < self._not_before_ms:
            return
        due = due_ledgers(ledgers, now_ms, policy)
        if due or releasable(ledgers, now_ms, policy.deletion_lag_s):
            self._begin(policy, tiered, due, None)

    def start(self, before: Position) -> None:
        """Move all closed ledgers before that of ``before``. Raises OffloadError without a policy,
        OffloadRunningError while ledgers are being moved."""
        self._state.check()
        policy, tiered = self._state.config.offload, self._shared.tiered
        if policy is None or tiered is None:
            raise OffloadError("no tiered storage is configured for the topic")
        if not self._list.owns_ledgers:
            raise OffloadError("the ledgers of a shadow topic are its source's, which moves them")
        if self.running:
            raise OffloadRunningError("ledgers of the topic are being moved already")
        ledgers = ledgers_before(self._state.line.ledgers, before)
        self._begin(policy, tiered, ledgers, before)

    def _begin(
        self,
        policy: OffloadPolicy,
        tiered: TieredStorage,
        ledgers: Sequence[LedgerSpan],
        before: Position | None,
    ) -> None:
        self.status = OffloadStatus(OffloadPhase.RUNNING)
        self.progress = MoveProgress(len(ledgers), sum(ledger.size for ledger in ledgers))
        sizes = {ledger.ledger_id: ledger.size for ledger in ledgers}
        self._tasks.spawn("offload", self._run(policy, tiered, sizes, before))

    async def _run(
        self,
        policy: OffloadPolicy,
        tiered: TieredStorage,
        sizes: dict[int, int],
        before: Position | None,
    ) -> None:
        unmoved: list[int] = []
        failure: Exception | None = None
        try:
            for ledger_id, size in sizes.items():
                if isinstance(failure, ObjectStoreError):
                    # The others would fail alike, after two writes to the metadata store each.
                    unmoved.append(ledger_id)
                    continue
                try:
                    async with tiered.moving:
                        await self._move(policy, tiered, ledger_id)
                except (LedgerError, WorldError) as error:
                    log.warning(
                        "ledger is not moved log=%s ledger=%d error=%s",
                        self._state.name, ledger_id, error,
                    )  # fmt: skip
                    unmoved.append(ledger_id)
                    failure = failure or error
                else:
                    self.progress.done_ledgers += 1
                    self.progress.done_bytes += size
                self.progress.ledger_id, self.progress.written_bytes = -1, 0
            unreleased = await self._release(policy, tiered)
            failure = failure or unreleased
        except (LedgerError, WorldError, ManagedLedgerError) as error:
            failure = failure or error
        finally:
            self._finished(failure, unmoved, before)
        # Further ledgers may have been closed meanwhile.
        self.soon()

    def _finished(
        self, failure: Exception | None, unmoved: list[int], before: Position | None
    ) -> None:
        now_ms = self._shared.clock.wall_ms()
        if failure is None:
            self._backoff.reset()
            self.status = OffloadStatus(OffloadPhase.SUCCESS, first_unmoved=before)
            return
        self.counters.last_failure_ms = now_ms
        self._not_before_ms = now_ms + round(
            1000 * self._backoff.next_s(self._shared.entropy.random())
        )
        first = Position(min(unmoved), 0) if unmoved else before
        trouble = failure.trouble if isinstance(failure, OffloadError) else StoreTrouble.FAILED
        self.status = OffloadStatus(
            OffloadPhase.ERROR, str(failure), first, trouble, self._not_before_ms
        )

    async def _move(
        self,
        policy: OffloadPolicy,
        tiered: TieredStorage,
        ledger_id: int,
        lost: uuid.UUID | None = None,
    ) -> None:
        """Copy one ledger. Nothing happens when it has left the list meanwhile, is not on the bookies, or has a
        complete copy, unless that is of the attempt ``lost``."""
        store = tiered.stores.open(policy.bucket)
        attempt = uuid.UUID(int=self._shared.entropy.bits(128), version=4)

        def prepared(before: Offload) -> Offload | None:
            has_copy = before.complete and (lost is None or before.attempt != lost)
            if has_copy or before.deleted_from_bookies:
                return None
            return Offload(attempt, bucket=policy.bucket)

        await self._list.sweep()
        self._list.check_deletions(policy.bucket)
        if not await self._noted(ledger_id, prepared):
            return
        name = ObjectName(attempt, ledger_id)
        try:
            await self._write(tiered, store, name)
        except (LedgerError, WorldError):
            await self._discard(DoomedObjects(ledger_id, attempt, policy.bucket))
            raise

        def completed(before: Offload) -> Offload | None:
            if before.attempt != attempt:
                return None
            now_ms = self._shared.clock.wall_ms()
            return replace(before, complete=True, completed_ms=now_ms)

        # After an error of this write the objects stay: it may have been carried out.
        if not await self._noted(ledger_id, completed):
            await self._discard(DoomedObjects(ledger_id, attempt, policy.bucket))
            return
        self._reads.forget(ledger_id)
        self.counters.last_ledger_id = ledger_id
        self.counters.last_success_ms = self._shared.clock.wall_ms()

    async def _write(self, tiered: TieredStorage, store: ObjectStore, name: ObjectName) -> None:
        """Write the objects of a ledger, and count them."""
        progress, meters = self.progress, tiered.meters_of(self._state.name)
        progress.ledger_id = name.ledger_id

        def written(size: int) -> None:
            progress.written_bytes += size

        try:
            ledger = await self._shared.ledgers.open(name.ledger_id, recover=False)
            index = await write_ledger(
                store,
                name,
                ledger,
                tiered.attributes,
                rate=tiered.moved,
                written=written,
                reads=meters.bookie_reads,
            )
        except (LedgerError, WorldError) as error:
            meters.move_errors += 1
            meters.write_errors += isinstance(error, OffloadError)
            raise
        meters.moved_bytes += index.data_bytes

    async def _noted(self, ledger_id: int, change: OffloadChange) -> bool:
        with self._tenure.owned():
            noted = await self._list.note_offload(ledger_id, change)
        await self._list.sweep()
        return noted

    async def _discard(self, doomed: DoomedObjects) -> None:
        """Delete what an attempt wrote, if that can be done now; the next attempt does it otherwise."""
        try:
            await delete_objects(self._shared.objects(self._state.name), doomed)
        except OffloadError as error:
            log.warning("objects remain ledger=%d error=%s", doomed.ledger_id, error)

    async def _release(self, policy: OffloadPolicy, tiered: TieredStorage) -> Exception | None:
        """Delete ledgers from the bookies whose copies are complete since the deletion lag, and are there. Return the
        first error of another one, which stays; a copy that is lost or damaged is made again."""
        now_ms = self._shared.clock.wall_ms()
        ledger_ids: list[int] = []
        failure: Exception | None = None
        for span in releasable(self._state.line.ledgers, now_ms, policy.deletion_lag_s):
            try:
                async with tiered.moving:
                    await self._check_copy(policy, tiered, span)
            except (LedgerError, WorldError) as error:
                log.warning(
                    "ledger stays on the bookies log=%s ledger=%d error=%s",
                    self._state.name, span.ledger_id, error,
                )  # fmt: skip
                failure = failure or error
                if isinstance(error, ObjectStoreError):
                    break
            else:
                ledger_ids.append(span.ledger_id)
        if ledger_ids:
            with self._tenure.owned():
                await self._list.release(ledger_ids)
            for ledger_id in ledger_ids:
                self._reads.forget(ledger_id)
            await self._list.sweep()
        return failure

    async def _check_copy(
        self, policy: OffloadPolicy, tiered: TieredStorage, span: LedgerSpan
    ) -> None:
        """Raise the error of a copy that cannot be the only one; begin a new one if that is lost or damaged."""
        lost = offload_of(span).attempt
        try:
            await check_copy(tiered.stores, self._shared.ledgers, span)
        except (MissingObjectError, DamagedObjectError):
            await self._move(policy, tiered, span.ledger_id, lost)
            self.progress.ledger_id, self.progress.written_bytes = -1, 0
            raise
