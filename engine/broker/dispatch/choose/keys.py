"""Whose a key is on a Key_Shared subscription: the hash range 0..65535 divided among consumers. Pure.

As in Apache Pulsar: a key's slot is its Murmur3 modulo 65536, where 0 counts as 1, because 0 stands for a key that is
not known. Which consumer gets which slots is a broker's own affair; that a change moves few of them is what counts.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import mmh3

SLOTS = 1 << 16
NO_SLOT = 0
"""Of an entry whose key is not known."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """What a consumer asks of a Key_Shared subscription; ``sticky``: it names its ``ranges`` (both ends included)."""

    sticky: bool = False
    out_of_order: bool = False
    ranges: tuple[tuple[int, int], ...] = ()

    def agrees(self, other: "KeyPolicy") -> bool:
        """Whether both can share one subscription."""
        return (self.sticky, self.out_of_order) == (other.sticky, other.out_of_order)


def murmur3_32(data: bytes) -> int:
    """The hash that clients and brokers of Pulsar agree on: seed 0, without the sign bit."""
    return mmh3.hash(data) & 0x7FFFFFFF


def slot_of(key: bytes) -> int:
    """1..65535."""
    return murmur3_32(key) % SLOTS or 1


class KeyMap(Protocol[T]):
    """Who has which slots."""

    def add(self, member: T, name: str, policy: KeyPolicy) -> None: ...

    def remove(self, member: T) -> None: ...

    def owner(self, slot: int) -> T | None:
        """None when nobody has it."""
        ...

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        """Members and their ranges, both ends included, in order."""
        ...

    def conflict(self, policy: KeyPolicy) -> T | None:
        """A member that keeps another with ``policy`` from being added."""
        ...


class KeyRing(Generic[T]):
    """Consistent hashing: a member has ``points`` points on the ring, and the slots before each of them.

    Members of one name have points of their own, or they would get nothing.
    """

    def __init__(self, points: int) -> None:
        self._points = points
        self._members: list[tuple[str, int, T]] = []
        self._places: list[int] = []
        self._owners: list[T] = []

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        taken = {nth for other, nth, _ in self._members if other == name}
        nth = next(n for n in range(len(taken) + 1) if n not in taken)
        self._members.append((name, nth, member))
        self._draw()

    def remove(self, member: T) -> None:
        self._members = [one for one in self._members if one[2] is not member]
        self._draw()

    def _draw(self) -> None:
        ring: dict[int, T] = {}
        for name, nth, member in sorted(self._members, key=lambda one: one[:2]):
            for place in _places(name, nth, self._points):
                ring.setdefault(place, member)
        self._places = sorted(ring)
        self._owners = [ring[place] for place in self._places]

    def owner(self, slot: int) -> T | None:
        at = bisect_left(self._places, slot)
        owners = self._owners
        return owners[at] if at < len(owners) else next(iter(owners), None)

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        start = 1
        for place, owner in zip(self._places, self._owners, strict=True):
            yield owner, start, place
            start = place + 1
        if self._owners and start < SLOTS:
            yield self._owners[0], start, SLOTS - 1

    def conflict(self, policy: KeyPolicy) -> T | None:
        return None


@lru_cache(1024)
def _places(name: str, nth: int, points: int) -> tuple[int, ...]:
    head = f"{name}\0{nth}\0" if nth else f"{name}\0"
    return tuple(slot_of(f"{head}{i}".encode()) for i in range(points))


class KeyRanges(Generic[T]):
    """Members name the ranges they want; what nobody wants waits."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: dict[int, tuple[int, T]] = {}

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        for start, end in policy.ranges:
            insort(self._starts, start)
            self._ranges[start] = (end, member)

    def remove(self, member: T) -> None:
        self._ranges = {s: one for s, one in self._ranges.items() if one[1] is not member}
        self._starts = sorted(self._ranges)

    def owner(self, slot: int) -> T | None:
        at = bisect_right(self._starts, slot)
        if not at:
            return None
        end, member = self._ranges[self._starts[at - 1]]
        return member if slot <= end else None

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        for start in self._starts:
            end, member = self._ranges[start]
            yield member, start, end

    def conflict(self, policy: KeyPolicy) -> T | None:
        wanted = policy.ranges
        return next(
            (m for m, a, b in self.ranges() if any(s <= b and a <= e for s, e in wanted)), None
        )
