"""Rows of topics in the shape of the contract's TopicRow. Pure."""

from collections.abc import Sequence
from typing import Any

from engine.admin.api import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.base.names import split_topic

Row = dict[str, Any]

FIELDS = (
    *("name", "domain", "tenant", "namespace", "topic", "partitions", "producers", "consumers"),
    *("subscriptions", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out"),
    *("backlog", "oldest_age", "storage_bytes"),
)
"""By which rows can be sorted: ``backlog`` by messages, ``oldest_age`` by the age of the first unacknowledged one."""
KNOWN = ("at_rest", "live", "last", "no")
"""How numbers are known, the best first: stored, while no broker has the topic loaded; as its broker just counted; as
they were when last known, for they may be others by now; not at all."""
AT_REST, LIVE, LAST, NO = range(len(KNOWN))
RATES = frozenset(name for name in ROW_COLUMNS if "rate" in name)


def parts_of(name: str) -> dict[str, str]:
    """The columns ``domain``, ``tenant``, ``namespace`` and ``topic`` of a full topic name, as of ``split_topic``."""
    return split_topic(name)._asdict()


def row_of(
    name: str,
    partitions: int,
    values: Sequence[int | None],
    loaded: bool | None,
    known: int,
    at: int,
) -> Row:
    """``values`` in the order of ROW_COLUMNS, rates in thousandths per second; None: not known. ``known``: how."""
    row: Row = {"name": name, **parts_of(name), "partitions": partitions, "loaded": loaded}
    for column, value in zip(ROW_COLUMNS, values, strict=True):
        row[column] = value / 1000 if value is not None and column in RATES else value
    if row["oldest_at"] == OLDEST_UNKNOWN:
        row["oldest_at"] = None
    row["known"], row["at"] = KNOWN[known], at
    return row
