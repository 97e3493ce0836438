"""Which broker should own a bundle that has no owner. Pure.

Highest random weight: every broker ranks the registered ones for a bundle by the same hash and picks the first, so
all agree without a leader, bundles spread evenly, and a broker that comes or goes moves only what it takes or leaves.
"""

import hashlib
from collections.abc import Iterable

from engine.base.names import BundleName


def choose(bundle: BundleName, broker_ids: Iterable[str]) -> str | None:
    """Id of the broker that should own ``bundle``; None when there is none."""
    return max(broker_ids, key=lambda broker_id: _weight(bundle, broker_id), default=None)


def _weight(bundle: BundleName, broker_id: str) -> tuple[bytes, str]:
    text = f"{bundle}\n{broker_id}".encode()
    return hashlib.blake2b(text, digest_size=8).digest(), broker_id
