"""The instances of this worker, by the assignments to it."""

import asyncio
from collections.abc import Mapping

from engine.base.tasks import TaskScope, restarting
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.running.instance_keeper import InstanceKeeper, KeeperParts

FENCE_CHECK_S = 0.1
"""Seconds between checks whether the session with the metadata store is proven, and for how long."""


class WorkerInstances:
    """Keepers by the key of their instance. ``start`` must be called inside the running loop."""

    def __init__(self, parts: KeeperParts) -> None:
        self._parts = parts
        self._keepers: dict[str, InstanceKeeper] = {}
        self._tasks = TaskScope("instances")
        self._closed = False

    def start(self) -> None:
        # A session that ends early is noticed at once, one that may have ended by the time.
        self._parts.store.on_state(lambda state: self._fence_now())
        self._tasks.spawn("fence", restarting("check of the session", self._fence))

    @property
    def keepers(self) -> Mapping[str, InstanceKeeper]:
        """The keepers, also those of instances that are about to end."""
        return self._keepers

    def follow(self, assignments: Mapping[str, pb.Assignment]) -> None:
        """Run exactly these instances from now on."""
        if self._closed:
            return
        for key, keeper in list(self._keepers.items()):
            if keeper.ended:
                del self._keepers[key]
            elif key not in assignments:
                keeper.want(None)
        for key, assignment in assignments.items():
            if key not in self._keepers:
                self._keepers[key] = InstanceKeeper(self._parts, key)
            self._keepers[key].want(assignment)

    async def close(self) -> None:
        """End all instances and give their leases back."""
        self._closed = True
        await asyncio.gather(*(keeper.close() for keeper in self._keepers.values()))
        await self._tasks.close()

    def _fence_now(self) -> None:
        for keeper in self._keepers.values():
            keeper.fence()

    async def _fence(self) -> None:
        while True:
            self._fence_now()
            for keeper in self._keepers.values():
                keeper.renew()
            await asyncio.sleep(FENCE_CHECK_S)
