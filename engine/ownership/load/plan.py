"""Plan of load balance: which bundles should move, from which broker to which, and why others should not. Pure.

The rule is that of Pulsar's TransferShedder. Bundles move when the standard deviation of the brokers' loads is above a
limit, or a broker is idle, several checks in a row. The busiest broker is paired with the idlest, and half of their
difference is moved. Everything that prevents a move is a ``MoveSkip`` with its reason.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from engine.base.names import BundleName
from engine.ownership.load.policies import PlacementPolicies, is_movable
from engine.ownership.load.report import LoadReport
from engine.ownership.placer import HashPlacer, Situation

CLUSTER = "cluster"
"""Subject of a skip that concerns all brokers."""
IDLE_RATIO = 0.5
"""Part of the mean load below which a broker is idle."""
ROUNDING = 1e-9
CLOCK_AHEAD_MAX_MS = 60_000
"""Milliseconds by which a report may be newer than the leader's clock."""
GAIN_MIN = 0.01
"""Load by which the destination must stay below the former load of the source, and below which no more is moved."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Thresholds of the plan, with Pulsar's defaults. Loads and shares are 0..1."""

    spread_max: float = 0.25
    """Standard deviation of loads above which bundles move."""
    checks: int = 3
    """Checks in a row that must find an imbalance."""
    sources_max: int = 3
    """Brokers from which bundles move in one cycle."""
    quiet_ms: int = 180_000
    """Time after a cycle with moves without another one."""
    bundle_quiet_ms: int = 1_800_000
    """Time in which a bundle is not moved again."""
    report_age_max_ms: int = 1_800_000
    bytes_min: float = 10_000_000.0
    """Bytes per second below which a move is not worth it, unless it moves ``share_min``."""
    share_min: float = 0.05


class Transfer(NamedTuple):
    """A bundle that should move."""

    bundle: BundleName
    source: str
    destination: str
    reason: str


class MoveSkip(NamedTuple):
    """A bundle, broker or the cluster (``subject``) that is left as it is.

    ``kind`` of the reason remains the same while only numbers in the ``reason`` change.
    """

    subject: str
    reason: str
    kind: str


_NEVER: Mapping[BundleName, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recent:
    """Memory of the previous plans for the next one. Times are epoch milliseconds."""

    moved: Mapping[BundleName, int] = field(default_factory=lambda: _NEVER)
    """Time of the last move of each bundle within ``PlanLimits.bundle_quiet_ms``."""
    cycle_ms: int | None = None
    """Time of the last plan with moves."""
    imbalances: int = 0
    """Checks in a row that found an imbalance, up to the present one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, what is not moved, and what the next plan must know."""

    transfers: tuple[Transfer, ...]
    skips: tuple[MoveSkip, ...]
    recent: Recent
    loads: Mapping[str, float | None]
    """Load by broker; None when it is unknown or its report cannot be used."""
    spread: float | None = None
    """Standard deviation of the known loads; None for fewer than two."""


def plan(
    reports: Mapping[str, LoadReport],
    bundles: Mapping[BundleName, str],
    policies: PlacementPolicies,
    recent: Recent,
    now_ms: int,
    limits: PlanLimits = PlanLimits(),
) -> Plan:
    """Return what should move now.

    ``reports`` has one entry for each registered broker. ``bundles``: owner by bundle, as known; a bundle that is not
    owned by the broker that reports it is not moved. Nothing moves while fewer than half of the brokers have a report
    that can be used.
    """
    return _Planner(reports, bundles, policies, recent, now_ms, limits).plan()


def owners_of(reports: Mapping[str, LoadReport]) -> dict[BundleName, str]:
    """Return the owner of each bundle; of two reports that name the same bundle, the newer one decides."""
    owners: dict[BundleName, str] = {}
    for broker_id, report in sorted(reports.items(), key=lambda item: item[1].updated_ms or 0):
        owners.update(dict.fromkeys((*report.owned, *report.bundles), broker_id))
    return owners


def unusable(report: LoadReport, now_ms: int, limits: PlanLimits = PlanLimits()) -> str:
    """Return why no decision can be based on a report; empty when it can be used."""
    if report.usage is None:
        named = f" ({', '.join(report.faults[:3])})" if report.faults else ""
        return f"its load is unknown{named}"
    if report.updated_ms is None:
        return "its report has no time"
    age_ms = now_ms - report.updated_ms
    if age_ms > limits.report_age_max_ms:
        oldest = limits.report_age_max_ms / 1000
        return f"its report is {age_ms / 1000:.0f} s old, at most {oldest:.0f} s are allowed"
    if age_ms < -CLOCK_AHEAD_MAX_MS:
        return f"its clock is {-age_ms / 1000:.0f} s ahead of the leader's"
    return ""


def spread_of(loads: Iterable[float]) -> float | None:
    """Return the standard deviation of loads; None for fewer than two."""
    known = list(loads)
    if len(known) < 2:
        return None
    mean = sum(known) / len(known)
    return math.sqrt(sum((load - mean) ** 2 for load in known) / len(known))


class _Planner:
    """One computation of a plan. ``_loads`` and ``_counts`` are those after the moves that are planned so far."""

    def __init__(
        self,
        reports: Mapping[str, LoadReport],
        bundles: Mapping[BundleName, str],
        policies: PlacementPolicies,
        recent: Recent,
        now_ms: int,
        limits: PlanLimits,
    ) -> None:
        self._reports = reports
        self._owners = bundles
        self._policies = policies
        self._now_ms = now_ms
        self._limits = limits
        self._skips: list[MoveSkip] = []
        self._transfers: list[Transfer] = []
        # A time ahead of this clock counts as now, so that no bundle is held longer than the rule says.
        self._moved = {
            bundle: moved
            for bundle, at_ms in recent.moved.items()
            if now_ms - (moved := min(at_ms, now_ms)) < limits.bundle_quiet_ms
        }
        self._recent = replace(recent, moved=dict(self._moved))
        self._loads: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._sources: list[str] = []
        """Brokers whose bundles were considered, which receive none."""

    def plan(self) -> Plan:
        shown = self._read_loads()
        spread = spread_of(self._loads.values())
        if self._may_decide():
            imbalance = self._imbalance()
            count = self._recent.imbalances + 1 if imbalance else 0
            self._recent = replace(self._recent, imbalances=count)
            if not imbalance:
                self._skip(CLUSTER, "balanced", f"balanced: {self._balance()}")
            elif self._is_due(imbalance):
                self._move()
                if self._transfers:
                    self._recent = Recent(self._moved, self._now_ms)
        else:
            self._recent = replace(self._recent, imbalances=0)
        return Plan(tuple(self._transfers), tuple(self._skips), self._recent, shown, spread)

    def _skip(self, subject: object, kind: str, reason: str) -> None:
        self._skips.append(MoveSkip(str(subject), reason, kind))

    def _read_loads(self) -> dict[str, float | None]:
        """Fill ``_loads`` with the brokers that take part; return the loads of all."""
        shown: dict[str, float | None] = {}
        for broker_id in sorted(self._reports):
            report = self._reports[broker_id]
            reason = unusable(report, self._now_ms, self._limits)
            shown[broker_id] = None if reason else report.usage
            reason = reason or self._policies.excluded.get(broker_id, "")
            if reason:
                self._skip(broker_id, "no part", f"takes no part: {reason}")
            elif report.usage is not None:
                self._loads[broker_id] = report.usage
                count = report.owned_count
                self._counts[broker_id] = len(report.owned) if count is None else count
        return shown

    def _may_decide(self) -> bool:
        brokers, usable = len(self._reports), len(self._loads)
        if brokers < 2:
            self._skip(CLUSTER, "alone", "there is one broker only")
        elif usable < 2 or usable * 2 < brokers:
            self._skip(
                CLUSTER, "no decision", f"no decision: {usable} of {brokers} brokers can take part"
            )
        else:
            return True
        return False

    def _mean(self) -> float:
        return sum(self._loads.values()) / len(self._loads)

    def _idle(self) -> list[str]:
        """Return the idle brokers, those with the least load first."""
        mean = self._mean()
        brokers = [
            broker_id
            for broker_id, load in self._loads.items()
            if load < mean * IDLE_RATIO or not self._counts[broker_id]
        ]
        return sorted(brokers, key=lambda broker_id: (self._loads[broker_id], broker_id))

    def _balance(self) -> str:
        spread = spread_of(self._loads.values()) or 0.0
        return f"standard deviation of loads {spread:.2f}, limit {self._limits.spread_max:g}"

    def _imbalance(self) -> str:
        """Return why bundles should move; empty when the loads are balanced."""
        if (spread_of(self._loads.values()) or 0.0) > self._limits.spread_max:
            return self._balance()
        idle = self._idle()
        return f"{', '.join(idle[:3])} idle (mean load {_percent(self._mean())})" if idle else ""

    def _is_due(self, imbalance: str) -> bool:
        """Return whether bundles may move now. What is imbalanced is a reason of the skip."""
        checks, limits = self._recent.imbalances, self._limits
        if checks < limits.checks:
            self._skip(
                CLUSTER,
                "imbalance",
                f"imbalance found {checks} times, acts at {limits.checks}: {imbalance}",
            )
            return False
        cycle_ms = self._recent.cycle_ms
        since_ms = limits.quiet_ms if cycle_ms is None else self._now_ms - cycle_ms
        if 0 <= since_ms < limits.quiet_ms:
            self._skip(
                CLUSTER,
                "quiet",
                f"quiet for {(limits.quiet_ms - since_ms) / 1000:.0f} s more after the last moves: {imbalance}",
            )
            return False
        return True

    def _move(self) -> None:
        """Plan moves from at most ``sources_max`` brokers, the busiest first."""
        givers: dict[str, None] = {}
        while len(givers) < self._limits.sources_max and self._imbalance():
            # A broker that receives bundles gives none in the same cycle.
            taken = {*self._sources, *(move.destination for move in self._transfers)}
            waiting = [broker_id for broker_id in self._loads if broker_id not in taken]
            source = max(
                waiting, key=lambda broker_id: (self._loads[broker_id], broker_id), default=None
            )
            if source is None or self._loads[source] <= self._mean():
                break
            self._sources.append(source)
            if self._move_from(source):
                givers[source] = None

    def _move_from(self, source: str) -> bool:
        """Plan moves of half of the difference between ``source`` and the idlest brokers; return whether any is worth
        it."""
        loads, limits = self._loads, self._limits
        before = dict(loads), dict(self._counts)
        moved = moved_bytes = 0.0
        planned: list[Transfer] = []
        half, receivers = self._half(source, min(loads.values())), self._receivers()
        # Larger bundles than what should move come last, the smallest first, and only while little else has moved.
        order = sorted(
            self._candidates(source),
            key=lambda item: (item[1] > half, abs(half - item[1]), str(item[0])),
        )
        for bundle, share in order:
            may_exceed = moved < limits.share_min
            destination = self._destination(bundle, source, share, receivers, may_exceed)
            if destination is None:
                continue
            reason = (
                f"load {_percent(loads[source])} of {source}, {_percent(loads[destination])} of "
                f"{destination}; the bundle causes {_percent(share)}"
            )
            planned.append(Transfer(bundle, source, destination, reason))
            loads[source] -= share
            loads[destination] += share
            self._counts[source] -= 1
            self._counts[destination] += 1
            moved += share
            moved_bytes += self._reports[source].bundles[bundle].bytes
        if moved < limits.share_min and moved_bytes < limits.bytes_min:
            self._loads, self._counts = before
            self._skip(source, "not worth it", self._not_worth_it(len(planned), moved, moved_bytes))
            return False
        self._transfers += planned
        self._moved.update(dict.fromkeys((move.bundle for move in planned), self._now_ms))
        return True

    def _half(self, source: str, load: float) -> float:
        return (self._loads[source] - load) / 2

    def _not_worth_it(self, count: int, moved: float, moved_bytes: float) -> str:
        limits = self._limits
        return (
            f"not worth it: {count} bundles with {_percent(moved)} of load and "
            f"{moved_bytes / 1e6:.1f} MB/s could move; at least {_percent(limits.share_min)} or "
            f"{limits.bytes_min / 1e6:g} MB/s are needed"
        )

    def _candidates(self, source: str) -> list[tuple[BundleName, float]]:
        """Return the bundles of a broker that may move, with the load that each causes."""
        report = self._reports[source]
        bundles: list[tuple[BundleName, float]] = []
        for bundle in report.bundles:
            share = report.share_of(bundle)
            if self._owners.get(bundle) != source or share is None or not is_movable(bundle):
                continue
            if bundle in self._moved:
                ago_s = (self._now_ms - self._moved[bundle]) / 1000
                wait_s = self._limits.bundle_quiet_ms / 1000
                self._skip(
                    bundle, "moved", f"moved {ago_s:.0f} s ago, not again for {wait_s:.0f} s"
                )
            elif share > 0:
                bundles.append((bundle, share))
        return bundles

    def _destination(
        self,
        bundle: BundleName,
        source: str,
        share: float,
        receivers: list[str] | None,
        may_exceed: bool,
    ) -> str | None:
        """Return the idlest broker that may serve the bundle; None, with a skip, when the bundle should stay.

        ``receivers`` are the only brokers that should receive it, None for any. ``may_exceed``: the bundle may be
        larger than half of the difference, if the destination stays below the load that the source has now.
        """
        # Brokers that take no part count for the policies, which choose among all that are registered.
        places = self._policies.places(bundle, sorted(self._reports))
        places = self._policies.preferred(bundle, places)
        usable = [name for name in places if name in self._loads and name not in self._sources]
        if not usable:
            self._skip(
                bundle, "no place", "isolation policies or anti-affinity leave no other broker"
            )
            return None
        destination = min(usable, key=lambda broker_id: (self._loads[broker_id], broker_id))
        if receivers is not None and destination not in receivers:
            self._skip(bundle, "no place", f"the idle {', '.join(receivers[:3])} may not serve it")
            return None
        load = self._loads[destination]
        rest = self._half(source, load)
        if share <= rest + ROUNDING:
            return destination if rest >= GAIN_MIN else None
        if not may_exceed:
            return None
        if load + share > self._loads[source] - GAIN_MIN:
            self._skip(bundle, "too large", self._too_large(source, destination, bundle, share))
            return None
        return destination

    def _receivers(self) -> list[str] | None:
        """Return the brokers that should receive bundles: the idle ones when the loads are even otherwise; None for
        any."""
        spread = spread_of(self._loads.values()) or 0.0
        return None if spread > self._limits.spread_max else self._idle()

    def _too_large(self, source: str, destination: str, bundle: BundleName, share: float) -> str:
        load = self._reports[source].bundles[bundle]
        what = (
            f"its load of {_percent(share)} would only move the problem to {destination} "
            f"({_percent(self._loads[destination])})"
        )
        if load.topics == 1 or load.hot_topic:
            topic = load.hot_topic or "its only topic"
            return (
                f"{what}; no split of the bundle helps against {topic}: give the topic partitions"
            )
        return f"{what}; a split of the bundle would help"


def targets(
    bundles: Iterable[BundleName],
    leaving: str,
    reports: Mapping[str, LoadReport],
    policies: PlacementPolicies,
) -> dict[BundleName, str]:
    """Return where each bundle of a broker that leaves should go; a bundle without an allowed broker is left out.

    It is the broker that placement chooses (``engine.ownership.placer``), after the bundles before it have added their
    load to the loads, the largest first. A broker with unknown load counts as neither busy nor idle.
    """
    own = reports.get(leaving, LoadReport(leaving))
    shares = {bundle: own.share_of(bundle) for bundle in bundles}
    known = [share for share in shares.values() if share is not None]
    unknown = len(shares) - len(known)
    rest = max(0.0, (own.usage or 0.0) - sum(known)) / unknown if unknown else 0.0
    loads = {broker_id: report.usage for broker_id, report in reports.items()}
    others = [broker for broker in sorted(reports) if broker not in {leaving, *policies.excluded}]
    placer, chosen = HashPlacer(), dict[BundleName, str]()
    costs = {bundle: rest if share is None else share for bundle, share in shares.items()}
    for bundle, share in sorted(costs.items(), key=lambda item: (-item[1], str(item[0]))):
        places = policies.places(bundle, others)
        order = placer.order(bundle, places, Situation(loads, policies))
        if order:
            chosen[bundle] = order[0]
            load = loads[order[0]]
            loads[order[0]] = None if load is None else load + share
    return chosen


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
