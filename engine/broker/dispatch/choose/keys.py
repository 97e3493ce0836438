"""Owners of keys on a Key_Shared subscription: the hash range 0..65535 is divided among its consumers. Pure.

Every slot has the owner that Apache Pulsar gives it, so that consumers that move between brokers of both kinds keep
their keys. Slot 0 stands for an unknown key.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import mmh3

SLOTS = 1 << 16
NO_SLOT = 0
"""Slot of an entry whose key is unknown."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """Options of a Key_Shared consumer. ``sticky``: it names its ``ranges``, both ends included."""

    sticky: bool = False
    out_of_order: bool = False
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def mode(self) -> str:
        """Name as Pulsar prints it."""
        return "STICKY" if self.sticky else "AUTO_SPLIT"

    def disagreement(self, present: "KeyPolicy") -> str:
        """Return Pulsar's text why a consumer cannot share a subscription with policy ``present``; empty if it can."""
        if self.sticky != present.sticky:
            return (
                f"Active subscription key_shared mode of '{present.mode}' is different than the connecting "
                f"consumer's key_shared mode '{self.mode}'."
            )
        if self.out_of_order == present.out_of_order:
            return ""
        has, wants = ("allows", "does not allow it")
        if self.out_of_order:
            has, wants = ("does not allow", "allows it")
        return f"Active subscription {has} out of order delivery while the connecting consumer {wants}."


def murmur3_32(data: bytes) -> int:
    """Return the hash that Pulsar's clients and brokers use: Murmur3 with seed 0, without the sign bit."""
    return mmh3.hash(data) & 0x7FFFFFFF


def slot_of(key: bytes) -> int:
    """Return the slot of a key for maps of ranges, 1..65535."""
    return murmur3_32(key) % SLOTS or 1


def ring_slot_of(key: bytes) -> int:
    """Return the slot of a key for the ring, 1..65535."""
    return 1 + murmur3_32(key) % (SLOTS - 1)


SlotOf = Callable[[bytes], int]
"""``slot_of`` or ``ring_slot_of``."""


class KeyMap(Protocol[T]):
    """Division of the slots among members."""

    @property
    def slot_of(self) -> SlotOf: ...

    def add(self, member: T, name: str, policy: KeyPolicy) -> None: ...

    def remove(self, member: T) -> None: ...

    def owner(self, slot: int) -> T | None:
        """Return the member that owns a slot; None when none does."""
        ...

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        """Yield members and their ranges, both ends included, in order of the slots."""
        ...

    def conflict(self, policy: KeyPolicy) -> T | None:
        """Return a member that prevents one with ``policy`` from being added; None without one."""
        ...


class KeyRing(Generic[T]):
    """Consistent hashing: a member has ``points`` points on the ring and owns the slots up to each of them.

    Members of one name have different points, or all but one would own nothing. A point that several members have
    belongs to the first of them.
    """

    slot_of = staticmethod(ring_slot_of)

    def __init__(self, points: int) -> None:
        self._points = points
        self._members: dict[T, tuple[str, int]] = {}
        self._taken: dict[str, set[int]] = {}
        self._places: list[int] = []
        """Points in order. Empty after a change until the next question, as ``_owners`` is."""
        self._claims: dict[int, list[T]] = {}
        """Members by point, in order of joining; the first one owns it."""
        self._owners: list[T] = []
        """Owner of each of ``_places``."""

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        taken = self._taken.setdefault(name, set())
        nth = next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(nth)
        self._members[member] = name, nth
        self._places, self._owners = [], []
        for place in _places(name, nth, self._points):
            self._claims.setdefault(place, []).append(member)

    def remove(self, member: T) -> None:
        name, nth = self._members.pop(member)
        self._taken[name].discard(nth)
        if not self._taken[name]:
            del self._taken[name]
        self._places, self._owners = [], []
        for place in _places(name, nth, self._points):
            claims = self._claims[place]
            claims.remove(member)
            if not claims:
                del self._claims[place]

    def _sort(self) -> None:
        if not self._places:
            self._places = sorted(self._claims)
            self._owners = [self._claims[place][0] for place in self._places]

    def owner(self, slot: int) -> T | None:
        self._sort()
        at, owners = bisect_left(self._places, slot), self._owners
        return owners[at] if at < len(owners) else next(iter(owners), None)

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        self._sort()
        start = 1
        for place in self._places:
            yield self._claims[place][0], start, place
            start = place + 1
        if self._places and start < SLOTS:
            yield self._claims[self._places[0]][0], start, SLOTS - 1

    def conflict(self, policy: KeyPolicy) -> T | None:
        return None


@lru_cache(1024)
def _places(name: str, nth: int, points: int) -> tuple[int, ...]:
    return tuple(ring_slot_of(f"{name}\0{nth}\0{i}".encode()) for i in range(points))


class KeyHalves(Generic[T]):
    """Ranges by halving: a new member receives the lower half of the widest range.

    The range of a member that leaves is joined to the one above it, the topmost range to the one below.
    """

    slot_of = staticmethod(slot_of)

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._ends: list[int] = []
        """Last slot of each range, in order; the topmost range ends with ``slots``, which is behind all of them."""
        self._owners: list[T] = []

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        at, width = self._widest()
        end = self._ends[at] - width // 2 if self._ends else self._slots
        self._ends.insert(at, end)
        self._owners.insert(at, member)

    def _widest(self) -> tuple[int, int]:
        """Return the index and width of the first of the widest ranges."""
        starts = (0, *self._ends)
        widths = [end - start for start, end in zip(starts, self._ends, strict=False)]
        width = max(widths, default=0)
        return (widths.index(width), width) if widths else (0, 0)

    def remove(self, member: T) -> None:
        at = self._owners.index(member)
        del self._owners[at]
        topmost = at == len(self._owners)
        del self._ends[at - 1 if topmost and at else at]

    def owner(self, slot: int) -> T | None:
        return self._owners[bisect_left(self._ends, slot)] if self._ends else None

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        start = 0
        for end, owner in zip(self._ends, self._owners, strict=True):
            yield owner, start, end
            start = end + 1

    def conflict(self, policy: KeyPolicy) -> T | None:
        at, width = self._widest()
        return self._owners[at] if width == 1 else None


class KeyRanges(Generic[T]):
    """Ranges named by the members; slots that no member named have no owner."""

    slot_of = staticmethod(slot_of)

    def __init__(self) -> None:
        self._starts: list[int] = []
        """Starts of the ranges in order; no range overlaps another."""
        self._ranges: dict[int, tuple[int, T]] = {}

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        self._ranges.update((start, (end, member)) for start, end in policy.ranges)
        self._starts = sorted(self._ranges)

    def remove(self, member: T) -> None:
        self._ranges = {start: r for start, r in self._ranges.items() if r[1] is not member}
        self._starts = sorted(self._ranges)

    def owner(self, slot: int) -> T | None:
        return self._overlapping(slot, slot)

    def _overlapping(self, start: int, end: int) -> T | None:
        """Return the member whose range overlaps this one, the last such member; None without one."""
        at = bisect_right(self._starts, end)
        if not at:
            return None
        last, member = self._ranges[self._starts[at - 1]]
        return member if last >= start else None

    def ranges(self) -> Iterator[tuple[T, int, int]]:
        for start in self._starts:
            end, member = self._ranges[start]
            yield member, start, end

    def conflict(self, policy: KeyPolicy) -> T | None:
        members = (self._overlapping(start, end) for start, end in policy.ranges)
        return next((member for member in members if member is not None), None)
