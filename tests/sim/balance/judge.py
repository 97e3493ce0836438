"""Promises of load balance, checked at each plan, at each call of an owner and at each placement.

The judge computes from loads that brokers reported and from the truth of the run. It does not use the code that plants
change: the few shipped functions that it calls are bound when this module is imported.
"""

from collections.abc import Collection, Mapping, Sequence

from engine.base.names import BundleName
from engine.ownership.load.planned import Plan, Transfer
from engine.ownership.load.policies import PlacementPolicies
from engine.ownership.placer import HashPlacer

MINUTE_MS = 60_000
BUNDLE_QUIET_MS = 29 * MINUTE_MS
"""The time of the rule, which begins with a plan, less the time in which the plan's calls are made."""
QUIET_MS = 3 * MINUTE_MS
CHECKS = 3
FILL_CHECKS, FILLS_MAX = 2, 2
"""Checks before a broker without a bundle is filled, and cycles in 30 minutes in which it may be."""
SPREAD_MAX = 0.25
GRACE_MS = 2 * MINUTE_MS
"""Time for which a plan may still rely on a report or a registration that was right when it was read."""
SLACK = 0.06
"""Difference between reported loads, which are smoothed, and those of the truth."""

_preferred = PlacementPolicies.preferred
_places = PlacementPolicies.places
_order = HashPlacer.order


def spread(loads: Collection[float]) -> float:
    """Return the standard deviation of loads, 0 for none."""
    if not loads:
        return 0.0
    mean = sum(loads) / len(loads)
    return float((sum((load - mean) ** 2 for load in loads) / len(loads)) ** 0.5)


def is_imbalanced(loads: Mapping[str, float], counts: Mapping[str, int]) -> bool:
    """Return whether a plan may move bundles at these loads and numbers of bundles by broker."""
    if len(loads) < 2:
        return False
    mean = sum(loads.values()) / len(loads)
    idle = any(load < mean / 2 or not counts.get(name, 0) for name, load in loads.items())
    return idle or spread(loads.values()) > SPREAD_MAX


class Judge:
    """Checker of one run. Times are milliseconds of the truth; violations begin with the name of the promise."""

    def __init__(self, sources_max: int) -> None:
        """``sources_max``: brokers that may give bundles in one cycle."""
        self._sources_max = sources_max
        self.violations: list[str] = []
        self.moved: dict[BundleName, int] = {}
        """Time of the last call for each bundle."""
        self.homes: dict[BundleName, str] = {}
        """Broker that each bundle has moved to by its last call, if it has."""
        self._filled_ms: dict[str, list[int]] = {}
        self.calls: list[tuple[int, BundleName]] = []
        self.cycle_ms: int | None = None
        self._plan: Plan | None = None
        self._imbalanced: dict[str, int] = {}
        """Checks in a row, by leader, at which the loads that it knew were imbalanced."""

    def wrong(self, promise: str, text: str) -> None:
        self.violations.append(f"{promise}: {text}")

    def checked(
        self,
        leader: str,
        plan: Plan,
        counts: Mapping[str, int],
        pools: Sequence[Collection[str]],
        now_ms: int,
    ) -> None:
        """Judge a plan when it is made, before its first call. Bundles move in ``pools`` of brokers only."""
        known = {name: load for name, load in plan.loads.items() if load is not None}
        imbalanced = any(
            is_imbalanced({name: known[name] for name in pool if name in known}, counts)
            for pool in pools
        )
        self._imbalanced[leader] = self._imbalanced.get(leader, 0) + 1 if imbalanced else 0
        if not plan.transfers:
            if not plan.skips:
                self.wrong("L4", f"{leader} moves nothing and gives no reason")
            return
        filled = {transfer.destination for transfer in plan.transfers}
        fills = all(not counts.get(name, 0) and self._fills(name, now_ms) for name in filled)
        if self._imbalanced[leader] < (FILL_CHECKS if fills else CHECKS):
            seen = self._imbalanced[leader]
            self.wrong("L6", f"{leader} moves bundles after {seen} checks with an imbalance")
        if self.cycle_ms is not None and now_ms - self.cycle_ms < QUIET_MS:
            self.wrong("L2", f"cycles {now_ms - self.cycle_ms} ms apart")
        self.cycle_ms = now_ms
        sources = {transfer.source for transfer in plan.transfers}
        if len(sources) > self._sources_max:
            self.wrong("L2", f"{len(sources)} brokers give bundles in one cycle")

    def _fills(self, name: str, now_ms: int) -> bool:
        """Return whether a broker without a bundle may still be filled at once."""
        times = self._filled_ms.get(name, ())
        return sum(now_ms - at_ms < BUNDLE_QUIET_MS for at_ms in times) < FILLS_MAX

    def projected(self, plan: Plan, costs: Mapping[BundleName, float]) -> None:
        """Judge what the loads will be after the moves of a plan."""
        after = {name: load for name, load in plan.loads.items() if load is not None}
        largest: dict[str, float] = {}
        for transfer in plan.transfers:
            if transfer.source not in after or transfer.destination not in after:
                self.wrong("L3", f"{transfer} between brokers whose load is unknown")
                return
            cost = costs[transfer.bundle]
            after[transfer.source] -= cost
            after[transfer.destination] += cost
            largest[transfer.source] = max(cost, largest.get(transfer.source, 0.0))
        for transfer in plan.transfers:
            before = plan.loads[transfer.source] or 0.0
            if after[transfer.destination] > before + SLACK:
                self.wrong("L6", f"{transfer} makes the destination busier than the source was")
            limit = after[transfer.source] + largest[transfer.source] + 3 * SLACK
            if after[transfer.destination] > limit:
                self.wrong("L6", f"{transfer}: more than half of the difference moves")

    def received(
        self, bundle: BundleName, destination: str, marked_ms: Mapping[str, int], now_ms: int
    ) -> None:
        """Judge that a bundle moves to ``destination``. ``marked_ms``: since when brokers are drained."""
        if now_ms - marked_ms.get(destination, now_ms) > GRACE_MS:
            self.wrong("L10", f"{bundle} moves to {destination}, which is being drained")

    def admitted(
        self,
        bundle: BundleName,
        chosen: str,
        registered: Sequence[str],
        policies: PlacementPolicies,
    ) -> None:
        """Judge whether ``chosen`` (empty: none) may receive a bundle, by the marks of drained brokers."""
        places = _places(policies, bundle, registered)
        if not chosen and places:
            self.wrong("L10", f"{bundle} has no place, and {places} are registered")
        elif chosen in policies.draining and chosen not in places:
            self.wrong("L10", f"{bundle} is placed on {chosen}, which is being drained")

    def called(self, transfer: Transfer, now_ms: int, *, leads: bool) -> None:
        """Judge the call of an owner."""
        if not leads:
            self.wrong("L1", f"a broker that does not lead asks for {transfer}")
        before = self.moved.get(transfer.bundle)
        home = self.homes.pop(transfer.bundle, None)
        returns = home == transfer.destination != transfer.source
        if before is not None and now_ms - before < BUNDLE_QUIET_MS and not returns:
            self.wrong("L2", f"{transfer.bundle} moves again after {now_ms - before} ms")
        self.moved[transfer.bundle] = now_ms
        self.calls.append((now_ms, transfer.bundle))
        cycles = self._filled_ms.setdefault(transfer.destination, [])
        if self.cycle_ms is not None and self.cycle_ms not in cycles:
            cycles.append(self.cycle_ms)

    def destination(
        self,
        bundle: BundleName,
        destination: str,
        policies: PlacementPolicies,
        registered: Sequence[str],
    ) -> None:
        """Judge where a bundle is moved to, by its policies."""
        places = _places(policies, bundle, registered)
        if destination not in places:
            self.wrong("L5", f"{bundle} moves to {destination}, which isolation forbids")
        elif destination not in _preferred(policies, bundle, places):
            self.wrong("L5", f"{bundle} moves to {destination} against anti-affinity")

    def placed(
        self,
        bundle: BundleName,
        chosen: str,
        places: Sequence[str],
        loads: Mapping[str, float | None],
        policies: PlacementPolicies,
    ) -> None:
        """Judge the placement of a bundle without an owner on one of ``places``."""
        preferred = _preferred(policies, bundle, places)
        known = [load for name in places if (load := loads.get(name)) is not None]
        mean = sum(known) / len(known) if known else 0.0
        limit = max(mean * 1.25, mean + 0.05) if len(known) > 1 else float("inf")

        def fits(name: str) -> bool:
            load = loads.get(name)
            return load is None or load <= limit

        better = [name for name in preferred if fits(name)]
        if chosen not in preferred and preferred:
            self.wrong("L5", f"{bundle} is placed on {chosen} against anti-affinity")
        elif better and chosen not in better:
            self.wrong("L7", f"{bundle} is placed on {chosen} with a load of {loads.get(chosen)}")
        elif better and chosen != next(iter(_order(HashPlacer(), bundle, better))):
            self.wrong("L7", f"{bundle} is placed on {chosen}, which is not the first that fits")
