"""Sets of integers. Pure.

A ``RangeSet`` stores intervals, so that its cost depends on the number of gaps, not of members. Pulsar's protocol and
records carry sets as 64-bit words, which are converted from and to integers with these bits.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, compress

BLOCK_MAX = 512
"""Maximum number of intervals in one block, which bounds the cost of an insertion."""
WORD_BITS = 64
WORD = (1 << WORD_BITS) - 1
PART_BYTES = 2048
"""Bytes of a bit set turned into intervals at a time: at most 8,192 of them."""
_AS_TRUTH = bytes.maketrans(b"01", b"\x00\x01")


def bits_of(words: Sequence[int]) -> int:
    """Return 64-bit words (signed or not, lowest first) as one integer, in time linear in their number."""
    count = len(words)
    if count == 1:
        return words[0] & WORD
    return int.from_bytes(struct.pack(f"<{count}Q", *(word & WORD for word in words)), "little")


def words_of(bits: int) -> list[int]:
    """Return an integer as signed 64-bit words without trailing zero words, as Java's BitSet does, in linear time."""
    count = (bits.bit_length() + WORD_BITS - 1) // WORD_BITS
    return list(struct.unpack(f"<{count}q", bits.to_bytes(8 * count, "little")))


def intervals_in(
    raw: bytes | memoryview, base: int, size: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the runs of set bits of ``raw`` (bit ``i & 7`` of byte ``i >> 3`` is bit i) below bit ``size``, as starts
    and stops, ``base`` added, in order; part by part, in time linear in the bytes and the runs."""
    first: list[int] = []
    before = 0
    size = min(size, 8 * len(raw))
    for at in range(0, (size + 7) // 8, PART_BYTES):
        count = min(8 * PART_BYTES, size - 8 * at)
        part = int.from_bytes(raw[at : at + PART_BYTES], "little") & ((1 << count) - 1)
        changes = part ^ ((part << 1 | before) & ((1 << count) - 1))
        before = part >> (count - 1)
        low = base + 8 * at
        edges = first + _members(changes, low, count)
        if 8 * at + count == size and before:
            edges.append(base + size)
        first = [edges.pop()] if len(edges) & 1 else []
        yield edges[0::2], edges[1::2]


def _members(bits: int, low: int, count: int) -> list[int]:
    """Return the set bits among the lowest ``count``, each plus ``low``."""
    if not bits:
        return []
    flags = f"{bits:0{count}b}"[::-1].encode().translate(_AS_TRUTH)
    return [*compress(range(low, low + count), flags)]


class RangeSet:
    """Ordered half-open intervals ``[start, stop)`` that are disjoint and not adjacent.

    ``total`` counts members; ``len()`` counts intervals. Intervals are stored in non-empty blocks of at most BLOCK_MAX,
    so that an insertion costs about a microsecond at any position and size.
    """

    __slots__ = ("_starts", "_stops", "_tops", "total")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[list[int]] = []
        self._stops: list[list[int]] = []
        self._tops: list[int] = []
        """Last stop of each block."""
        self.total = 0
        for start, stop in ranges:
            self.add(start, stop)

    def add(self, start: int, stop: int) -> int:
        """Add ``start <= x < stop`` and return the number of new members; ``stop <= start`` adds none."""
        if stop <= start:
            return 0
        tops = self._tops
        block = bisect_left(tops, start)
        if block == len(tops):
            self._append(start, stop)
            return stop - start
        if stop > tops[block]:
            self._join(block, stop)
        starts, stops = self._starts[block], self._stops[block]
        i = bisect_left(stops, start)
        if starts[i] > stop:
            starts.insert(i, start)
            stops.insert(i, stop)
            self.total += stop - start
            if len(stops) > BLOCK_MAX:
                self._split(block)
            return stop - start
        j = bisect_right(starts, stop, i)
        low = min(start, starts[i])
        high = max(stop, stops[j - 1])
        if j - i == 1:
            fresh = (high - low) - (stops[i] - starts[i])
            starts[i] = low
            stops[i] = high
        else:
            fresh = (high - low) - sum(stops[i:j]) + sum(starts[i:j])
            starts[i:j] = [low]
            stops[i:j] = [high]
        tops[block] = stops[-1]
        self.total += fresh
        return fresh

    def extend(self, starts: list[int], stops: list[int]) -> None:
        """Add intervals that are in order and do not touch each other. Those behind all present ones, which should be
        all but the first, cost some nanoseconds each."""
        at = 0
        while at < len(starts) and self._tops and starts[at] <= self._tops[-1]:
            self.add(starts[at], stops[at])
            at += 1
        self.total += sum(stops[at:]) - sum(starts[at:])
        while at < len(starts):
            if not self._tops or len(self._stops[-1]) >= BLOCK_MAX:
                self._starts.append([])
                self._stops.append([])
                self._tops.append(0)
            end = at + BLOCK_MAX - len(self._stops[-1])
            self._starts[-1] += starts[at:end]
            self._stops[-1] += stops[at:end]
            self._tops[-1] = self._stops[-1][-1]
            at = end

    def adding_bits(self, raw: bytes, base: int, size: int) -> Generator[None, None, None]:
        """Add ``intervals_in(raw, base, size)``, in short steps."""
        for starts, stops in intervals_in(raw, base, size):
            self.extend(starts, stops)
            yield

    def _append(self, start: int, stop: int) -> None:
        """Append an interval behind all others."""
        if not self._tops or len(self._stops[-1]) >= BLOCK_MAX:
            self._starts.append([])
            self._stops.append([])
            self._tops.append(stop)
        self._starts[-1].append(start)
        self._stops[-1].append(stop)
        self._tops[-1] = stop
        self.total += stop - start

    def _join(self, block: int, stop: int) -> None:
        """Merge the blocks from ``block`` on that contain intervals up to ``stop``."""
        end = block + 1
        while end < len(self._tops) and self._starts[end][0] <= stop:
            end += 1
        if end > block + 1:
            for blocks in (self._starts, self._stops):
                blocks[block:end] = [list(chain.from_iterable(blocks[block:end]))]
            self._tops[block:end] = [self._tops[end - 1]]

    def _split(self, block: int) -> None:
        for blocks in (self._starts, self._stops):
            bounds = blocks[block]
            middle = len(bounds) // 2
            blocks[block : block + 1] = [bounds[:middle], bounds[middle:]]
        self._tops[block : block + 1] = [self._stops[block][-1], self._stops[block + 1][-1]]

    def discard_below(self, limit: int) -> None:
        """Remove every member < ``limit``."""
        below = bisect_right(self._tops, limit)
        if below:
            for starts, stops in zip(self._starts[:below], self._stops[:below], strict=True):
                self.total -= sum(stops) - sum(starts)
            del self._starts[:below], self._stops[:below], self._tops[:below]
        if not self._tops:
            return
        starts, stops = self._starts[0], self._stops[0]
        i = bisect_right(stops, limit)
        if i:
            self.total -= sum(stops[:i]) - sum(starts[:i])
            del starts[:i], stops[:i]
        if starts[0] < limit:
            self.total -= limit - starts[0]
            starts[0] = limit

    def clear(self) -> None:
        self._starts.clear()
        self._stops.clear()
        self._tops.clear()
        self.total = 0

    @property
    def top(self) -> int:
        """One more than the greatest member; 0 when empty."""
        return self._tops[-1] if self._tops else 0

    def _interval_of(self, x: int) -> tuple[int, int] | None:
        """Return the interval that contains ``x``, None without one."""
        block = bisect_right(self._tops, x)
        if block == len(self._tops):
            return None
        i = bisect_right(self._stops[block], x)
        start = self._starts[block][i]
        return (start, self._stops[block][i]) if start <= x else None

    def first_missing(self, start: int) -> int:
        """Return the smallest integer >= ``start`` that is not a member."""
        interval = self._interval_of(start)
        return start if interval is None else interval[1]

    def gaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals of ``[start, stop)`` without members, in order. The set must not change meanwhile."""
        for block in range(bisect_right(self._tops, start), len(self._tops)):
            starts, stops = self._starts[block], self._stops[block]
            for i in range(bisect_right(stops, start), len(stops)):
                if start >= stop or starts[i] >= stop:
                    break
                if starts[i] > start:
                    yield start, starts[i]
                start = stops[i]
            else:
                continue
            break
        if start < stop:
            yield start, stop

    def columns(self) -> tuple[list[int], list[int]]:
        """Return copies of all starts and all stops: a snapshot that costs a few nanoseconds per interval."""
        return list(chain.from_iterable(self._starts)), list(chain.from_iterable(self._stops))

    def count(self, start: int, stop: int) -> int:
        """Return the number of members in ``[start, stop)``."""
        if stop <= start:
            return 0
        return (stop - start) - sum(high - low for low, high in self.gaps(start, stop))

    def __contains__(self, x: int) -> bool:
        return self._interval_of(x) is not None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(*self.columns(), strict=True)

    def __len__(self) -> int:
        return sum(map(len, self._stops))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self.columns() == other.columns()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeSet({list(self)!r})"
