"""The metadata server in memory: shipped code over pipes, a disk that drops what is not synced, and virtual time."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.metadata.server.protocol import OPEN_ACL, Create, CreateMode, Op
from engine.metadata.server.server import MetadataServer
from engine.metadata.server.settings import MetadataServerSettings
from engine.net.network import Network
from tests.sim.kit.disk import FaultDisk, InlineLane
from tests.support.net.pipe_network import PipeNetwork
from tests.support.zookeeper.seam_client import SeamClient

FOLDER = "/md"


class MetadataRig:
    """A server, its disk and its clients. Syncs take ``sync_s()`` of virtual time."""

    def __init__(
        self, disk: FaultDisk | None = None, network: Network | None = None, **settings: Any
    ) -> None:
        self.disk = disk if disk is not None else FaultDisk()
        self.network = network if network is not None else PipeNetwork()
        self.settings = settings
        self.sync_s: Callable[[], float] = lambda: 0.001
        self.snapshot_s: Callable[[], float] = lambda: 0.001
        """Time of an operation on a snapshot."""
        self.lanes: list[InlineLane] = []
        self.server: MetadataServer
        self.epoch_ms = 1_700_000_000_000
        self._starts = 0

    async def start(self) -> None:
        self._starts += 1
        self.server = MetadataServer(
            MetadataServerSettings(
                data_dir=FOLDER, port=0, **{"disk_free_bytes_min": 0, **self.settings}
            ),
            clock=LoopClock(self.epoch_ms),
            entropy=RandomEntropy(random.Random(self._starts)),
            network=self.network,
            disk=self.disk,
            lanes=self._lane,
        )
        await self.server.start()

    def _lane(self, name: str) -> InlineLane:
        slow = name == "snapshot"
        lane = InlineLane(lambda: self.snapshot_s() if slow else self.sync_s())
        self.lanes.append(lane)
        return lane

    async def client(self, **options: Any) -> SeamClient:
        return await SeamClient.open(self.network, self.server.port, **options)

    async def stop(self) -> None:
        await self.server.drain()

    async def crash(self, keep: Callable[[], bool] = lambda: False) -> None:
        """Lose the power: end the process at once, and what was not synced; then start again."""
        await self.kill()
        self.disk.crash(keep)
        await self.start()

    async def kill(self) -> None:
        """End the process at once; what it had written stays."""
        server = self.server
        for lane in self.lanes:
            lane._queue.clear()
        self.lanes.clear()
        server.commits.stop()
        server._expiry.stop()
        server._scope.cancel()
        for listener in (server._listener, server._tls_listener):
            listener.stop_accepting()
        for connection in server.connections:
            connection.abort()
        await asyncio.sleep(0.001)


def create(path: str, data: bytes = b"", mode: int = CreateMode.PERSISTENT) -> Create:
    return Create(Op.CREATE, path, data, OPEN_ACL, mode)
