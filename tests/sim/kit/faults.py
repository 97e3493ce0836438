"""Faults of machines, network and metadata, independent of the workload."""

from tests.sim.kit.damage import DAMAGE
from tests.sim.kit.followers import FOLLOWERS
from tests.sim.kit.nemesis import Act, Nemesis


def kill(n: Nemesis) -> None:
    if machine := n.machine():
        n.down(machine, power=False)


def power_loss(n: Nemesis) -> None:
    if machine := n.machine(n.rng.choice(("bookie", "bookie", "broker"))):
        n.down(machine, power=True, silent=n.rng.random() < 0.5)


def crash_in_a_disk_operation(n: Nemesis) -> None:
    if machine := n.machine("bookie"):
        n.cluster.crash_at_operation(machine, n.rng.randrange(1, 60), n.rng.random() < 0.7)


def whole_rack(n: Nemesis) -> None:
    for machine in n.cluster.machines.values():
        n.down(machine, power=True)


def stop(n: Nemesis) -> None:
    """Stop a process as SIGTERM does, and start a new one."""
    if (machine := n.machine()) and machine.stop is not None:
        machine.stop.set()
        n.cluster.count("stops")


def pause(n: Nemesis) -> None:
    machine = n.machine()
    if machine is None or machine.node is None or machine.node.paused:
        return
    node = machine.node
    n.cluster.loop.pause(node)
    n._paused.append(node)
    n.cluster.count("pauses")

    def resume() -> None:
        if node.paused and not node.dead:
            n.cluster.loop.resume(node)

    n.later(n.rng.choice((0.1, 1.0, 5.0, 9.0)), resume)


def cut(n: Nemesis) -> None:
    source, target = n.host(), n.host()
    pairs = [(source, target)]
    if n.rng.random() < 0.5:
        pairs.append((target, source))
    for pair in pairs:
        n.cluster.world.cut(*pair)
    n.cluster.count("cuts")

    def mend() -> None:
        for pair in pairs:
            n.cluster.world.cuts.pop(pair, None)

    n.later(n.rng.choice((0.2, 2.0, 8.0)), mend)


def reset(n: Nemesis) -> None:
    n.cluster.world.reset_links(n.host())
    n.cluster.count("resets")


def slow_link(n: Nemesis) -> None:
    name = n.host()
    n.cluster.world.slow[name] = n.rng.choice((0.01, 0.1, 0.5))

    def mend() -> None:
        n.cluster.world.slow.pop(name, None)

    n.later(n.rng.choice((1.0, 5.0)), mend)


def slow_disk(n: Nemesis) -> None:
    if machine := n.machine("bookie"):
        machine.disk_slow_until = n.cluster.loop.now + n.rng.choice((0.5, 4.0))


def expire_session(n: Nemesis) -> None:
    """Expire a session early, where its client is notified: leases rely on the wait of the server otherwise."""
    machine = n.machine()
    if machine is None or machine.store is None or machine.node is None or machine.node.paused:
        return
    if machine.store.session_id not in n._partitioned:
        n.cluster.metadata.expire(machine.store.session_id)
        n.cluster.count("expired sessions")


def break_session(n: Nemesis) -> None:
    if (machine := n.machine()) and machine.store is not None:
        n.cluster.metadata.break_connection(machine.store.session_id)


def partition_metadata(n: Nemesis) -> None:
    if (machine := n.machine()) is None or machine.store is None:
        return
    session_id = machine.store.session_id
    n.cluster.metadata.partition(session_id)
    n._partitioned.append(session_id)
    n.cluster.count("metadata partitions")
    n.later(n.rng.choice((0.3, 2.0, 8.0)), lambda: n.cluster.metadata.heal(session_id))


def lag_follower(n: Nemesis) -> None:
    """Let a metadata server fall behind: its sessions read old values, except for what they wrote themselves."""
    metadata = n.cluster.metadata
    follower = n.rng.randrange(FOLLOWERS)
    metadata.fall_behind(follower)
    n.cluster.count("lags of metadata")
    n.later(n.rng.choice((0.5, 2.0, 8.0)), lambda: metadata.catch_up(follower))


FAULTS: dict[str, Act] = {
    act.__name__: act
    for act in (
        *DAMAGE.values(),
        *(kill, power_loss, crash_in_a_disk_operation, whole_rack, stop, pause, cut, reset),
        *(slow_link, slow_disk, expire_session, break_session, partition_metadata),
        lag_follower,
    )
}
