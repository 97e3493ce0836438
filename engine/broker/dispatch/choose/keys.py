"""Whose a key is on a Key_Shared subscription: the hash range 0..65535 divided among consumers. Pure.

As in Apache Pulsar, to the slot: consumers of one subscription that move from one broker to the other keep their keys.
0 stands for a key that is not known.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
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

    @property
    def mode(self) -> str:
        """As Pulsar prints it."""
        return "STICKY" if self.sticky else "AUTO_SPLIT"

    def disagreement(self, present: "KeyPolicy") -> str:
        """Why both cannot share one subscription, on which ``present`` is the policy, with Pulsar's text; or empty."""
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
    """The hash that clients and brokers of Pulsar agree on: seed 0, without the sign bit."""
    return mmh3.hash(data) & 0x7FFFFFFF


def slot_of(key: bytes) -> int:
    """1..65535, of ranges."""
    return murmur3_32(key) % SLOTS or 1


def ring_slot_of(key: bytes) -> int:
    """1..65535, of the ring."""
    return 1 + murmur3_32(key) % (SLOTS - 1)


SlotOf = Callable[[bytes], int]
"""``slot_of`` or ``ring_slot_of``."""


class KeyMap(Protocol[T]):
    """Who has which slots."""

    @property
    def slot_of(self) -> SlotOf: ...

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

    Members of one name have points of their own, or they would get nothing. A place that several have is the first
    one's.
    """

    slot_of = staticmethod(ring_slot_of)

    def __init__(self, points: int) -> None:
        self._points = points
        self._members: dict[T, tuple[str, int]] = {}
        self._taken: dict[str, set[int]] = {}
        self._places: list[int] = []
        """In order; empty after a change, until somebody asks, as the next."""
        self._claims: dict[int, list[T]] = {}
        """Who has each place: the first of them, until it leaves."""
        self._owners: list[T] = []
        """Of ``places``."""

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
    """Each who comes takes the lower half of the widest range; one that is left goes to who is above, or the topmost
    to who is below."""

    slot_of = staticmethod(slot_of)

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._ends: list[int] = []
        """The last slot of each range, in order; the topmost range ends with ``slots``, behind them all."""
        self._owners: list[T] = []

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        at, width = self._widest()
        end = self._ends[at] - width // 2 if self._ends else self._slots
        self._ends.insert(at, end)
        self._owners.insert(at, member)

    def _widest(self) -> tuple[int, int]:
        """Index and width of the first of the widest ranges."""
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
    """Members name the ranges they want; what nobody wants waits."""

    slot_of = staticmethod(slot_of)

    def __init__(self) -> None:
        self._starts: list[int] = []
        """In order; no range overlaps another."""
        self._ranges: dict[int, tuple[int, T]] = {}

    def add(self, member: T, name: str, policy: KeyPolicy) -> None:
        self._ranges.update((start, (end, member)) for start, end in policy.ranges)
        self._starts = sorted(self._ranges)

    def remove(self, member: T) -> None:
        self._ranges = {s: one for s, one in self._ranges.items() if one[1] is not member}
        self._starts = sorted(self._ranges)

    def owner(self, slot: int) -> T | None:
        return self._overlapping(slot, slot)

    def _overlapping(self, start: int, end: int) -> T | None:
        """Whose range reaches into this one; of several the last."""
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
        found = (self._overlapping(start, end) for start, end in policy.ranges)
        return next((member for member in found if member is not None), None)
