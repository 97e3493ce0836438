"""Placement of a bundle without an owner: the order in which brokers should acquire it. Pure."""

import hashlib
from collections.abc import Iterable
from typing import Protocol

from engine.base.names import BundleName


class Placer(Protocol):
    """The one decision on who should own a bundle, made by whichever broker is asked for it.

    All brokers must reach the same order without asking each other. Inputs beyond bundle and brokers are therefore what
    every broker reads alike, and are added with the feature that writes them: a stored wish per bundle with the
    destination of an unload, and the brokers' published loads with load balancing.
    """

    def order(self, bundle: BundleName, broker_ids: Iterable[str]) -> list[str]:
        """Return the brokers that may own ``bundle``, the one that should acquire it first."""
        ...


class HashPlacer:
    """Placement by highest random weight: each broker ranks all brokers for a bundle by the same hash.

    Bundles are distributed evenly, and a broker that joins or leaves moves only the bundles that it gains or loses.
    """

    def order(self, bundle: BundleName, broker_ids: Iterable[str]) -> list[str]:
        return sorted(broker_ids, key=lambda broker_id: _weight(bundle, broker_id), reverse=True)


def _weight(bundle: BundleName, broker_id: str) -> tuple[bytes, str]:
    text = f"{bundle}\n{broker_id}".encode()
    return hashlib.blake2b(text, digest_size=8).digest(), broker_id
