"""Values of the plan of load balance: its thresholds, its moves, and its reasons. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from engine.base.names import BundleName

CLUSTER = "cluster"
"""Subject of a skip that concerns all brokers."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Thresholds of the plan, with Pulsar's defaults. Loads and shares are 0..1."""

    spread_max: float = 0.25
    """Standard deviation of loads above which bundles move."""
    checks: int = 3
    """Checks in a row that must find an imbalance."""
    sources_max: int = 3
    """Brokers from which bundles move in one cycle."""
    moves_max: int = 20
    """Bundles that leave one broker in one cycle: its clients reconnect in parts, and all can be asked for in time."""
    quiet_ms: int = 180_000
    """Time after a cycle with moves without another one."""
    bundle_quiet_ms: int = 1_800_000
    """Time in which a bundle is not moved again."""
    report_age_max_ms: int = 1_800_000
    bytes_min: float = 10_000_000.0
    """Bytes per second below which a move is not worth it, unless it moves ``share_min``."""
    share_min: float = 0.05
    fill_checks: int = 2
    """Checks in a row that must find a broker without a bundle: the loads have settled by then."""
    fills_max: int = 2
    """Cycles within ``bundle_quiet_ms`` in which a broker may be filled before the imbalance lasts for ``checks``,
    because it has no bundle. One that ends again and again does not draw bundles to itself for ever."""


DEFAULT_LIMITS = PlanLimits()


class Transfer(NamedTuple):
    """A bundle that should move."""

    bundle: BundleName
    source: str
    destination: str
    reason: str


class MoveSkip(NamedTuple):
    """A bundle, some brokers or the cluster (``subject``) that is left as it is.

    ``kind`` of the reason remains the same while only numbers in the ``reason`` change.
    """

    subject: str
    reason: str
    kind: str


_NEVER: Mapping[BundleName, int] = MappingProxyType({})
_NO_BROKERS: Mapping[BundleName, str] = MappingProxyType({})
_NO_FILLS: Mapping[str, tuple[int, ...]] = MappingProxyType({})
_NO_CHECKS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recent:
    """Memory of the previous plans for the next one. Times are epoch milliseconds."""

    moved: Mapping[BundleName, int] = field(default_factory=lambda: _NEVER)
    """Time of the last move of each bundle within ``PlanLimits.bundle_quiet_ms``."""
    homes: Mapping[BundleName, str] = field(default_factory=lambda: _NO_BROKERS)
    """Broker to which the last move of each of these bundles went, of moves that were done."""
    fills: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: _NO_FILLS)
    """Times of the cycles in which each broker received bundles."""
    cycle_ms: int | None = None
    """Time of the last plan with moves."""
    imbalances: Mapping[str, int] = field(default_factory=lambda: _NO_CHECKS)
    """Checks in a row that found an imbalance, up to the present one, by the first broker of each pool."""


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
