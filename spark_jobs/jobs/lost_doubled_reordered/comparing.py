"""Comparison of two sets of messages: which are missing, extra, doubled or reordered in the second one.

Tasks reduce each message to numbers; Spark joins the two sides by them.
"""

from collections.abc import Collection, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.jobs.kit.entries import messages_of_rows
from spark_jobs.pulsar_source.columns import Opened


class MessageIdentity(StrEnum):
    """Definition of the same message on both sides.

    CONTENT: key and value, for copies by any program. ORIGIN: producer, sequence id and publish time, which replication
    leaves as they were.
    """

    CONTENT = "content"
    ORIGIN = "origin"


COLUMNS: dict[MessageIdentity, Collection[str]] = {
    MessageIdentity.CONTENT: ("key", "value", "value_bytes", "sequence_id", "batch_index"),
    MessageIdentity.ORIGIN: ("value_bytes", "sequence_id", "batch_index"),
}
SIDES = pa.schema(
    [
        ("side", pa.int8()),
        ("id", pa.int64()),
        ("line", pa.int64()),
        ("partition", pa.string()),
        ("place", pa.int64()),
        ("position", pa.string()),
        ("source", pa.string()),
        ("publish_ms", pa.int64()),
        ("broker_ms", pa.int64()),
    ]
)
"""A message of a side, 0 for the first and 1 for the second.

``id``: equal for the same messages. ``line``: equal for messages whose order counts: those of a key, or else of a
producer. ``place``: order within ``partition``. ``source``: the cluster that it was copied from, empty where it was
published.
"""
SIDES_SQL = (
    "side tinyint, id bigint, line bigint, partition string, place bigint, position string, source string,"
    " publish_ms bigint, broker_ms bigint"
)
PLACES_OF_ENTRY = 1 << 20
"""Places of one entry, more than the messages of any batch."""
PAIRS = "missing", "extra", "doubled", "reordered"
"""Kinds of differences."""


def number_of(*parts: bytes) -> int:
    """Return a number of 64 bits that is equal for equal parts and, but for a chance of 2⁻⁶⁴, for no others."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return int.from_bytes(digest.digest(), "big", signed=True)


def sides_of(
    opened: Opened,
    *,
    side: int,
    identity: MessageIdentity,
    partition: str,
    ledger_id: int,
    before: int,
    from_ms: int = 0,
    to_ms: int = 0,
) -> pa.Table:
    """Return the messages of some entries as SIDES; a message in chunks is its first chunk, an encrypted batch one.

    ``before``: place of the ledger's entry 0.
    """
    entries, messages = opened.entries, opened.messages
    of_row, counts = opened.entry_of_message().tolist(), messages_of_rows(opened).tolist()
    times = entries["publish_ms"].fill_null(0).to_pylist()
    columns = {
        name: entries[name].to_pylist()
        for name in ("entry_id", "producer_name", "replicated_from", "broker_ms")
    }
    indexes = messages["batch_index"].to_pylist()
    identities = _identities(opened, identity, of_row)
    rows = []
    for row, (entry, count, (own, line)) in enumerate(zip(of_row, counts, identities, strict=True)):
        at = times[entry]
        if not count or at < from_ms or (to_ms and at >= to_ms):
            continue
        entry_id, index = columns["entry_id"][entry], indexes[row]
        rows.append(
            (
                side,
                own,
                line,
                partition,
                (before + entry_id) * PLACES_OF_ENTRY + max(index, 0),
                f"{ledger_id}:{entry_id}" + (f":{index}" if index >= 0 else ""),
                columns["replicated_from"][entry] or "",
                at,
                columns["broker_ms"][entry],
            )
        )
    arrays = zip(*rows, strict=True) if rows else [()] * len(SIDES)
    return pa.Table.from_arrays(
        [pa.array(array, f.type) for array, f in zip(arrays, SIDES, strict=True)], schema=SIDES
    )


def _identities(
    opened: Opened, identity: MessageIdentity, of_row: list[int]
) -> Iterator[tuple[int, int]]:
    """Yield the id and the line of each message."""
    entries, messages = opened.entries, opened.messages
    producers = [(name or "").encode() for name in entries["producer_name"].to_pylist()]
    if identity is MessageIdentity.CONTENT:
        keys = messages["key"].to_pylist()
        for entry, key, value in zip(of_row, keys, messages["value"], strict=True):
            name = b"" if key is None else b"k" + key.encode()
            content = value.as_py()
            own = number_of(name, b"" if content is None else b"v" + content)
            yield own, number_of(name or b"p" + producers[entry])
        return
    times = entries["publish_ms"].fill_null(0).to_pylist()
    ids = messages["sequence_id"].to_numpy().astype(np.int64).tolist()
    for row, entry in enumerate(of_row):
        name = producers[entry]
        numbers = ids[row].to_bytes(8, "big", signed=True) + times[entry].to_bytes(8, "big")
        yield number_of(name, numbers), number_of(name)


def pairs_of(sides: Any, identity: MessageIdentity) -> Any:
    """Return a DataFrame with a row for each message of SIDES: how often it is on either side, where, and ``late``.

    ``home``: "here" where it was published on the first side, "there" on the second one, else the name of a third
    cluster. By ORIGIN the columns ``first_*`` are of the side where it was published, so that the others are of its
    copy. ``late``: whether it is, on one side, behind one of its line and partition that it preceded on the other.
    """
    from pyspark.sql import Window
    from pyspark.sql.functions import expr
    from pyspark.sql.functions import max as highest

    def on(side: int, column: str) -> str:
        return f"min_by(if(side = {side}, {column}, null), if(side = {side}, place, null))"

    columns = ("partition", "place", "position", "source", "publish_ms", "broker_ms")
    joined = sides.groupBy("id").agg(
        expr("count_if(side = 0) AS a_count"),
        expr("count_if(side = 1) AS b_count"),
        expr(f"{on(0, 'line')} AS line"),
        *(
            expr(f"{on(side, column)} AS {name}_{column}")
            for side, name in ((0, "a"), (1, "b"))
            for column in columns
        ),
    )
    if identity is MessageIdentity.ORIGIN:
        home = (
            "CASE WHEN a_source = '' THEN 'here' WHEN b_source = '' THEN 'there'"
            " ELSE coalesce(a_source, b_source) END"
        )
    else:
        home = "'here'"
    swapped = joined.selectExpr("*", f"{home} AS home").selectExpr(
        "id",
        "line",
        "home",
        *(
            f"if(home = 'there', {other}_{column}, {own}_{column}) AS {name}_{column}"
            for name, own, other in (("first", "a", "b"), ("second", "b", "a"))
            for column in ("count", *columns)
        ),
    )
    single = expr("first_count = 1 AND second_count = 1")
    before = (
        Window.partitionBy("line", "first_partition", "second_partition", single)
        .orderBy("first_place")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    ahead = highest("second_place").over(before)
    return swapped.withColumn("late", single & (ahead > expr("second_place")))


def counts_of(pairs: Any) -> Any:
    """Return a DataFrame with the differences by home, and percentiles of the time from publishing until the broker of
    the copy received the message."""
    from pyspark.sql.functions import expr

    delay = "if(first_count > 0, second_broker_ms - second_publish_ms, null)"
    return pairs.groupBy("home").agg(
        expr("sum(first_count) AS first_messages"),
        expr("sum(second_count) AS second_messages"),
        expr("sum(greatest(first_count - second_count, 0)) AS missing"),
        expr("sum(if(first_count = 0, second_count, 0)) AS extra"),
        expr("sum(if(first_count > 0, greatest(second_count - first_count, 0), 0)) AS doubled"),
        expr("count_if(late) AS reordered"),
        expr(f"count({delay}) AS timed"),
        expr(f"percentile_approx({delay}, array(0.5, 0.9, 0.99, 1.0), 10000) AS delays"),
    )


def samples_of(pairs: Any, limit: int) -> Any:
    """Return a DataFrame with the first ``limit`` messages of each kind of difference."""
    from pyspark.sql import Window
    from pyspark.sql.functions import expr, row_number

    kind = expr(
        "CASE WHEN second_count < first_count THEN 'missing' WHEN first_count = 0 THEN 'extra'"
        " WHEN second_count > first_count THEN 'doubled' WHEN late THEN 'reordered' END"
    )
    different = pairs.withColumn("kind", kind).where("kind IS NOT NULL")
    order = Window.partitionBy("kind").orderBy(
        expr("coalesce(first_publish_ms, second_publish_ms)"), "id"
    )
    numbered = different.withColumn("number", row_number().over(order))
    return numbered.where(numbered.number <= limit).select(
        "kind",
        "home",
        expr("coalesce(first_publish_ms, second_publish_ms) AS publish_ms"),
        "first_partition",
        "first_position",
        "second_partition",
        "second_position",
        "first_count",
        "second_count",
    )
