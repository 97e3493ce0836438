"""Mistakes in the balance of load."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from engine.base.names import BundleName
from engine.broker.control.load import leader as leader_module
from engine.broker.control.load.leader import LoadLeader
from engine.ownership import placer as placer_module
from engine.ownership.load import plan as plan_module
from engine.ownership.load import pool as pool_module
from engine.ownership.load.plan import _Planner
from engine.ownership.load.planned import Plan, PlanLimits, Recent
from engine.ownership.load.policies import PlacementPolicies
from engine.ownership.load.pool import Pool
from engine.ownership.load.recent_moves import MOVED, RecentMoves
from engine.ownership.load.report import LoadReport, ResourceUsage, _Reader
from engine.ownership.registration import (
    BrokerRegistration,
    RegisteredBroker,
    registered_brokers,
)
from tests.sim.plants.planting import Patches


def former_leader_moves_bundles() -> Patches:
    """Look at the leader's node until it was held once, and take it for held from then on."""
    real = BrokerRegistration.leads
    led: dict[BrokerRegistration, None] = {}

    async def leads(self: BrokerRegistration) -> bool:
        if self not in led and not await real(self):
            return False
        led[self] = None
        return True

    return [(BrokerRegistration, "leads", leads)]


def moves_are_unknown_to_the_next_leader() -> Patches:
    """Keep the moves in the memory of the leader that asked for them, and not for the next one."""
    real = RecentMoves.recent

    def recent(self: RecentMoves, imbalances: Mapping[str, int]) -> Recent:
        return real(RecentMoves(), imbalances)

    return [(RecentMoves, "recent", recent)]


def quiet_time_is_forgotten() -> Patches:
    """Move bundles again before the last moves show in the reports."""
    real = _Planner._is_due

    def is_due(self: _Planner, subject: str, checks: int, imbalance: str, *, lasts: bool) -> bool:
        self._recent = replace(self._recent, cycle_ms=None)
        return real(self, subject, checks, imbalance, lasts=lasts)

    return [(_Planner, "_is_due", is_due)]


def quiet_time_of_bundles_is_forgotten() -> Patches:
    """Move a bundle again as soon as that seems to help."""
    real = _Planner.plan

    def plan(self: _Planner) -> Plan:
        self._moved.clear()
        return real(self)

    return [(_Planner, "plan", plan)]


def busiest_and_idlest_are_swapped() -> Patches:
    """Move bundles from the idlest broker to the busiest."""
    real = Pool._destination

    def busiest(values: Iterable[str], key: Any = None) -> str:
        return max(values, key=key)

    def destination(self: Pool, bundle: BundleName, source: str, share: float, *rest: Any) -> Any:
        if real(self, bundle, source, share, *rest) is None:
            return None
        places = self._places.of(bundle)
        usable = [name for name in places if name in self._loads and name not in self._sources]
        return busiest(usable, key=lambda name: (self._loads[name], name))

    return [(Pool, "_destination", destination)]


def a_moment_is_an_imbalance() -> Patches:
    """Move bundles at the first check that finds an imbalance."""
    real = _Planner.__init__

    def init(self: _Planner, *args: Any) -> None:
        *rest, limits = args
        real(self, *rest, replace(limits, checks=1))

    return [(_Planner, "__init__", init)]


def old_reports_are_believed() -> Patches:
    """Decide by a report however old it is."""
    real = plan_module.unusable

    def unusable(report: LoadReport, now_ms: int, limits: PlanLimits) -> str:
        reason = real(report, now_ms, limits)
        return "" if " old, " in reason else reason

    return [(plan_module, "unusable", unusable)]


def clocks_of_others_are_believed() -> Patches:
    """Decide by a report from the future, which stays new when its broker ends."""
    real = plan_module.unusable

    def unusable(report: LoadReport, now_ms: int, limits: PlanLimits) -> str:
        reason = real(report, now_ms, limits)
        return "" if " ahead of " in reason else reason

    return [(plan_module, "unusable", unusable)]


def any_number_is_a_load() -> Patches:
    """Take whatever a report states as its load for a share."""

    def usage(self: _Reader, name: str) -> ResourceUsage | None:
        stored = self._stored.get(name)
        if not stored or not stored["limit"]:
            return None
        return ResourceUsage(float(stored["usage"]), float(stored["limit"]))

    return [(_Reader, "_usage", usage)]


def unknown_load_is_none() -> Patches:
    """Take a broker whose load is unknown for an idle one."""
    real = LoadReport.usage.fget

    def usage(self: LoadReport) -> float:
        known = real(self)  # type: ignore[misc]
        return 0.0 if known is None else known

    return [(LoadReport, "usage", property(usage))]


def ended_brokers_are_remembered() -> Patches:
    """Plan with brokers that were registered once."""
    known: dict[str, RegisteredBroker] = {}

    async def remember(store: Any) -> dict[str, RegisteredBroker]:
        known.update(await registered_brokers(store))
        return dict(known)

    return [(leader_module, "registered_brokers", remember)]


def isolation_does_not_count_for_moves() -> Patches:
    """Move a bundle to any broker that is idle."""

    def places(
        self: PlacementPolicies, bundle: BundleName, broker_ids: Collection[str]
    ) -> list[str]:
        return [name for name in broker_ids if name not in self.draining]

    return [(PlacementPolicies, "places", places)]


def anti_affinity_does_not_count() -> Patches:
    """Place and move a bundle on any broker that isolation leaves."""

    def preferred(
        self: PlacementPolicies, bundle: BundleName, broker_ids: Collection[str]
    ) -> list[str]:
        return list(broker_ids)

    return [(PlacementPolicies, "preferred", preferred)]


def the_whole_difference_moves() -> Patches:
    """Move bundles to the idlest broker without an end, which makes it the busiest."""

    def half(self: Pool, source: str, load: float) -> float:
        return 1.0

    return [(Pool, "_half", half)]


def every_broker_gives_at_once() -> Patches:
    """Move bundles from as many brokers in one cycle as are busier than the mean."""
    real = Pool.move

    def move(self: Pool, sources_max: int, receivers: list[str] | None = None) -> int:
        return real(self, 1_000, receivers)

    return [(Pool, "move", move)]


def nothing_is_said_about_what_stays() -> Patches:
    """Give no reason when no bundle moves."""

    def skip(self: Any, subject: object, kind: str, reason: str) -> None:
        pass

    return [(_Planner, "_skip", skip), (Pool, "_skip", skip)]


def crowded_brokers_are_not_asked_last() -> Patches:
    """Place bundles by their hash alone."""

    def crowded_above(loads: Iterable[float | None]) -> float:
        return float("inf")

    return [(placer_module, "crowded_above", crowded_above)]


def unknown_load_is_crowded() -> Patches:
    """Put brokers whose load is unknown behind the others."""
    real = placer_module.HashPlacer.order

    def order(
        self: placer_module.HashPlacer,
        bundle: BundleName,
        broker_ids: Iterable[str],
        situation: placer_module.Situation = placer_module.NO_SITUATION,
    ) -> list[str]:
        loads = {name: 1.0 if load is None else load for name, load in situation.loads.items()}
        return real(self, bundle, broker_ids, situation._replace(loads=loads))

    return [(placer_module.HashPlacer, "order", order)]


def leader_stops_at_a_failure() -> Patches:
    """Plan no more after a check that the store did not answer."""

    async def run(self: LoadLeader, sleep: Any) -> None:
        while True:
            await sleep(self._settings().load_balancer_shedding_interval_minutes * 60.0)
            try:
                await self.check()
            except Exception:
                return

    return [(LoadLeader, "run", run)]


def loads_of_idle_brokers_do_not_count() -> Patches:
    """Wait for a large standard deviation, however long a broker is idle."""

    def idle(self: Pool) -> list[str]:
        return []

    return [(pool_module.Pool, "_idle", idle)]


def drained_brokers_receive_bundles() -> Patches:
    """Place and move bundles as if no broker were drained."""

    def places(
        self: PlacementPolicies, bundle: BundleName, broker_ids: Collection[str]
    ) -> list[str]:
        return self.isolation.places(str(bundle.namespace), broker_ids)

    return [(PlacementPolicies, "places", places)]


def drained_broker_is_taken_for_an_idle_one() -> Patches:
    """Balance the load over all brokers, also those that operators drain."""
    real = leader_module.placement_policies

    async def placement_policies(*args: Any) -> PlacementPolicies:
        return replace(await real(*args), draining={})

    return [(leader_module, "placement_policies", placement_policies)]


def marks_leave_bundles_without_a_place() -> Patches:
    """Place a bundle on no drained broker, also when there is no other one."""

    def places(
        self: PlacementPolicies, bundle: BundleName, broker_ids: Collection[str]
    ) -> list[str]:
        staying = [name for name in broker_ids if name not in self.draining]
        return self.isolation.places(str(bundle.namespace), staying)

    return [(PlacementPolicies, "places", places)]


def failed_moves_are_repeated_at_once() -> Patches:
    """Move a bundle again to the broker that could not take it, as one that has lost it since."""
    real = RecentMoves.recent

    def recent(self: RecentMoves, imbalances: Mapping[str, int]) -> Recent:
        moves = tuple(move._replace(result=MOVED) for move in self.moves)
        return real(replace(self, moves=moves), imbalances)

    return [(RecentMoves, "recent", recent)]


def empty_broker_is_filled_without_end() -> Patches:
    """Fill a broker without a bundle after two checks however often it ends."""

    def fills_of(self: _Planner, broker_id: str) -> int:
        return 0

    return [(_Planner, "_fills_of", fills_of)]
