"""Moves between the brokers of one pool: brokers between which bundles may move (L5). Pure.

A plan moves half of the difference of two brokers (L6, L8) and states what it leaves (L4).
"""

import math
from collections.abc import Iterable, Mapping

from engine.base.names import BundleName, NamespaceName, split_partition
from engine.ownership.load.planned import MoveSkip, PlanLimits, Transfer
from engine.ownership.load.policies import PlacementPolicies, is_movable
from engine.ownership.load.report import LoadReport

IDLE_RATIO = 0.5
"""Part of the mean load below which a broker is idle."""
ROUNDING = 1e-9
GAIN_MIN = 0.01
"""Difference of loads of which no half is moved any more."""
GAIN_RATIO = 0.25
"""Part of a large bundle's load by which its move must at least lower the larger load of the two brokers."""


def spread_of(loads: Iterable[float]) -> float | None:
    """Return the standard deviation of loads; None for fewer than two."""
    known = list(loads)
    if len(known) < 2:
        return None
    mean = sum(known) / len(known)
    return math.sqrt(sum((load - mean) ** 2 for load in known) / len(known))


class Places:
    """Brokers that may serve bundles, computed once for each namespace."""

    def __init__(self, policies: PlacementPolicies, broker_ids: list[str]) -> None:
        self._policies = policies
        self._broker_ids = broker_ids
        self._by_namespace: dict[NamespaceName, list[str]] = {}

    def of(self, bundle: BundleName, *, preferred: bool = True) -> list[str]:
        """Return the brokers that isolation lets serve the bundle; with ``preferred`` those that anti-affinity gives
        it."""
        places = self._by_namespace.get(bundle.namespace)
        if places is None:
            places = self._policies.places(bundle, self._broker_ids)
            self._by_namespace[bundle.namespace] = places
        return self._policies.preferred(bundle, places) if preferred else places


class Pool:
    """The brokers of one pool, and moves between them. Loads and counts are those after the moves planned so far."""

    def __init__(
        self,
        broker_ids: Iterable[str],
        reports: Mapping[str, LoadReport],
        owners: Mapping[BundleName, str],
        places: Places,
        moved: dict[BundleName, int],
        homes: Mapping[BundleName, str],
        now_ms: int,
        limits: PlanLimits,
    ) -> None:
        """``reports`` of the pool's brokers have a known load. ``moved``: times of recent moves, to which the planned
        ones are added. ``homes``: brokers to which they went."""
        self._homes = homes
        self._reports = reports
        self._owners = owners
        self._places = places
        self._moved = moved
        self._now_ms = now_ms
        self._limits = limits
        self.skips: list[MoveSkip] = []
        self.transfers: list[Transfer] = []
        self._loads: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        for broker_id in broker_ids:
            report = reports[broker_id]
            self._loads[broker_id] = report.usage or 0.0
            # A broker's own bundles and those of the system do not make it a used one.
            kept = sum(not is_movable(bundle) for bundle in report.owned)
            count = report.owned_count
            self._counts[broker_id] = (len(report.owned) if count is None else count) - kept
        self._sources: list[str] = []
        """Brokers whose bundles were considered, which receive none."""
        self._only: list[str] | None = None

    def _skip(self, subject: object, kind: str, reason: str) -> None:
        self.skips.append(MoveSkip(str(subject), reason, kind))

    def _mean(self) -> float:
        return sum(self._loads.values()) / len(self._loads)

    def _idle(self) -> list[str]:
        """Return the idle brokers, those with the least load first."""
        mean, in_use = self._mean(), any(self._counts.values())
        # Loads near zero differ by large ratios, of which nothing is worth a move.
        limit = min(mean * IDLE_RATIO, mean - self._limits.share_min / 2)
        brokers = [
            broker_id
            for broker_id, load in self._loads.items()
            if load < limit or (in_use and not self._counts[broker_id])
        ]
        return sorted(brokers, key=lambda broker_id: (self._loads[broker_id], broker_id))

    def balance(self) -> str:
        """Return the standard deviation of loads and its limit in words."""
        spread = spread_of(self._loads.values()) or 0.0
        return f"standard deviation of loads {spread:.2f}, limit {self._limits.spread_max:g}"

    def imbalance(self) -> str:
        """Return why bundles should move; empty when the loads are balanced."""
        if (spread_of(self._loads.values()) or 0.0) > self._limits.spread_max:
            return self.balance()
        idle = self._idle()
        return f"{', '.join(idle[:3])} idle (mean load {percent(self._mean())})" if idle else ""

    def empty(self) -> list[str]:
        """Return the brokers without a bundle, while others have some."""
        return [name for name in self._idle() if not self._counts[name]]

    def move(self, sources_max: int, receivers: list[str] | None = None) -> int:
        """Plan moves from at most ``sources_max`` brokers, the busiest first; return the number of brokers.

        ``receivers``: the only brokers that receive bundles, as long as they are idle; None for any.
        """
        givers: dict[str, None] = {}
        self._only = receivers
        while len(givers) < sources_max and self._goes_on():
            # A broker that receives bundles gives none in the same cycle.
            taken = {*self._sources, *(move.destination for move in self.transfers)}
            waiting = [broker_id for broker_id in self._loads if broker_id not in taken]
            source = max(
                waiting, key=lambda broker_id: (self._loads[broker_id], broker_id), default=None
            )
            if source is None or self._loads[source] <= self._mean():
                break
            self._sources.append(source)
            if self._move_from(source):
                givers[source] = None
        return len(givers)

    def _goes_on(self) -> bool:
        if self._only is None:
            return bool(self.imbalance())
        return not {*self._only}.isdisjoint(self._idle())

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
            if len(planned) >= limits.moves_max:
                break
            # One that is only too large for its own destination would make that busier than the source is then.
            may_exceed = share > half and moved < limits.share_min
            destination = self._destination(bundle, source, share, receivers, may_exceed)
            if destination is None:
                continue
            reason = (
                f"load {percent(loads[source])} of {source}, {percent(loads[destination])} of "
                f"{destination}; the bundle causes {percent(share)}"
            )
            planned.append(Transfer(bundle, source, destination, reason))
            loads[source] -= share
            loads[destination] += share
            self._counts[source] -= 1
            self._counts[destination] += 1
            moved += share
            moved_bytes += self._reports[source].bundles[bundle].bytes
        # A broker without a bundle receives also a little: it would stay empty for as long as the load is low.
        fills = moved >= GAIN_MIN and any(not before[1][move.destination] for move in planned)
        if moved < limits.share_min and moved_bytes < limits.bytes_min and not fills:
            self._loads, self._counts = before
            self._skip(source, "not worth it", self._not_worth_it(len(planned), moved, moved_bytes))
            return False
        self.transfers += planned
        self._moved.update(dict.fromkeys((move.bundle for move in planned), self._now_ms))
        return True

    def _half(self, source: str, load: float) -> float:
        return (self._loads[source] - load) / 2

    def _receivers(self) -> list[str] | None:
        """Return the brokers that should receive bundles: the idle ones when the loads are even otherwise; None for
        any."""
        if self._only is not None:
            return self._only
        spread = spread_of(self._loads.values()) or 0.0
        return None if spread > self._limits.spread_max else self._idle()

    def _not_worth_it(self, count: int, moved: float, moved_bytes: float) -> str:
        limits = self._limits
        return (
            f"not worth it: {count} bundles with {percent(moved)} of load and "
            f"{moved_bytes / 1e6:.1f} MB/s could move; at least {percent(limits.share_min)} or "
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
            if bundle in self._moved and self._home_of(bundle) in (None, source):
                ago_s = (self._now_ms - self._moved[bundle]) / 1000
                wait_s = self._limits.bundle_quiet_ms / 1000
                self._skip(
                    bundle, "moved", f"moved {ago_s:.0f} s ago, not again for {wait_s:.0f} s"
                )
            elif share > 0:
                bundles.append((bundle, share))
        return bundles

    def _home_of(self, bundle: BundleName) -> str | None:
        """Return the only broker to which a bundle that has moved lately may move: the one that it was moved to, if it
        is here and has lost the bundle since, by its end. None without one."""
        home = self._homes.get(bundle)
        return home if home in self._loads else None

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
        places = self._places.of(bundle)
        if bundle in self._moved:
            places = [name for name in places if name == self._home_of(bundle)]
        usable = [name for name in places if name in self._loads and name not in self._sources]
        if not usable:
            self._skip(
                bundle, "no place", "isolation policies or anti-affinity leave no other broker"
            )
            return None
        fitting = usable if receivers is None else [name for name in usable if name in receivers]
        if receivers is not None and not fitting:
            self._skip(bundle, "no place", f"the idle {', '.join(receivers[:3])} may not serve it")
            return None
        destination = min(fitting, key=lambda broker_id: (self._loads[broker_id], broker_id))
        load = self._loads[destination]
        rest = self._half(source, load)
        if share <= rest + ROUNDING:
            return destination if rest >= GAIN_MIN else None
        if not may_exceed:
            return None
        if load + share > self._loads[source] - GAIN_RATIO * share:
            self._skip(bundle, "too large", self._too_large(source, destination, bundle, share))
            return None
        return destination

    def _too_large(self, source: str, destination: str, bundle: BundleName, share: float) -> str:
        load = self._reports[source].bundles[bundle]
        what = (
            f"its load of {percent(share)} would only move the problem to {destination} "
            f"({percent(self._loads[destination])})"
        )
        if load.topics == 1 or load.hot_topic:
            topic = load.hot_topic or "its only topic"
            help_ = "more partitions" if split_partition(topic)[1] >= 0 else "partitions"
            return f"{what}; no split of the bundle helps against {topic}: give the topic {help_}"
        return f"{what}; a split of the bundle would help"


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{share * 100:.1f} %"
