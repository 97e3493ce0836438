"""Viewer: what of a cluster's tenants a caller may see in what it is shown. Pure.

Lists, sums and feeds are made for one viewer. Equal viewers share them, since a viewer is a value.
"""

from dataclasses import dataclass, field

from engine.base.errors import Forbidden
from engine.base.names import NamespaceName, split_topic


@dataclass(frozen=True, slots=True)
class Viewer:
    """The namespaces that a caller may see, by full name, and the tenants that it administers, with everything in them.

    ``everything``: a superuser, or everybody where authentication is off. Immutable and hashable: when the rights of a
    caller change, it is another viewer.
    """

    namespaces: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    everything: bool = False
    _parents: frozenset[str] = field(init=False, compare=False, repr=False)
    """The tenants of ``namespaces``, and ``tenants``."""

    def __post_init__(self) -> None:
        """Find the tenants of the namespaces. Raises InvalidNameError."""
        parents = {NamespaceName.parse(name).tenant for name in self.namespaces}
        object.__setattr__(self, "_parents", self.tenants | parents)

    def sees(self, namespace: str) -> bool:
        """Return whether a namespace is seen, by its full name."""
        return (
            self.everything
            or namespace in self.namespaces
            or namespace.partition("/")[0] in self.tenants
        )

    def sees_topic(self, full: str) -> bool:
        """Return whether a topic is seen, by its full name: whether its namespace is."""
        return self.everything or self.sees(split_topic(full).scope)

    def sees_tenant(self, tenant: str) -> bool:
        """Return whether a tenant is seen: it is administered, or one of its namespaces is seen."""
        return self.everything or tenant in self._parents

    def require_everything(self, subject: str) -> None:
        """Raise Forbidden unless everything is seen. ``subject``: what is of all tenants together, in the plural."""
        if not self.everything:
            raise Forbidden(f"{subject} are of all tenants together; only a superuser sees them")


ALL = Viewer(everything=True)
"""The viewer that sees everything."""
