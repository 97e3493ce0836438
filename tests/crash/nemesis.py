"""Faults of a cluster of real processes, one at a time; each returns when all processes serve again."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from tests.crash.kit.lossy_disk import Plan
from tests.crash.kit.processes import NOTHING, SESSION_S, BookieProcess, Cluster
from tests.crash.kit.wholeness import wait_whole
from tests.crash.points import COMPACTION, GARBAGE, SERVE
from tests.crash.traffic import Traffic

RECEIPTS = 100
"""Further receipts that each producer must have before the next fault."""
CONTINUES_S = 60.0
PATIENCE_S = 5.0
HEAL_S = 2.0
"""Longest pause until the next fault: it may meet ledgers that do not have their third bookie back."""
POINT_S = 6.0
REPAIRED_S = 180.0
"""Bound for all copies to be there again, of a machine that is loaded."""
BEYOND_S = 1.7 * SESSION_S
FAILING = ("journal.sync", "entrylog.sync", "manifest.sync", "index.flush", "lastmark.sync")


class Nemesis:
    """``done`` counts faults by kind. A bookie is wiped only when auto-recovery has made all copies again: at most one
    of three is ever lost, which two answers for each entry allow."""

    def __init__(self, cluster: Cluster, traffic: Traffic, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self.stood_still = 0
        """Times that nothing was published with one bookie unavailable."""
        self._cluster = cluster
        self._traffic = traffic
        self._draw = random.Random(seed)
        self.longest_repair_s = 0.0
        """Longest wait for the copies that faults had cost."""

    def round(self) -> list[str]:
        """Return each kind once, in random order."""
        kinds = list(KINDS)
        self._draw.shuffle(kinds)
        return kinds

    def strike(self, kind: str) -> None:
        """Cause a fault, then wait until publishing continues. Raises TimeoutError, AssertionError when the cluster
        does not recover from it."""
        KINDS[kind](self)
        self._traffic.wait_confirmed(RECEIPTS, CONTINUES_S)
        self.done[kind] += 1
        time.sleep(self._draw.random() * HEAL_S)

    def _bookie(self) -> BookieProcess:
        return self._draw.choice(self._cluster.bookies)

    def _check_publishing(self) -> None:
        """Wait for receipts with one of three bookies unavailable; count when there are none: a ledger had to end, and
        the next one needs three bookies."""
        try:
            self._traffic.wait_confirmed(RECEIPTS, PATIENCE_S)
        except TimeoutError:
            self.stood_still += 1

    def _without(self, bookie: BookieProcess) -> None:
        self._check_publishing()
        bookie.start()
        bookie.wait_ready()

    def cut_power(self) -> None:
        bookie = self._bookie()
        bookie.plan(NOTHING)
        bookie.cut_power()
        self._without(bookie)

    def kill_at_point(self) -> None:
        """Kill a bookie at a named point in its next life, or after some seconds in which it did not reach the
        point."""
        bookie = self._bookie()
        rare = self._draw.random() < 0.25
        point = self._draw.choice([*GARBAGE, *COMPACTION] if rare else SERVE)
        bookie.plan(
            Plan(
                point.operation,
                point.inside,
                armed=False,
                nth=1 if rare else self._draw.choice([1, 2, 5]),
                when=self._draw.choice(["before", "after"]),
                loss=self._draw.choice(["all", "some"]),
                seed=self._draw.randrange(1 << 30),
            )
        )
        bookie.end(signal.SIGTERM)
        bookie.start()
        bookie.wait_ready()
        bookie.arm()
        until = time.monotonic() + POINT_S  # time: a point that is not reached is left
        while bookie.alive and time.monotonic() < until:
            time.sleep(0.02)
        if bookie.alive:
            bookie.cut_power()
        else:
            self.points[str(point)] += 1
        bookie.plan(NOTHING)
        self._without(bookie)

    def fail_sync(self) -> None:
        """Let a sync fail: the bookie ends by itself, and serves again when it is started on the same disk."""
        bookie = self._bookie()
        operation = self._draw.choice(FAILING)
        bookie.plan(Plan(operation, act="eio", armed=False, nth=self._draw.choice([1, 2, 5])))
        bookie.end(signal.SIGTERM)
        bookie.start()
        bookie.wait_ready()
        bookie.arm()
        status = bookie.wait(CONTINUES_S)
        if status != 1 or f"planned at {operation}" not in bookie.log_end(20_000):
            raise AssertionError(
                f"{bookie.name} after a failed {operation}: {status}\n{bookie.log_end()}"
            )
        bookie.plan(NOTHING)
        self._without(bookie)

    def kill_bookie(self) -> None:
        bookie = self._bookie()
        bookie.end()
        self._without(bookie)

    def stop_bookie(self) -> None:
        bookie = self._bookie()
        bookie.send(signal.SIGSTOP)
        began = time.monotonic()
        try:
            self._check_publishing()
            time.sleep(max(0.0, began + BEYOND_S - time.monotonic()))
        finally:
            bookie.send(signal.SIGCONT)
        bookie.wait_ready()

    def wait_whole(self) -> int:
        """Wait until all copies are there; return the number of ledgers. Raises NotWholeError."""
        began = time.monotonic()
        count = wait_whole(self._cluster.metadata, REPAIRED_S)
        self.longest_repair_s = max(self.longest_repair_s, time.monotonic() - began)
        return count

    def replace_bookie(self) -> None:
        """Kill any bookie and wipe its disks. It must not start again under its name with empty disks; a new bookie
        joins, and gets copies while other faults happen."""
        self.wait_whole()
        old = self._bookie()
        old.end()
        old.wipe()
        self._check_publishing()
        old.start()
        status = old.wait(30)
        if status != 1 or "data is lost" not in old.log_end():
            raise AssertionError(
                f"{old.name} came back without its data: {status}\n{old.log_end()}"
            )
        self._cluster.replace_bookie(old)

    def kill_broker(self) -> None:
        broker = self._draw.choice(self._cluster.brokers)
        broker.end()
        time.sleep(self._draw.random())
        broker.start()
        broker.wait_ready()

    def stop_broker(self) -> None:
        """Stop a broker beyond its session, so that others take its topics over; then let it continue with stale
        state."""
        broker = self._draw.choice(self._cluster.brokers)
        others = [other for other in self._cluster.brokers if other is not broker]
        broker.send(signal.SIGSTOP)
        try:
            time.sleep(BEYOND_S)
            if others:
                self._traffic.visit(f"pulsar://127.0.0.1:{others[0].port}")
        finally:
            broker.send(signal.SIGCONT)
        broker.wait_ready()

    def kill_zookeeper(self) -> None:
        """Kill ZooKeeper for less than a session, or for more."""
        self._cluster.zookeeper.stop()
        time.sleep(self._draw.choice([0.2, 0.5, BEYOND_S]))
        self._cluster.zookeeper.start()
        for process in [*self._cluster.bookies, *self._cluster.brokers]:
            process.wait_ready()

    def black_out(self) -> None:
        """Cut the power of all machines at once."""
        cluster = self._cluster
        for broker in cluster.brokers:
            broker.end()
        for bookie in cluster.bookies:
            bookie.plan(NOTHING)
            bookie.cut_power()
        cluster.zookeeper.stop()
        cluster.zookeeper.start()
        for process in [*cluster.bookies, *cluster.brokers]:
            process.start()
        for process in [*cluster.bookies, *cluster.brokers]:
            process.wait_ready()
        self.done["everything without power"] += 1


KINDS: dict[str, Callable[[Nemesis], None]] = {
    "bookie killed, unsynced lost": Nemesis.cut_power,
    "bookie killed at a named point": Nemesis.kill_at_point,
    "bookie killed": Nemesis.kill_bookie,
    "bookie's sync failed": Nemesis.fail_sync,
    "bookie stopped past its session": Nemesis.stop_bookie,
    "bookie wiped and replaced": Nemesis.replace_bookie,
    "broker killed": Nemesis.kill_broker,
    "broker stopped past its session": Nemesis.stop_broker,
    "ZooKeeper killed": Nemesis.kill_zookeeper,
}
