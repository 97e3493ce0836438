"""Operations on the bundles of a broker. Pure."""

from dataclasses import dataclass, field
from types import NoneType
from typing import TypedDict

from engine.admin.api.arguments import NoArguments, OnBundle
from engine.auth.rights import SUPERUSER
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class SplitBundle(OnBundle):
    """Split of a ``bundle``, which is required.

    ``algorithm`` has Pulsar's name, empty for the default. ``positions`` are the hashes at which the bundle is split,
    for the algorithm that needs them. ``unload`` releases the parts afterwards. ``reason``: see TransferBundle.
    """

    algorithm: str = ""
    positions: list[int] = field(default_factory=list)
    unload: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.bundle:
            raise ValueError("bundle: missing")


@dataclass(frozen=True, slots=True)
class TransferBundle(OnBundle):
    """Move of a ``bundle``, which is required, to the broker with the id ``destination``.

    With a ``reason`` the owner records the move for people; a leader of load balance has its own record.
    """

    destination: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.bundle or not self.destination:
            raise ValueError("bundle and destination: both are required")


class Transferred(TypedDict):
    """Result of a transfer. ``moved``: the destination owns the bundle; else it was unloaded only, for the reason."""

    moved: bool
    reason: str


INACTIVE = "Not allowed unload namespace bundle to inactive destination broker"
"""Apache Pulsar's text for a destination that is not registered."""
OWNED_BUNDLES = Operation("owned_bundles", NoArguments, list[str], SUPERUSER, reads=True)
"""Names ``tenant/namespace/0x…_0x…`` of the owned bundles, sorted."""
SPLIT_BUNDLE = Operation("split_bundle", SplitBundle, list[str], SUPERUSER)
"""Ranges of the parts, or the bundle's own when the algorithm does not split it. Topics are served throughout. Raises
Conflict when the namespace no longer has the bundle."""
BUNDLE_CUTS = Operation("bundle_cuts", SplitBundle, list[int], SUPERUSER, reads=True)
"""Hashes at which SPLIT_BUNDLE would split the bundle now, ascending; a bundle without an owner remains without."""
UNLOAD_BUNDLE = Operation("unload_bundle", OnBundle, NoneType, SUPERUSER)
"""Release of a bundle after its topics were closed."""
TRANSFER_BUNDLE = Operation("transfer_bundle", TransferBundle, Transferred, SUPERUSER)
"""Move of a bundle to another broker, which serves its topics at once; clients are sent there. Safe to repeat.

Raises Conflict, and changes nothing, when the destination is not registered or isolation policies forbid it. Any later
failure leaves the bundle unloaded, for any broker to acquire.
"""
PREPARE_BUNDLE = Operation("prepare_bundle", OnBundle, NoneType, SUPERUSER, reads=True)
"""Preparation of the next owner of a bundle: it reads policies and opens nothing. Raises NotReady, Conflict."""
TAKE_BUNDLE = Operation("take_bundle", OnBundle, NoneType, SUPERUSER)
"""Acquisition of a bundle whose previous owner has released it for this broker. Raises NotReady when it cannot be."""
