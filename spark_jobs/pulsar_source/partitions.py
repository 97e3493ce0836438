"""Plan partitions: which entries of which ledger each Spark task reads. Pure; partitions are small and picklable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_jobs.pulsar_source.options import BYTES_PER_PARTITION, PARTITIONS_MAX


@dataclass(frozen=True)
class LedgerRange(InputPartition):
    """Entries ``first..last`` (both included) of a ledger; ``partition`` of the topic, -1 when it has none."""

    ledger_id: int
    first: int
    last: int
    partition: int = -1

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


def plan(
    ledgers: Iterable[tuple[int, int, int]],
    entries_max: int,
    bytes_max: int = BYTES_PER_PARTITION,
    partition: int = -1,
) -> list[LedgerRange]:
    """Ranges over ``(ledger id, entries, bytes)`` in topic order, each of at most ``entries_max`` entries and about
    ``bytes_max`` bytes by the ledger's mean. Bytes of 0 are not known. Empty ledgers give none.

    Never more than about PARTITIONS_MAX ranges: larger ones are made instead.
    """
    known = [(one, entries, size) for one, entries, size in ledgers if entries > 0]
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
    """The ranges that hold the last ``last_entries`` entries, the first of them cut; all when 0."""
    if last_entries == 0:
        return list(ranges)
    kept: list[LedgerRange] = []
    left = last_entries
    for one in reversed(ranges):
        if left <= 0:
            break
        first = max(one.first, one.last - left + 1)
        kept.append(LedgerRange(one.ledger_id, first, one.last, one.partition))
        left -= one.last - first + 1
    return kept[::-1]
