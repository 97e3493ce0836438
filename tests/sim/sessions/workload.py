"""The metadata server under faults: sessions write, watch, reconnect, expire, and are judged by what they see."""

import asyncio
import errno
import random
from dataclasses import dataclass

from engine.metadata.server.protocol import ErrorCode, GetChildren
from engine.metadata.server.server import MetadataServer
from engine.metadata.server.settings import MetadataServerSettings
from engine.metadata.server.storage.metadata_log import LogFullError
from tests.sim.kit.cluster import EPOCH_MS, Machine
from tests.sim.kit.disk import PLENTY
from tests.sim.kit.loop import Node
from tests.sim.kit.nemesis import Act, Nemesis
from tests.sim.kit.network import SimNetwork
from tests.sim.kit.scenario import Run, first_of
from tests.sim.sessions.client import (
    DATA,
    GONE,
    PAIR,
    PORT,
    SERVER,
    SessionUser,
    prepare,
    stats,
)
from tests.sim.sessions.truth import State, Truth
from tests.support.zookeeper.seam_client import SeamClient

KIND = "metadata"
READY_S = 30.0
END_S = 60.0
"""Bound within which every call ends and every abandoned session expires, after the faults (simulated seconds)."""


@dataclass(frozen=True)
class MetadataSessions:
    """``clients`` sessions at a time, with that timeout; a snapshot after ``snapshot_bytes`` of log."""

    clients: int
    timeout_ms: int
    snapshot_bytes: int
    disk_s: float

    @classmethod
    def draw(cls, rng: random.Random) -> "MetadataSessions":
        return cls(
            clients=rng.choice((2, 3, 5)),
            timeout_ms=rng.choice((1500, 3000)),
            snapshot_bytes=rng.choice((4096, 20_000, 1 << 20)),
            disk_s=rng.choice((0.0002, 0.002, 0.01, 0.05)),
        )

    def setup(self, run: Run) -> "MetadataWorkload":
        return MetadataWorkload(run, self)


class MetadataWorkload:
    def __init__(self, run: Run, plan: MetadataSessions) -> None:
        self._run = run
        self._plan = plan
        self._truth = Truth()
        cluster = run.cluster
        machine = Machine(SERVER, KIND, EPOCH_MS, plan.disk_s, self._process)
        cluster.machines[SERVER] = self._machine = machine
        run.faults.update(SERVER_FAULTS)
        self._users = [
            SessionUser(cluster, self._truth, f"client-{i + 1}", plan.timeout_ms)
            for i in range(plan.clients)
        ]

    async def _process(self, machine: Machine) -> None:
        cluster = self._run.cluster
        server = MetadataServer(
            MetadataServerSettings(
                data_dir="/data",
                port=PORT,
                tick_time_ms=500,
                snapshot_log_bytes=self._plan.snapshot_bytes,
                disk_free_bytes_min=0,
            ),
            clock=machine.clock,
            entropy=cluster.entropy(machine),
            network=SimNetwork(cluster.world),
            disk=machine.disk,
            lanes=lambda name: cluster._lane(machine),
        )
        machine.stop = server.over
        try:
            try:
                await server.start()
            except LogFullError as error:
                raise OSError(str(error)) from error  # it is started again, as other failures are
            machine.ready = True
            await server.over.wait()
        finally:
            await server.drain()
        if server.failure is not None:
            raise server.failure

    async def start(self) -> None:
        await self._run.reach("start", lambda: self._machine.ready, READY_S, list)
        await self._run.loop.spawn(Node("auditor"), self._prepare())
        for user in self._users:
            user.start()

    async def _prepare(self) -> None:
        client = await self._auditor()
        await prepare(client)
        client.close()

    async def _auditor(self) -> SeamClient:
        """Return a client; the creation of its session may meet the last fault of a disk, which ends the server."""
        network = SimNetwork(self._run.cluster.world)
        until = self._run.loop.now + END_S
        while True:
            try:
                return await SeamClient.open(network, PORT, host=SERVER, timeout_ms=10_000)
            except OSError:
                if self._run.loop.now > until:
                    raise
                await asyncio.sleep(0.5)

    async def quiet(self) -> None:
        for user in self._users:
            user.calm = True
        settled = await self._run.reach(
            "settle all clients",
            lambda: self._machine.ready and all(user.settled for user in self._users),
            END_S,
            lambda: [user.name for user in self._users if not user.settled],
        )
        if settled:
            await self._run.loop.spawn(Node("auditor"), self._audit())
        for user in self._users:
            user.over = True
        tasks = [user.task for user in self._users if user.task is not None]
        await asyncio.wait(tasks, timeout=END_S)

    async def _audit(self) -> None:
        """Read the remaining state."""
        client = await self._auditor()
        final = await stats(client, (*DATA, *PAIR, *GONE))
        for path in (*DATA, *PAIR):
            stat = final[path]
            if stat is None:
                self._run.wrong(f"Z1 {path} is gone in the end")
            else:
                self._truth.final(path, stat)
        for user in self._users:
            if user.watching is not None:
                for path in list(user.watching.watched):
                    stat = final.get(path)
                    state: State | None = (
                        None if stat is None else (stat.czxid, stat.mzxid, stat.version)
                    )
                    user.watching.shown(path, state)
        until = self._run.loop.now + END_S
        while leftover := await self._leftover(client):
            if self._run.loop.now > until:
                self._run.wrong(f"Z5 ephemeral nodes outlive their sessions: {leftover[:3]}")
                break
            await asyncio.sleep(0.5)
        client.close()

    async def _leftover(self, client: SeamClient) -> list[str]:
        """Return the ephemeral nodes of sessions that no client has."""
        reply = await client.send(GetChildren("/e", False, False))
        if reply.code != ErrorCode.OK or reply.answer is None:
            return ["no answer"]
        live = {f"{user.session_id:x}" for user in self._users}
        names: tuple[str, ...] = reply.answer.names  # type: ignore[union-attr]
        return [name for name in names if name.partition("-")[0] not in live]

    def check(self) -> list[str]:
        return first_of(self._truth.wrong, "sessions")


# Faults of the server's machine


def metadata_power_loss(n: Nemesis) -> None:
    if machine := n.machine(KIND):
        n.down(machine, power=True, silent=n.rng.random() < 0.5)


def metadata_kill(n: Nemesis) -> None:
    if machine := n.machine(KIND):
        n.down(machine, power=False)


def metadata_crash_in_a_disk_operation(n: Nemesis) -> None:
    if machine := n.machine(KIND):
        n.cluster.crash_at_operation(machine, n.rng.randrange(1, 40), n.rng.random() < 0.7)


def metadata_full_disk(n: Nemesis) -> None:
    """Fill the disk but for a few bytes, and free it later."""
    machine = n.machine(KIND)
    if machine is None:
        return
    disk = machine.disk
    disk.capacity_bytes = (
        disk.capacity_bytes - disk.free_bytes("/") + n.rng.choice((0, 5_000, 90_000))
    )
    n.cluster.count("full disks")

    def room() -> None:
        disk.capacity_bytes = PLENTY

    n.later(n.rng.choice((1.0, 4.0)), room)


def metadata_failing_sync(n: Nemesis) -> None:
    """Fail a sync as Linux does: the bytes to sync never reach the disk, and the next sync succeeds."""
    machine = n.machine(KIND)
    if machine is None or machine.disk.plan is not None:
        return
    disk, left = machine.disk, [n.rng.randrange(1, 20)]
    n.cluster.loop.excused[machine.name] = None
    n.cluster.count("failing syncs")

    def plan(operation: str, path: str) -> int | None:
        if operation == "fdatasync":
            left[0] -= 1
            if left[0] == 0:
                disk.plan = None
                disk.drop_dirty(path)
                raise OSError(errno.EIO, "Input/output error", path)
        return None

    disk.plan = plan


def metadata_slow_disk(n: Nemesis) -> None:
    if machine := n.machine(KIND):
        machine.disk_slow_until = n.cluster.loop.now + n.rng.choice((0.5, 3.0))


SERVER_FAULTS: dict[str, Act] = {
    act.__name__: act
    for act in (
        *(metadata_power_loss, metadata_kill, metadata_crash_in_a_disk_operation),
        *(metadata_full_disk, metadata_failing_sync, metadata_slow_disk),
    )
}
NETWORK_FAULTS = (
    "stop",
    "pause",
    "cut",
    "reset",
    "slow_link",
    "step_clock",
    "lost_tails",
    "slow_pair",
)
"""Faults of the kit that concern this machine and its clients."""
