"""Producer names and sequence ids by which a task that runs again repeats no message (Q4). Pure.

The rows of a task are numbered in their order, from 0 in each topic partition. The sequence id of row n of batch b is
b·2³² + n, under a producer name that belongs to one partition of one query. The broker's deduplication keeps the
highest stored sequence id of a name: rows up to it are not sent again.
"""

from typing import NamedTuple

BATCH_BITS = 32
ROWS_MAX = 1 << BATCH_BITS
BATCHES_MAX = 1 << 63 - BATCH_BITS


class NumberingError(Exception):
    """A task does not fit what is stored under its producer's name, so that repeated rows cannot be recognized."""


class TaskNumbers(NamedTuple):
    """The names and numbers of one task. ``owner``: query or write; ``partition``: of the rows."""

    prefix: str
    owner: str
    partition: int
    batch_id: int = 0

    @property
    def first(self) -> int:
        """The sequence id of the first row."""
        if not 0 <= self.batch_id < BATCHES_MAX:
            raise NumberingError(f"batch {self.batch_id} is beyond {BATCHES_MAX - 1}")
        return self.batch_id << BATCH_BITS

    def producer_name(self, topic_partitions: int) -> str:
        """Return the name on a topic with so many partitions, 0 for a plain one.

        The number is part of the name: when a topic grows, rows go to other partitions, where numbers under the old
        name would count as stored.
        """
        of = f"-of-{topic_partitions}" if topic_partitions else ""
        return f"{self.prefix}-{self.owner}-{self.partition}{of}"

    def stored_rows(self, stored_sequence_id: int) -> int:
        """Return how many of the task's rows are stored, when this is the highest id of the producer's name.

        Raises NumberingError when a later batch is stored already.
        """
        rows = stored_sequence_id - self.first + 1
        if rows > ROWS_MAX:
            raise NumberingError(
                f"batch {self.batch_id} is older than batch {stored_sequence_id >> BATCH_BITS}, which"
                f" {self.producer_name(0)} has stored: the checkpoint is an older copy. Set option producerName to a"
                " new name to write the rows since then again"
            )
        return max(rows, 0)
