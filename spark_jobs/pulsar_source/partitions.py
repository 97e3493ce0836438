"""Planning of partitions: the entries of a ledger that each Spark task reads. Pure; partitions are small and
picklable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from spark_jobs.pulsar_source.options import BYTES_PER_PARTITION, PARTITIONS_MAX


@dataclass(frozen=True)
class LedgerRange(InputPartition):
    """Entries ``first..last`` (both included) of a ledger.

    ``topic``: full name of the topic, or of its partition with the index ``partition`` (else -1). ``extra``: what the
    topic's record has of the ledger besides, as ``LedgerSpan.extra``.
    """

    ledger_id: int
    first: int
    last: int
    partition: int = -1
    topic: str = ""
    extra: bytes = field(default=b"", kw_only=True)

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


def plan(
    ledgers: Iterable[tuple[int, int, int]],
    entries_max: int,
    bytes_max: int = BYTES_PER_PARTITION,
    partition: int = -1,
) -> list[LedgerRange]:
    """Return ranges over ``(ledger id, entries, bytes)`` in topic order.

    Each has at most ``entries_max`` entries and about ``bytes_max`` bytes by the ledger's mean. Bytes of 0 are unknown.
    Empty ledgers have no range. For more than about PARTITIONS_MAX ranges larger ones are made.
    """
    known = [(ledger_id, entries, size) for ledger_id, entries, size in ledgers if entries > 0]
    share = max(entries_max, -(-sum(entries for _, entries, _ in known) // PARTITIONS_MAX))
    size_share = max(bytes_max, -(-sum(size for _, _, size in known) // PARTITIONS_MAX))
    ranges: list[LedgerRange] = []
    for ledger_id, entries, size in known:
        step = min(share, max(1, entries * size_share // size)) if size else share
        ranges += [
            LedgerRange(ledger_id, first, min(first + step, entries) - 1, partition)
            for first in range(0, entries, step)
        ]
    return ranges


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
        chosen.append(replace(ledger_range, first=first))
        remaining -= ledger_range.last - first + 1
    return chosen[::-1]
