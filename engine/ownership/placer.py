"""Choice of the broker that should own a bundle without an owner. Pure.

The choice is by highest random weight: each broker ranks all registered brokers for a bundle by the same hash. All
brokers agree without a leader, bundles are distributed evenly, and a broker that joins or leaves moves only the bundles
that it gains or loses.
"""

import hashlib
from collections.abc import Iterable

from engine.base.names import BundleName


def choose(bundle: BundleName, broker_ids: Iterable[str]) -> str | None:
    """Return the id of the broker that should own ``bundle``; None without a broker."""
    return max(broker_ids, key=lambda broker_id: _weight(bundle, broker_id), default=None)


def _weight(bundle: BundleName, broker_id: str) -> tuple[bytes, str]:
    text = f"{bundle}\n{broker_id}".encode()
    return hashlib.blake2b(text, digest_size=8).digest(), broker_id
