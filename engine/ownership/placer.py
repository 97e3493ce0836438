"""Placement of a bundle without an owner: the order in which brokers should acquire it (L7). Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from engine.base.names import BundleName
from engine.ownership.load.policies import PlacementPolicies

CROWDED_RATIO = 1.25
"""Multiple of the mean load above which a broker is asked last."""
CROWDED_SHARE_MIN = 0.05
"""Smallest difference from the mean load that counts: brokers that do little differ by large ratios."""
_UNKNOWN: Mapping[str, float | None] = MappingProxyType({})


class Situation(NamedTuple):
    """Inputs that brokers read alike from the metadata store: loads by broker (0..1, None: unknown), and policies."""

    loads: Mapping[str, float | None] = _UNKNOWN
    policies: PlacementPolicies = PlacementPolicies()


NO_SITUATION = Situation()


class Placer(Protocol):
    """The one decision on who should own a bundle, made by whichever broker is asked for it.

    All brokers must reach the same order without asking each other, so its inputs are what every broker reads alike.
    Brokers that have read different versions disagree for a moment, which costs a redirect: safety does not depend on
    the order.
    """

    def order(
        self, bundle: BundleName, broker_ids: Iterable[str], situation: Situation = NO_SITUATION
    ) -> list[str]:
        """Return the brokers that may own ``bundle``, the one that should acquire it first."""
        ...


class HashPlacer:
    """Placement by highest random weight: each broker ranks all brokers for a bundle by the same hash.

    Bundles are distributed evenly, and a broker that joins or leaves moves only the bundles that it gains or loses.
    Brokers outside the share of an anti-affinity group come last; among the others, brokers with a load above
    CROWDED_RATIO times the mean. A broker with unknown load is neither preferred nor put back.
    """

    def order(
        self, bundle: BundleName, broker_ids: Iterable[str], situation: Situation = NO_SITUATION
    ) -> list[str]:
        ranked = sorted(broker_ids, key=lambda broker_id: _weight(bundle, broker_id), reverse=True)
        preferred = situation.policies.preferred(bundle, ranked)
        limit = crowded_above(situation.loads.get(broker_id) for broker_id in ranked)

        def place(broker_id: str) -> tuple[bool, bool]:
            load = situation.loads.get(broker_id)
            return broker_id not in preferred, load is not None and load > limit

        return sorted(ranked, key=place)


def crowded_above(loads: Iterable[float | None]) -> float:
    """Return the load above which a broker is asked last; infinity when fewer than two loads are known."""
    known = [load for load in loads if load is not None]
    if len(known) < 2:
        return float("inf")
    mean = sum(known) / len(known)
    return max(mean * CROWDED_RATIO, mean + CROWDED_SHARE_MIN)


def _weight(bundle: BundleName, broker_id: str) -> tuple[bytes, str]:
    text = f"{bundle}\n{broker_id}".encode()
    return hashlib.blake2b(text, digest_size=8).digest(), broker_id
