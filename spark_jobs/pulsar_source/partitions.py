"""Division of entries among Spark's tasks. Pure; partitions are small and picklable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from spark_jobs.pulsar_source.options import BYTES_PER_PARTITION, PARTITIONS_MAX


@dataclass(frozen=True)
class LedgerRange(InputPartition):
    """Entries ``first..last`` (both included) of a ledger.

    ``topic``: full name of the topic, or of its partition with the index ``partition`` (else -1). ``size``: bytes, 0
    where they are not known. ``extra``: what the topic's record has of the ledger besides, as ``LedgerSpan.extra``.
    ``aborted``: transactions whose messages are not read.
    """

    ledger_id: int
    first: int
    last: int
    partition: int = -1
    topic: str = ""
    size: int = field(default=0, kw_only=True)
    extra: bytes = field(default=b"", kw_only=True)
    aborted: frozenset[tuple[int, int]] = field(default=frozenset(), kw_only=True)

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class RangeGroup(InputPartition):
    """The ranges that one task of Spark reads."""

    ranges: tuple[LedgerRange, ...]


def plan(
    ranges: Iterable[LedgerRange],
    entries_max: int,
    bytes_max: int = BYTES_PER_PARTITION,
    partitions_min: int = 1,
) -> list[LedgerRange]:
    """Return ``ranges`` cut into smaller ones.

    Each has at most ``entries_max`` entries and about ``bytes_max`` bytes by the mean of its range, and there are about
    ``partitions_min`` if there are so many entries. For more than about PARTITIONS_MAX ranges larger ones are made.
    """
    known = [ledger_range for ledger_range in ranges if ledger_range.entries > 0]
    total = sum(ledger_range.entries for ledger_range in known)
    share = max(entries_max, -(-total // PARTITIONS_MAX))
    share = max(1, min(share, total // partitions_min))
    size_share = max(
        bytes_max, -(-sum(ledger_range.size for ledger_range in known) // PARTITIONS_MAX)
    )
    cut: list[LedgerRange] = []
    for whole in known:
        step = min(share, max(1, whole.entries * size_share // whole.size)) if whole.size else share
        for first in range(whole.first, whole.last + 1, step):
            last = min(first + step - 1, whole.last)
            size = whole.size * (last + 1 - first) // whole.entries
            cut.append(replace(whole, first=first, last=last, size=size))
    return cut


def grouped(
    ranges: Sequence[LedgerRange], entries_max: int, bytes_max: int, partitions_min: int = 1
) -> list[RangeGroup]:
    """Return ranges as tasks: consecutive small ones in one, which costs Spark less than a task for each."""
    entries_max = max(1, min(entries_max, sum(r.entries for r in ranges) // partitions_min))
    groups: list[RangeGroup] = []
    held: list[LedgerRange] = []
    entries = size = 0
    for ledger_range in ranges:
        if held and (
            entries + ledger_range.entries > entries_max or size + ledger_range.size > bytes_max
        ):
            groups.append(RangeGroup(tuple(held)))
            held, entries, size = [], 0, 0
        held.append(ledger_range)
        entries += ledger_range.entries
        size += ledger_range.size
    return [*groups, RangeGroup(tuple(held))] if held else groups


def newest(ranges: Sequence[LedgerRange], last_entries: int) -> list[LedgerRange]:
    """Return the ranges with the last ``last_entries`` entries, the first range cut; all when 0."""
    if last_entries == 0:
        return list(ranges)
    chosen: list[LedgerRange] = []
    remaining = last_entries
    for ledger_range in reversed(ranges):
        if remaining <= 0:
            break
        first = max(ledger_range.first, ledger_range.last - remaining + 1)
        size = ledger_range.size * (ledger_range.last + 1 - first) // max(ledger_range.entries, 1)
        chosen.append(replace(ledger_range, first=first, size=size))
        remaining -= ledger_range.last - first + 1
    return chosen[::-1]
