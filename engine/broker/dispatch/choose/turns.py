"""Whose turn it is on a Shared subscription. Pure."""

from typing import Generic, Protocol, TypeVar


class Member(Protocol):
    """What the choice depends on."""

    @property
    def priority(self) -> int:
        """Lower numbers go first."""
        ...

    @property
    def can_receive(self) -> bool: ...


T = TypeVar("T", bound=Member)


class Turns(Generic[T]):
    """Members of the best priority that can receive, one after the other; whoever comes or goes begins a new round."""

    __slots__ = ("_equal", "_last", "_members")

    def __init__(self) -> None:
        self._members: list[T] = []
        self._last = -1
        self._equal = True

    def add(self, member: T) -> None:
        self._changed([*self._members, member])

    def remove(self, member: T) -> None:
        self._changed([one for one in self._members if one is not member])

    def _changed(self, members: list[T]) -> None:
        self._members = members
        self._last = -1
        self._equal = len({member.priority for member in members}) < 2

    def next(self) -> T | None:
        """Whose turn it is now; None when nobody can receive."""
        members, best = self._members, -1
        count = len(members)
        for i in (*range(self._last + 1, count), *range(self._last + 1)):
            member = members[i]
            if member.can_receive and (best < 0 or member.priority < members[best].priority):
                best = i
                if self._equal:
                    break
        if best < 0:
            return None
        self._last = best
        return members[best]
