"""Rows of topics in the shape of the contract's TopicRow. Pure."""

from collections.abc import Sequence
from typing import Any

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.base.names import split_topic

Row = dict[str, Any]

FIELDS = (
    *("name", "domain", "tenant", "namespace", "topic", "partitions", "producers", "consumers"),
    *("subscriptions", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out"),
    *("backlog", "oldest_age", "storage_bytes"),
)
"""Fields that rows can be sorted by: ``backlog`` in messages, ``oldest_age`` as the age of the first unacknowledged
message."""
KNOWN = ("at_rest", "live", "last", "no")
"""Ways of knowing figures, the best first: as stored, while no broker has the topic loaded; as its broker just counted
them; as last known, so that they may have changed since; not at all."""
AT_REST, LIVE, LAST, NO = range(len(KNOWN))
RATES = frozenset(name for name in ROW_COLUMNS if "rate" in name)


def parts_of(name: str) -> dict[str, str]:
    """Return the columns ``domain``, ``tenant``, ``namespace`` and ``topic`` of a full topic name, see
    ``split_topic``."""
    return split_topic(name)._asdict()


def row_of(
    name: str,
    partitions: int,
    values: Sequence[int | None],
    loaded: bool | None,
    known: int,
    at: int,
) -> Row:
    """Return a topic's row.

    ``values`` are in the order of ROW_COLUMNS, rates in thousandths per second, None where unknown. ``known`` is an
    index into ``KNOWN``; ``at`` is the time of the values in ms.
    """
    row: Row = {"name": name, **parts_of(name), "partitions": partitions, "loaded": loaded}
    for column, value in zip(ROW_COLUMNS, values, strict=True):
        row[column] = value / 1000 if value is not None and column in RATES else value
    if row["oldest_at"] == OLDEST_UNKNOWN:
        row["oldest_at"] = None
    row["known"], row["at"] = KNOWN[known], at
    return row
