"""Faults that the happy disk, clock and wire do not have: no room, failing syncs, rot, lost disks, stepping clocks,
tails of connections that never arrive, a metadata service that is away for everybody.

Damage budget: only one machine of a run (``cluster.lost``) may lose synced bytes, only where an ack quorum needs two.
"""

import errno

from bookie.cookies import IdentityError
from bookie.storage.errors import DamagedError
from tests.sim.kit.cluster import EPOCH_MS, Machine
from tests.sim.kit.disk import PLENTY, FaultDisk
from tests.sim.kit.nemesis import Act, Nemesis

HOUR_MS = 3_600_000


def full_disk(n: Nemesis) -> None:
    """Fill a bookie's disk but for a few bytes, and free it later."""
    machine = n.machine("bookie")
    if machine is None:
        return
    disk = machine.disk
    used = disk.capacity_bytes - disk.free_bytes("/")
    disk.capacity_bytes = used + n.rng.choice((0, 5_000, 60_000, 400_000))
    n.cluster.count("full disks")

    def room() -> None:
        disk.capacity_bytes = PLENTY

    n.later(n.rng.choice((1.0, 4.0, 10.0)), room)


def failing_sync(n: Nemesis) -> None:
    """Fail a sync as Linux does: the bytes to sync never reach the disk, and the next sync succeeds."""
    machine = n.machine("bookie")
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


def _victim(n: Nemesis) -> Machine | None:
    """Return the machine of this run whose synced bytes may be damaged; None where no copy may be missing."""
    cluster = n.cluster
    if cluster.shape.quorum[2] < 2:
        return None
    if cluster.lost is None:
        cluster.lost = n.machine("bookie")
    machine = cluster.lost
    if machine is not None:
        machine.excuses = (DamagedError, IdentityError)
        cluster.loop.excused[machine.name] = None
    return machine


def rot(n: Nemesis) -> None:
    """Flip bits of a file, in written bytes."""
    machine = _victim(n)
    if machine is None:
        return
    for _ in range(n.rng.choice((1, 1, 5))):
        machine.disk.rot(n.rng)
    n.cluster.count("rotten spots")


def lose_disk(n: Nemesis) -> None:
    """Restart a bookie's machine with an empty disk: it must not serve under its old name. Another may join."""
    machine = _victim(n)
    if machine is None or machine.starts > 100:
        return
    cluster = n.cluster
    cluster.kill(machine, power=True)
    cluster.loop.call_soon(_swap_disk, machine)
    cluster.start_later(machine, n.rng.choice((0.5, 2.0)))
    cluster.count("lost disks")
    if n.rng.random() < 0.7 and len(cluster.bookies) < 8:
        n.later(n.rng.choice((0.5, 3.0)), n.unless_over(cluster.add_bookie))


def _swap_disk(machine: Machine) -> None:
    machine.disk = FaultDisk()


def step_clock(n: Nemesis) -> None:
    """Step a machine's wall clock forward or back."""
    if machine := n.machine():
        machine.clock.epoch_ms += n.rng.choice((-24, -1, 1, 24)) * HOUR_MS
        n.cluster.ahead_ms = max(n.cluster.ahead_ms, machine.clock.epoch_ms - EPOCH_MS)
        n.cluster.count("clock steps")


def lost_tails(n: Nemesis) -> None:
    """Let the last bytes before the end of a connection be lost for a while."""
    world = n.cluster.world
    world.tail_loss = n.rng.choice((0.2, 1.0))

    def mend() -> None:
        world.tail_loss = 0.0

    n.later(n.rng.choice((1.0, 5.0)), mend)


def slow_pair(n: Nemesis) -> None:
    """Delay bytes from one host to another but not those of others: orders between connections change."""
    pair = (n.host(), n.host())
    world = n.cluster.world
    world.slow_pairs[pair] = n.rng.choice((0.02, 0.3, 0.9))
    n.cluster.count("slow pairs")

    def mend() -> None:
        world.slow_pairs.pop(pair, None)

    n.later(n.rng.choice((0.5, 3.0)), mend)


def metadata_outage(n: Nemesis) -> None:
    """Make the metadata service unavailable for all sessions that are open now."""
    server = n.cluster.metadata
    sessions = list(server._sessions)
    for session_id in sessions:
        server.partition(session_id)
        n._partitioned.append(session_id)
    n.cluster.count("metadata outages")

    def back() -> None:
        for session_id in sessions:
            server.heal(session_id)

    n.later(n.rng.choice((0.5, 1.5, 5.0)), back)


DAMAGE: dict[str, Act] = {
    act.__name__: act
    for act in (
        *(full_disk, failing_sync, rot, lose_disk, step_clock),
        *(lost_tails, slow_pair, metadata_outage),
    )
}
