"""Mistakes in the placing of functions' instances."""

import asyncio
from typing import Any

from engine.base.ids import Position
from engine.functions.runtime.ports import RunningInstance
from engine.functions.worker.placing import leading
from engine.functions.worker.placing.exclusive_writer import ExclusiveWriter
from engine.functions.worker.running import instance_keeper
from engine.functions.worker.running.instance_keeper import InstanceKeeper
from engine.functions.worker.running.instance_lease import InstanceLease
from tests.sim.plants.planting import Patches


def lease_of_an_instance_is_not_taken() -> Patches:
    """Start an instance at once, whichever worker runs it still."""

    async def acquire(self: InstanceLease) -> None:
        while not self._store.session_proven:
            await asyncio.sleep(0.1)
        self._session = self._store.session_id

    return [(InstanceLease, "acquire", acquire)]


def lease_goes_before_the_instance() -> Patches:
    """Give the lease back, and end the instance after that."""
    real = InstanceKeeper._stop

    async def stop(self: InstanceKeeper, running: RunningInstance) -> None:
        await self._lease.release()
        self._lease._session = self._lease._store.session_id
        await real(self, running)

    return [(InstanceKeeper, "_stop", stop)]


def instance_outlasts_its_lease() -> Patches:
    """Let an instance run on for a while after the lease of its suspended worker."""

    def until(self: InstanceLease) -> float:
        return self._store.session_proven_until_s + 60.0

    return [(InstanceLease, "until_s", property(until))]


def deleted_functions_stay_assigned() -> Patches:
    """Leave the assignments of instances that no function has any more."""
    real = leading.schedule

    def schedule(*args: Any) -> Any:
        return [change for change in real(*args) if change.assignment is not None]

    return [(leading, "schedule", schedule)]


def assignments_keep_the_old_function() -> Patches:
    """Write an assignment once: changes of its function do not reach the worker."""
    real = leading.schedule

    def schedule(functions: Any, assignments: Any, workers: Any) -> Any:
        return [
            change
            for change in real(functions, assignments, workers)
            if change.assignment is None
            or change.key not in assignments
            or assignments[change.key].workerId != change.assignment.workerId
        ]

    return [(leading, "schedule", schedule)]


def stopped_instances_are_started() -> Patches:
    """Start every assigned instance, also those that the user stopped."""
    return [(instance_keeper, "is_stopped", lambda assignment: False)]


def changed_function_is_not_restarted() -> Patches:
    """Let an instance go on when its function has other code."""

    def alike(before: Any, after: Any) -> bool:
        return (before is None) == (after is None)

    return [(instance_keeper, "_runs_alike", alike)]


def dead_instance_stays_down() -> Patches:
    """Wait for a change before an instance that ended is started again."""

    async def pause(self: InstanceKeeper) -> None:
        await self._changed.wait()

    return [(InstanceKeeper, "_pause", pause)]


def change_is_confirmed_before_it_is_stored() -> Patches:
    """Confirm a change of a function when it was sent."""

    async def write(self: ExclusiveWriter, value: bytes, **named: Any) -> Position:
        work = real(self, value, **named)
        try:
            work.send(None)
        except StopIteration:
            pass
        finally:
            work.close()
        return Position(0, 0)

    real = ExclusiveWriter.write
    return [(ExclusiveWriter, "write", write)]
