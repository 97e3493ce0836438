"""Rights that a call declares, one vocabulary for all doors: commands, operations, paths, pages, sockets. Pure.

A declaration is made where the call is declared. It names the action, the kind of resource, and the function that
returns the resource of one call; a declaration without one of them raises when the module is imported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engine.auth.actions import KINDS, UNJUDGED, WITHOUT_RESOURCE, Action
from engine.auth.resource_names import CLUSTER, Kind, Resource

C = TypeVar("C", contravariant=True)


@dataclass(frozen=True, slots=True)
class Right(Generic[C]):
    """Right that a call needs.

    ``resources(call)`` returns what the call is about: one resource, or several, which are judged one by one. An empty
    tuple means that this call does not need the right. It raises what the handler raises for an invalid name.
    """

    action: Action
    kind: Kind | None = None
    resources: Callable[[C], Resource | tuple[Resource, ...]] | None = None

    def __post_init__(self) -> None:
        """Raise TypeError unless the resource is stated where the action concerns one, and is of a kind that it has."""
        if self.kind is None and self.resources is None and self.action in WITHOUT_RESOURCE:
            return
        if self.kind is None or self.resources is None:
            raise TypeError(
                f"{self.action.name} needs a kind of resource and the function that returns it"
            )
        if self.kind not in KINDS[self.action]:
            raise TypeError(f"{self.action.name} does not concern a {self.kind.__name__}")

    @property
    def judged(self) -> bool:
        """False for what every caller may do."""
        return self.action not in UNJUDGED

    def of(self, call: C) -> tuple[Resource, ...]:
        """Return the resources of a call."""
        if self.resources is None:
            return (CLUSTER,)
        resources = self.resources(call)
        return resources if isinstance(resources, tuple) else (resources,)


Rights = Right[Any] | tuple[Right[Any], ...]
"""The rights that a call needs, all of them; more than one where a call does more than one thing."""
PUBLIC: Right[Any] = Right(Action.PUBLIC)
OPENED: Right[Any] = Right(Action.OPENED)
AUTHENTICATED: Right[Any] = Right(Action.AUTHENTICATED)
SUPERUSER: Right[Any] = Right(Action.SUPERUSER)


def all_of(rights: Rights) -> tuple[Right[Any], ...]:
    """Return the rights as a tuple. Raises TypeError when there is none."""
    listed = rights if isinstance(rights, tuple) else (rights,)
    if not listed or not all(isinstance(right, Right) for right in listed):
        raise TypeError(f"a call states the rights that it needs, not {rights!r}")
    return listed
