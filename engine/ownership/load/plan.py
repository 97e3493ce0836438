"""Plan of load balance: which bundles should move, from which broker to which, and why others should not. Pure.

The rule is that of Pulsar's TransferShedder. Bundles move when the standard deviation of the brokers' loads is above a
limit, or a broker is idle, several checks in a row; a broker without a bundle is filled a check earlier. The busiest
broker is paired with the idlest, and half of their difference is moved. Everything that prevents a move is a
``MoveSkip`` with its reason (L4, L6). A bundle that moved lately stays, unless the broker that it was moved to has lost
it since (L2), and so does a broker whose load is not known (L3).

Isolation policies divide the brokers into pools, between which no bundle may move; each is balanced by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from engine.base.names import BundleName
from engine.ownership.load.planned import (
    CLUSTER,
    DEFAULT_LIMITS,
    MoveSkip,
    Plan,
    PlanLimits,
    Recent,
    Transfer,
)
from engine.ownership.load.policies import PlacementPolicies
from engine.ownership.load.pool import Places, Pool, spread_of
from engine.ownership.load.report import LoadReport
from engine.ownership.placer import HashPlacer, Situation

CLOCK_AHEAD_MAX_MS = 60_000
"""Milliseconds by which a report may be newer than the leader's clock."""


def plan(
    reports: Mapping[str, LoadReport],
    bundles: Mapping[BundleName, str],
    policies: PlacementPolicies,
    recent: Recent,
    now_ms: int,
    limits: PlanLimits = DEFAULT_LIMITS,
) -> Plan:
    """Return what should move now.

    ``reports`` has one entry for each registered broker. ``bundles``: owner by bundle, as known; a bundle that is not
    owned by the broker that reports it is not moved. Nothing moves while fewer than half of the brokers that are not
    drained have a report that can be used.
    """
    return _Planner(reports, bundles, policies, recent, now_ms, limits).plan()


def owners_of(reports: Mapping[str, LoadReport]) -> dict[BundleName, str]:
    """Return the owner of each bundle; of two reports that name the same bundle, the newer one decides."""
    owners: dict[BundleName, str] = {}
    for broker_id, report in sorted(reports.items(), key=lambda item: item[1].updated_ms or 0):
        owners.update(dict.fromkeys((*report.owned, *report.bundles), broker_id))
    return owners


def unusable(report: LoadReport, now_ms: int, limits: PlanLimits = DEFAULT_LIMITS) -> str:
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


class _Planner:
    """One computation of a plan."""

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
        # Brokers that take no part count for the policies, which choose among all that are registered.
        self._places = Places(policies, sorted(reports))
        self._now_ms = now_ms
        self._limits = limits
        self._recent = recent
        self._skips: list[MoveSkip] = []
        self._transfers: list[Transfer] = []
        # A time ahead of this clock counts as now, so that no bundle is held longer than the rule says.
        self._moved = {
            bundle: moved
            for bundle, at_ms in recent.moved.items()
            if now_ms - (moved := min(at_ms, now_ms)) < limits.bundle_quiet_ms
        }

    def plan(self) -> Plan:
        shown, loads = self._read_loads()
        recent = self._recent
        imbalances: dict[str, int] = {}
        if self._may_decide(len(loads)):
            sources_left = self._limits.sources_max
            for broker_ids in self._pools(loads):
                subject = CLUSTER if len(broker_ids) == len(loads) else ", ".join(broker_ids[:3])
                if len(broker_ids) == 1:
                    self._skip(
                        subject, "alone", "isolation policies let no other broker relieve it"
                    )
                    continue
                pool = Pool(
                    *(broker_ids, self._reports, self._owners, self._places, self._moved),
                    *(recent.homes, self._now_ms, self._limits),
                )
                sources_left -= self._balance(
                    subject, broker_ids[0], pool, imbalances, sources_left
                )
        if self._transfers:
            recent = Recent(self._moved, cycle_ms=self._now_ms)
        else:
            recent = replace(recent, moved=self._moved, imbalances=imbalances)
        spread = spread_of(loads.values())
        return Plan(tuple(self._transfers), tuple(self._skips), recent, shown, spread)

    def _skip(self, subject: object, kind: str, reason: str) -> None:
        self._skips.append(MoveSkip(str(subject), reason, kind))

    def _read_loads(self) -> tuple[dict[str, float | None], dict[str, float]]:
        """Return the loads of all brokers, and of those that take part."""
        shown: dict[str, float | None] = {}
        loads: dict[str, float] = {}
        for broker_id in sorted(self._reports):
            report = self._reports[broker_id]
            reason = unusable(report, self._now_ms, self._limits)
            shown[broker_id] = None if reason else report.usage
            reason = reason or self._policies.excluded.get(broker_id, "")
            if reason:
                self._skip(broker_id, "no part", f"takes no part: {reason}")
            elif report.usage is not None:
                loads[broker_id] = report.usage
        return shown, loads

    def _may_decide(self, usable: int) -> bool:
        # Drained brokers are left out by intention, unlike those with a fault.
        brokers = len(self._reports.keys() - {*self._policies.draining})
        if brokers < 2:
            drained = len(self._reports) - brokers
            others = f", {drained} more are drained" if drained else ""
            self._skip(CLUSTER, "alone", f"there is one broker only{others}")
        elif usable < 2 or usable * 2 < brokers:
            reason = f"no decision: {usable} of {brokers} brokers can take part"
            self._skip(CLUSTER, "no decision", reason)
        else:
            return True
        return False

    def _pools(self, loads: Mapping[str, float]) -> list[list[str]]:
        """Return the brokers that take part, in pools of those that may serve the same namespaces."""
        if not self._policies.isolation:
            return [sorted(loads)]
        pool_of = {broker_id: [broker_id] for broker_id in sorted(loads)}
        namespaces = {
            bundle.namespace: bundle
            for report in self._reports.values()
            for bundle in report.bundles
        }
        for bundle in namespaces.values():
            places = [name for name in self._places.of(bundle, preferred=False) if name in pool_of]
            for other in places[1:]:
                first, second = pool_of[places[0]], pool_of[other]
                if first is not second:
                    first += second
                    pool_of.update(dict.fromkeys(second, first))
        return sorted({id(pool): sorted(pool) for pool in pool_of.values()}.values())

    def _balance(
        self, subject: str, key: str, pool: Pool, imbalances: dict[str, int], sources_max: int
    ) -> int:
        """Plan the moves of one pool; return the number of brokers that give bundles."""
        imbalance = pool.imbalance()
        if not imbalance:
            self._skip(subject, "balanced", f"balanced: {pool.balance()}")
            return 0
        imbalances[key] = self._recent.imbalances.get(key, 0) + 1
        limits = self._limits
        lasts = imbalances[key] >= limits.checks
        empty: list[str] = []
        if imbalances[key] >= min(limits.fill_checks, limits.checks):
            # A broker without a bundle is no matter of a moment: it was started, or its drain has ended.
            empty = [name for name in pool.empty() if self._fills_of(name) < limits.fills_max]
        if not self._is_due(subject, imbalances[key], imbalance, lasts=lasts or bool(empty)):
            return 0
        givers = pool.move(sources_max, None if lasts else empty)
        self._transfers += pool.transfers
        self._skips += pool.skips
        if not pool.transfers:
            self._skip(subject, "stuck", f"no bundle can move: {imbalance}")
        return givers

    def _fills_of(self, broker_id: str) -> int:
        """Return the number of cycles in which the broker received bundles lately."""
        times = self._recent.fills.get(broker_id, ())
        return sum(self._now_ms - at_ms < self._limits.bundle_quiet_ms for at_ms in times)

    def _is_due(self, subject: str, checks: int, imbalance: str, *, lasts: bool) -> bool:
        """Return whether bundles may move now. The ``imbalance`` is named in the reason of the skip."""
        limits, cycle_ms = self._limits, self._recent.cycle_ms
        if not lasts:
            reason = f"imbalance found {checks} times, acts at {limits.checks}: {imbalance}"
            self._skip(subject, "imbalance", reason)
            return False
        since_ms = limits.quiet_ms if cycle_ms is None else self._now_ms - cycle_ms
        if 0 <= since_ms < limits.quiet_ms:
            left_s = (limits.quiet_ms - since_ms) / 1000
            reason = f"quiet for {left_s:.0f} s more after the last moves: {imbalance}"
            self._skip(subject, "quiet", reason)
            return False
        return True


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
    placer, places, chosen = HashPlacer(), Places(policies, others), dict[BundleName, str]()
    costs = {bundle: rest if share is None else share for bundle, share in shares.items()}
    for bundle, share in sorted(costs.items(), key=lambda item: (-item[1], str(item[0]))):
        allowed = places.of(bundle, preferred=False)
        order = placer.order(bundle, allowed, Situation(loads, policies))
        if order:
            chosen[bundle] = order[0]
            load = loads[order[0]]
            loads[order[0]] = None if load is None else load + share
    return chosen
