"""Operations on the bundles of a broker. Pure."""

from dataclasses import dataclass, field
from types import NoneType

from engine.admin.api.arguments import NoArguments, OnBundle
from engine.auth.rights import SUPERUSER
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class SplitBundle(OnBundle):
    """Split of a ``bundle``, which is required.

    ``algorithm`` has Pulsar's name, empty for the default. ``positions`` are the hashes at which the bundle is split,
    for the algorithm that needs them. ``unload`` releases the parts afterwards.
    """

    algorithm: str = ""
    positions: list[int] = field(default_factory=list)
    unload: bool = False

    def __post_init__(self) -> None:
        if not self.bundle:
            raise ValueError("bundle: missing")


OWNED_BUNDLES = Operation("owned_bundles", NoArguments, list[str], SUPERUSER, reads=True)
"""Names ``tenant/namespace/0x…_0x…`` of the owned bundles, sorted."""
SPLIT_BUNDLE = Operation("split_bundle", SplitBundle, list[str], SUPERUSER)
"""Ranges of the parts, or the bundle's own when the algorithm does not split it. Topics are served throughout. Raises
Conflict when the namespace no longer has the bundle."""
BUNDLE_CUTS = Operation("bundle_cuts", SplitBundle, list[int], SUPERUSER, reads=True)
"""Hashes at which SPLIT_BUNDLE would split the bundle now, ascending; a bundle without an owner remains without."""
UNLOAD_BUNDLE = Operation("unload_bundle", OnBundle, NoneType, SUPERUSER)
"""Release of a bundle after its topics were closed."""
