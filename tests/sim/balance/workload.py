"""Brokers that report their load and are balanced, in fast motion: a second of the loop is a minute of the brokers.

Load wanders over the bundles; brokers join, leave, crash, pause beyond their session, lose their session, and report
nonsense. Registration, reports, leader, plan and placement are the shipped code. Ownership is a table, so that a move
is one change of it, with a delay.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.admin.api.bundles import Transferred
from engine.base.errors import Conflict, MagnetarError
from engine.base.names import HASH_TOP, BundleName, NamespaceName
from engine.broker.control.assignment import BundleAssignment
from engine.broker.control.load import leader as leader_module
from engine.broker.control.load.broker_drain import BrokerDrain
from engine.broker.control.load.leader import Balance, LoadLeader
from engine.broker.control.load.reporting import BusyShare, LoadReporter
from engine.metadata import paths
from engine.metadata.records import encode_json
from engine.ownership.load import draining as draining_module
from engine.ownership.load import plan as plan_module
from engine.ownership.load.draining import DrainMark
from engine.ownership.load.plan import CLOCK_AHEAD_MAX_MS
from engine.ownership.load.planned import Transfer
from engine.ownership.load.policies import PlacementPolicies
from engine.ownership.load.report import BundleLoad, decode_report
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.load.stored import placement_policies
from engine.ownership.placer import HashPlacer, Situation
from engine.ownership.registration import BrokerRecord, BrokerRegistration, registered_brokers
from tests.sim.balance.judge import GRACE_MS, MINUTE_MS, SLACK, Judge, spread
from tests.sim.balance.store import InstantStore, InstantTree
from tests.sim.kit.cluster import EPOCH_MS
from tests.sim.kit.scenario import Run, first_of

SETTINGS = LoadBalanceSettings(
    load_balancer_broker_load_data_ttl_in_seconds=600,
    load_balancer_report_update_max_interval_minutes=5,
)
SPEED = 60.0
"""Seconds of the brokers in one second of the loop."""
CLUSTER = "c"
NAMESPACES = [NamespaceName("t", f"n{number}") for number in range(10)]
ISOLATED, *GROUP = NAMESPACES[7:]
SESSION_S = 1.0
"""Pause, in seconds of the loop, after which a session ends."""
PRIMARY = ("b0", "b1", "b2")
"""Brokers that serve ISOLATED, and nothing else."""
NONSENSE = ("nan", "negative", "huge", "missing", "stale", "ahead")
MESSAGE_BYTES = 1_000.0
FULL_RATE = 50_000.0
"""Messages per second that keep a broker busy all the time."""
SETTLE_MINUTES = 45
"""Minutes with constant loads and no faults after which the loads must be balanced."""


@dataclass(frozen=True)
class Balancing:
    """``brokers`` at the beginning; ``bundles`` in all; ``load``: mean load of the brokers; ``skew`` of the bundles'
    loads; ``wander`` per minute; ``faults`` per minute; ``sources``: brokers that may give bundles in one cycle."""

    brokers: int
    bundles: int
    load: float
    skew: float
    wander: float
    faults: float
    sources: int

    @classmethod
    def draw(cls, rng: random.Random) -> "Balancing":
        brokers, bundles = rng.choice(((3, 64), (3, 64), (5, 100), (5, 100), (8, 200), (20, 1000)))
        return cls(
            brokers,
            bundles,
            rng.choice((0.2, 0.35, 0.5)),
            rng.choice((0.0, 0.7, 1.0)),
            rng.choice((0.0, 0.1, 0.5)),
            rng.choice((0.05, 0.2, 0.5)),
            rng.choice((1, 3)),
        )

    def setup(self, run: Run) -> "BalancingWorkload":
        return BalancingWorkload(run, self)


class FastClock:
    """Clocks in fast motion."""

    def __init__(self, run: Run, ahead_ms: int = 0) -> None:
        self._loop = run.loop
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        return EPOCH_MS + self.ahead_ms + int(self._loop.now * SPEED * 1000)

    def monotonic_s(self) -> float:
        return self._loop.now * SPEED


class SimBroker:
    """One broker: its registration, its reports, and its leader while it leads."""

    def __init__(self, world: "BalancingWorkload", name: str) -> None:
        self.world, self.name = world, name
        self.store = InstantStore(world.tree)
        self.clock = FastClock(world.run)
        self.nonsense = ""
        self.nonsense_since_ms = 0
        self.paused = False
        self._waited_s = self._waited_at_s = 0.0
        record = BrokerRecord(name, f"pulsar://{name}", f"http://{name}", 0, "4.0.8")
        store: Any = self.store
        settings = replace(
            SETTINGS, load_balancer_max_number_of_broker_shedding_per_cycle=world.plan.sources
        )
        self.registration = BrokerRegistration(store, record)
        busy = BusyShare(self.waited_s, self.clock.monotonic_s)
        self.reporter = LoadReporter(self.registration, self, busy, self.clock, lambda: settings)
        self.leader = LoadLeader(
            *(store, self.registration, CLUSTER, FastClock(world.run), lambda: settings),
            self._move,
        )
        unused: Any = None
        assignment = BundleAssignment(store, unused, record, CLUSTER, HashPlacer())
        self.drain = BrokerDrain(
            *(store, name, self.clock, lambda: list(world.held[name])),
            *(assignment.targets, self._give),
        )
        self._shown: Balance | None = None
        self._tasks = [
            asyncio.ensure_future(self._report()),
            asyncio.ensure_future(self.leader.run(_sleep)),
        ]

    # The interfaces of its bundles and its event loop

    async def count(self) -> None:
        pass

    def loads(self) -> dict[BundleName, BundleLoad]:
        costs = self.world.costs
        rates = {bundle: costs[bundle] * FULL_RATE for bundle in self.world.held[self.name]}
        return {
            bundle: BundleLoad(rates[bundle], rates[bundle] * MESSAGE_BYTES, topics=5)
            for bundle in sorted(rates, key=rates.__getitem__, reverse=True)
        }

    def waited_s(self) -> float:
        now_s = self.clock.monotonic_s()
        self._waited_s += (now_s - self._waited_at_s) * (1.0 - self.world.load_of(self.name))
        self._waited_at_s = now_s
        return self._waited_s

    # The process

    async def _report(self) -> None:
        while True:
            try:
                await self.registration.renew()
                if self.nonsense != "stale":
                    await self.reporter.check()
                    await self._garble()
                await self.drain.check()
            except MagnetarError:
                pass
            await _sleep(60.0)

    async def _garble(self) -> None:
        """Replace the report with a nonsensical one."""
        if self.nonsense not in ("nan", "negative", "huge", "missing"):
            return
        path = paths.broker(self.name)
        value, _ = await self.store.get(path)
        report = json.loads(value)
        report.setdefault("cpu", {"usage": 0.0, "limit": 100.0})
        wrong = {"nan": float("nan"), "negative": -5.0, "huge": 1e300}
        if self.nonsense == "missing":
            del report["cpu"]
        else:
            report["cpu"]["usage"] = wrong[self.nonsense]
        await self.store.put(path, json.dumps(report).encode())

    async def _move(self, transfer: Transfer) -> str:
        world = self.world
        self._judge()
        if world.marked_ms.get(transfer.destination, 0) > (self.leader.balance.planned_ms or 0):
            raise Conflict(f"{transfer.destination} was drained since the plan")
        world.judge_call(self, transfer)
        await asyncio.sleep(0.001 if world.calm else world.rng.choice((0.001, 0.05, 0.3)))
        if world.owners.get(transfer.bundle) != transfer.source:
            raise Conflict(f"{transfer.source} is not the owner")
        world.release(transfer.bundle)
        await asyncio.sleep(0.001)
        if transfer.bundle in world.owners:
            return "unloaded"
        if transfer.destination not in world.brokers or world.brokers[transfer.destination].paused:
            world.place(transfer.bundle)
            return "unloaded"
        world.acquire(transfer.bundle, transfer.destination)
        world.judge.homes[transfer.bundle] = transfer.destination
        if not world.calm and world.rng.random() < 0.05:
            await asyncio.sleep(100.0)  # the answer is lost
        return "moved"

    async def _give(self, bundle: BundleName, destination: str) -> Transferred:
        """Move a bundle of this broker while it is drained."""
        world = self.world
        await asyncio.sleep(world.rng.choice((0.001, 0.05, 0.3)))
        if world.owners.get(bundle) != self.name:
            raise Conflict(f"{self.name} is not the owner")
        world.judge.received(bundle, destination, world.marked_ms, world.now_ms())
        world.release(bundle)
        if destination not in world.brokers or world.brokers[destination].paused:
            world.place(bundle)
            return Transferred(moved=False, reason="the destination failed")
        world.acquire(bundle, destination)
        world.run.cluster.count("drained")
        return Transferred(moved=True, reason="")

    def _judge(self) -> None:
        """Judge the plan of the leader once, when its balance is new."""
        balance = self.leader.balance
        if balance is self._shown:
            return
        self._shown = balance
        if balance.plan is not None:
            now_ms = self.leader._clock.wall_ms()
            judge, counts = self.world.judge, self.world.reported_counts()
            pools = self.world.pools(balance.plan.loads)
            judge.checked(self.name, balance.plan, counts, pools, now_ms)
            judge.projected(balance.plan, self.world.shares(balance.plan.transfers))

    def look(self) -> None:
        """Judge plans without moves, too."""
        plan = self.leader.balance.plan
        if plan is not None and not (plan.transfers and self.leader.balance.results):
            self._judge()

    def end(self) -> None:
        """Stop the process, and its session with it."""
        for task in self._tasks:
            task.cancel()
        self.store.expire()


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds / SPEED)


class BalancingWorkload:
    """The cluster, the wandering load and the faults of a run."""

    def __init__(self, run: Run, plan: Balancing) -> None:
        self.run, self.plan = run, plan
        self.rng = random.Random(f"{run.loop.seed}/balance")
        self.judge = Judge(plan.sources)
        self.tree = InstantTree()
        self.brokers: dict[str, SimBroker] = {}
        self.ended_ms: dict[str, int] = {}
        """Time at which each broker that is no longer there has ended."""
        self.owners: dict[BundleName, str] = {}
        self.held: dict[str, dict[BundleName, None]] = {}
        self.marked_ms: dict[str, int] = {}
        """Time at which each broker that is drained now was marked."""
        self._named = 0
        self._changed_ms = 0
        """Time at which a broker last joined, ended or lost its session."""
        self.calm = False
        """True when the load is constant and nothing fails any more."""
        self._tasks: list[asyncio.Future[None]] = []
        self._policies = PlacementPolicies()
        self._places: dict[tuple[NamespaceName, tuple[str, ...]], list[str]] = {}
        self._usages: dict[tuple[str, int, int], Any] = {}
        self.costs = self._draw_costs()
        run.limits.append((leader_module, "MOVE_DEADLINE_S", 1.0))

    def _draw_costs(self) -> dict[BundleName, float]:
        """Draw loads of bundles, Zipf-distributed, none of them more than a sixth of a broker."""
        plan, parts = self.plan, self.plan.bundles // len(NAMESPACES) + 1
        step = HASH_TOP // parts
        bundles = [
            BundleName(NAMESPACES[number % 10], number // 10 * step, number // 10 * step + step)
            for number in range(plan.bundles)
        ]
        self.rng.shuffle(bundles)
        weights = [1.0 / (rank + 5) ** plan.skew for rank in range(len(bundles))]
        scale = plan.load * plan.brokers / sum(weights)
        return {
            bundle: min(0.15, weight * scale)
            for bundle, weight in zip(bundles, weights, strict=True)
        }

    # The truth

    def load_of(self, name: str) -> float:
        return min(1.0, sum(self.costs[bundle] for bundle in self.held[name]))

    def pools(self, names: Iterable[str]) -> list[list[str]]:
        """Return the sets of brokers that the isolation policy makes."""
        there = list(names)
        primary = [name for name in there if name.split(":")[0] in PRIMARY]
        if not self._policies.isolation or not primary:
            return [there]
        return [primary, [name for name in there if name not in primary]]

    def shares(self, transfers: Iterable[Transfer]) -> dict[BundleName, float]:
        """Return the part of its broker's load that each bundle causes; all parts together are 1 at most."""
        full = {
            name: sum(self.costs[bundle] for bundle in held) for name, held in self.held.items()
        }
        return {
            transfer.bundle: self.costs[transfer.bundle] / max(1.0, full[transfer.source])
            for transfer in transfers
        }

    def reported_counts(self) -> dict[str, int]:
        """Return the number of bundles that each registered broker has reported."""
        counts: dict[str, int] = {}
        for broker in self.brokers:
            node = self.tree.nodes.get(paths.broker(broker))
            if node is not None:
                counts[broker] = decode_report(broker, node[0]).owned_count or 0
        return counts

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.run.loop.now * SPEED * 1000)

    def acquire(self, bundle: BundleName, name: str) -> None:
        if bundle in self.owners:
            self.judge.wrong("O1", f"{bundle} has two owners")
        self.owners[bundle] = name
        self.held[name][bundle] = None

    def release(self, bundle: BundleName) -> None:
        name = self.owners.pop(bundle)
        self.held[name].pop(bundle)

    def place(self, bundle: BundleName) -> None:
        """Place a bundle without an owner, as the broker that a client asks does."""
        registered = self.tree.children(paths.LOADBALANCE_BROKERS)
        there = [name for name in registered if name in self.brokers]
        if not there:
            return
        loads = {name: self._reported(name) for name in there}
        key = bundle.namespace, tuple(there)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = self._policies.places(bundle, there)
        order = HashPlacer().order(bundle, places, Situation(loads, self._policies))
        self.judge.admitted(bundle, order[0] if order else "", there, self._policies)
        if not order:
            return
        self.judge.placed(bundle, order[0], places, loads, self._policies)
        self.acquire(bundle, order[0])
        self.run.cluster.count("placed")

    def _reported(self, name: str) -> float | None:
        value, version, session = self.tree.nodes[paths.broker(name)]
        known = self._usages.get((name, session, version), self)
        if known is self:
            known = self._usages[name, session, version] = decode_report(name, value).usage
        return known

    def judge_call(self, broker: SimBroker, transfer: Transfer) -> None:
        now_ms = self.now_ms()
        node = self.tree.nodes.get(paths.LOADBALANCE_LEADER)
        leads = node is not None and node[2] == broker.store.session_id and not broker.store.expired
        self.judge.called(transfer, now_ms, leads=leads)
        self.judge.received(transfer.bundle, transfer.destination, self.marked_ms, now_ms)
        registered = self.tree.children(paths.LOADBALANCE_BROKERS)
        for name in (transfer.source, transfer.destination):
            if now_ms - self.ended_ms.get(name, now_ms) > GRACE_MS:
                self.judge.wrong("L3", f"{transfer} with a broker that has ended")
            other = self.brokers.get(name)
            since_ms = 0 if other is None else now_ms - other.nonsense_since_ms
            late = 12 * MINUTE_MS if other is not None and other.nonsense == "stale" else GRACE_MS
            if other is not None and other.nonsense == "ahead":
                # A report that is old enough by now may be used: it is not written again without a change.
                since_ms = GRACE_MS + self._ahead_ms(name) - CLOCK_AHEAD_MAX_MS
                if self.now_ms() - self._written_ms(name) < GRACE_MS:
                    since_ms = 0  # the plan may be older than this report
            if other is not None and other.nonsense and since_ms > late:
                self.judge.wrong("L3", f"{transfer} with a broker whose report is {other.nonsense}")
        if now_ms - self._changed_ms > GRACE_MS:
            self.judge.destination(
                transfer.bundle, transfer.destination, self._policies, registered
            )
        self.run.cluster.count("moves")

    def _written_ms(self, name: str) -> int:
        """Return when a broker has written its report."""
        report = decode_report(name, self.tree.nodes[paths.broker(name)][0])
        return (report.updated_ms or 0) - self.brokers[name].clock.ahead_ms

    def _ahead_ms(self, name: str) -> int:
        """Return by how much a broker's report is newer than the present time."""
        report = decode_report(name, self.tree.nodes[paths.broker(name)][0])
        return (report.updated_ms or 0) - self.now_ms()

    # The run

    async def start(self) -> None:
        await self._write_policies()
        for _ in range(self.plan.brokers):
            self._join()
        await _sleep(5.0)
        for bundle in self.costs:
            self.place(bundle)
        self._tasks.append(asyncio.ensure_future(self._act()))
        self.run.watch(self._look)

    def _look(self) -> None:
        for broker in self.brokers.values():
            broker.look()

    async def _write_policies(self) -> None:
        store: Any = InstantStore(self.tree)
        await store.create(paths.cluster(CLUSTER), b"{}")
        await store.create(paths.tenant("t"), b"{}")
        for namespace in NAMESPACES:
            await store.create(paths.namespace_policies(str(namespace)), b"{}")
        for namespace in GROUP:
            group = encode_json({"namespaceAntiAffinityGroup": "g"})
            await store.create(paths.local_policies(str(namespace)), group)
        policy = {
            "namespaces": [str(ISOLATED)],
            "primary": ["b[0-2]:.*"],
            "secondary": [".*"],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
            "unload_scope": "none",
        }
        # The primary brokers of one namespace serve no other, so only runs with several brokers have the policy.
        if self.plan.brokers > 5:
            await store.create(paths.isolation_policies(CLUSTER), encode_json({"p": policy}))
        self._policies = await placement_policies(store, CLUSTER, NAMESPACES)

    def _join(self) -> None:
        name = f"b{self._named}:1"
        self._named += 1
        self.held[name] = {}
        self.brokers[name] = SimBroker(self, name)
        self._changed_ms = self.now_ms()
        self.run.cluster.count("joined")

    async def _act(self) -> None:
        """Let the load wander, and cause faults, each minute."""
        while not self.calm:
            await _sleep(60.0)
            for bundle in self.costs:
                if self.rng.random() < 0.2:
                    change = 1.0 + self.plan.wander * self.rng.uniform(-1.0, 1.0)
                    self.costs[bundle] = min(0.15, self.costs[bundle] * change)
            if self.rng.random() < self.plan.faults:
                await self._fault()

    async def _fault(self) -> None:
        kinds = (
            "join",
            "leave",
            "crash",
            "pause",
            "lapse",
            "lapse",
            "lie",
            "lie",
            "drain",
            "drain",
            "reinstate",
        )
        kind = self.rng.choice(kinds)
        self.run.cluster.count(kind)
        name = self.rng.choice(sorted(self.brokers))
        broker = self.brokers[name]
        if kind in ("pause", "lapse") and self.rng.random() < 0.7:
            name = next((n for n, b in self.brokers.items() if b.leader.balance.leads), name)
            broker = self.brokers[name]
        if kind == "join" and len(self.brokers) < self.plan.brokers + 2:
            self._join()
        elif kind == "leave" and len(self.brokers) > max(3, self.plan.brokers - 2):
            await self._leave(broker)
        elif kind == "crash" and len(self.brokers) > max(3, self.plan.brokers - 2):
            self._end(broker)
        elif kind == "pause" and not broker.paused:
            self._tasks.append(asyncio.ensure_future(self._pause(broker)))
        elif kind == "drain":
            await self._drain(name)
        elif kind == "reinstate" and self.marked_ms:
            await self._reinstate(self.rng.choice(sorted(self.marked_ms)))
        elif kind == "lapse":
            broker.store.expire()
            self._lose(broker)
        elif kind == "lie":
            self._lie(broker, self.rng.choice(("", "", *NONSENSE)))

    async def _drain(self, name: str) -> None:
        """Drain a broker without an end, as an operator does."""
        store: Any = InstantStore(self.tree)
        registered = list(await registered_brokers(store))
        mark = DrainMark(self.now_ms(), "operator")
        with suppress(Conflict):
            await draining_module.mark_draining(store, name, mark, registered)
            if name in self.marked_ms:
                return
            self.marked_ms[name] = self.now_ms()
            self._marks_changed()
            if not {*registered} - {name, *self.marked_ms}:
                self.judge.wrong("L10", f"{name} is drained, and no other broker is left")

    async def _reinstate(self, name: str) -> None:
        """End the drain of a broker, which may have ended itself."""
        store: Any = InstantStore(self.tree)
        await draining_module.end_draining(store, name)
        del self.marked_ms[name]
        self._marks_changed()

    def _marks_changed(self) -> None:
        self._changed_ms = self.now_ms()
        self._policies = replace(self._policies, draining=dict.fromkeys(self.marked_ms, ""))
        self._places.clear()

    def _lie(self, broker: SimBroker, nonsense: str) -> None:
        if self.calm:  # a fault that began before may come late
            nonsense = ""
        broker.nonsense = nonsense
        broker.nonsense_since_ms = self.now_ms()
        broker.clock.ahead_ms = 10 * MINUTE_MS if nonsense == "ahead" else 0

    def _lose(self, broker: SimBroker) -> None:
        """Place the bundles of a broker whose session has ended, as their clients make brokers do."""
        self._changed_ms = self.now_ms()
        bundles = list(self.held[broker.name])
        for bundle in bundles:
            self.release(bundle)
        for bundle in bundles:
            self.place(bundle)

    def _end(self, broker: SimBroker) -> None:
        del self.brokers[broker.name]
        self.ended_ms[broker.name] = self._changed_ms = self.now_ms()
        broker.end()
        self._lose(broker)

    async def _leave(self, broker: SimBroker) -> None:
        """Hand the bundles of a broker over to the targets of the plan."""
        store: Any = InstantStore(self.tree)
        brokers = await registered_brokers(store)
        reports = {name: registered.load for name, registered in brokers.items()}
        owned = list(self.held[broker.name])
        drained = dict.fromkeys(self.marked_ms, "drained")
        policies = self._policies.without(drained)
        chosen = plan_module.targets(owned, broker.name, reports, policies)
        registered = [name for name in brokers if name != broker.name]
        for bundle, destination in chosen.items():
            self.judge.destination(bundle, destination, self._policies, registered)
            if destination in self.brokers:
                self.release(bundle)
                self.acquire(bundle, destination)
        self._end(broker)

    async def _pause(self, broker: SimBroker) -> None:
        broker.paused = True
        broker.store.resumed.clear()
        await asyncio.sleep(self.rng.choice((0.3, 2.0, 5.0)) * SESSION_S)
        if self.brokers.get(broker.name) is not broker:
            return
        if self.rng.random() < 0.8:
            broker.store.expire()
            self._lose(broker)
        await asyncio.sleep(self.rng.choice((0.1, 1.0, 3.0)))
        broker.paused = False
        self._changed_ms = self.now_ms()
        broker.store.resumed.set()

    async def quiet(self) -> None:
        self.calm = True
        if self.rng.random() < 0.5:
            for name in list(self.marked_ms):
                await self._reinstate(name)
        for broker in self.brokers.values():
            self._lie(broker, "")
        await asyncio.sleep(10.0)  # pauses have ended
        for bundle in [bundle for bundle in self.costs if bundle not in self.owners]:
            self.place(bundle)
        await asyncio.sleep(SETTLE_MINUTES)
        self._check_balance()
        for broker in list(self.brokers.values()):
            broker.end()
        for task in self._tasks:
            task.cancel()

    def _check_balance(self) -> None:
        leaders = [broker for broker in self.brokers.values() if broker.leader.balance.leads]
        if len(leaders) != 1:
            self.judge.wrong("L8", f"{len(leaders)} brokers lead in the end")
            return
        balance = leaders[0].leader.balance
        kinds = {skip.kind for skip in balance.skips}
        stuck = {"no place", "too large", "not worth it"} & kinds
        self._check_drained()
        for pool in self.pools(name for name in self.brokers if name not in self.marked_ms):
            if not pool:
                continue
            loads = sorted(self.load_of(name) for name in pool)
            # Bundles that moved lately stay where they are, and small loads are not worth a move.
            if loads[0] < sum(loads) / len(loads) / 2 - SLACK and not kinds & {*stuck, "moved"}:
                self.judge.wrong("L8", f"a broker remains idle, loads {loads}: {balance.skips[:3]}")
            # Reports differ from the present loads by what is not worth a new one.
            if spread(loads) > 0.25 + SLACK / 2 and not stuck:
                self.judge.wrong("L8", f"loads {loads} are not balanced: {balance.skips[:3]}")
        since_ms = self.now_ms() - SETTLE_MINUTES * MINUTE_MS
        calls = Counter(bundle for at_ms, bundle in self.judge.calls if at_ms > since_ms)
        again = [bundle for bundle, count in calls.items() if count > 1]
        if again:
            self.judge.wrong("L8", f"{len(again)} bundles move twice under constant load")

    def _check_drained(self) -> None:
        """Check that drained brokers have no bundle that another one may serve, and that every bundle has an owner."""
        there = list(self.brokers)
        for bundle, name in self.owners.items():
            self.judge.admitted(bundle, name, there, self._policies)
        for bundle in self.costs.keys() - self.owners.keys():
            self.judge.wrong("L10", f"{bundle} has no owner in the end")

    def check(self) -> list[str]:
        counts = self.run.cluster
        counts.count("bundles", len(self.costs))
        return first_of(self.judge.violations, "balance")
