"""Plan partitions: which entries of which ledger each Spark task reads. Pure; partitions are small and picklable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_jobs.pulsar_source.options import PARTITIONS_MAX


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
    ledgers: Iterable[tuple[int, int]], entries_per_partition: int, partition: int = -1
) -> list[LedgerRange]:
    """Ranges over ``(ledger id, entries)`` in topic order. Empty ledgers give none.

    Never more than PARTITIONS_MAX ranges: larger ones are made instead.
    """
    known = [(ledger_id, entries) for ledger_id, entries in ledgers if entries > 0]
    total = sum(entries for _, entries in known)
    step = max(entries_per_partition, -(-total // PARTITIONS_MAX))
    return [
        LedgerRange(ledger_id, first, min(first + step, entries) - 1, partition)
        for ledger_id, entries in known
        for first in range(0, entries, step)
    ]


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
