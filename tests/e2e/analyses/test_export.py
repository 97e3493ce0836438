"""An export that is continued, through the real engine."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pulsar
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import hostile, publish


@pytest.mark.timeout(300)
def test_later_exports_add_what_is_new(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path
) -> None:
    topic = "persistent://public/default/exported"
    publish(client, topic, [(b"%d" % i, {"partition_key": "k"}) for i in range(500)])
    first = run("export", topic=topic)
    assert first.figure("added_rows") == 500
    assert run("export", topic=topic).figure("added_rows") == 0
    publish(client, topic, [(b"%d" % i, {}) for i in range(500, 700)])
    last = run("export", topic=topic, follow_s=3)
    assert (last.figure("added_rows"), last.figure("rows")) == (200, 700)
    table = ds.dataset(last.figure("folder"), partitioning="hive").to_table()
    assert Counter(table["value"].to_pylist()) == Counter(b"%d" % i for i in range(700))
    assert set(table.column_names) >= {"day", "key", "properties", "topic"}


@pytest.mark.timeout(300)
def test_a_delta_table_is_read_by_others(run: Callable[..., Answer], client: pulsar.Client) -> None:
    topic = "persistent://public/default/exported-delta"
    for first in (0, 300):
        publish(client, topic, [(b"%d" % i, {"properties": {"n": "1"}}) for i in range(first, 500)])
        added = run("export", topic=topic, format="delta")
    table = DeltaTable(added.figure("folder"))
    read = table.to_pyarrow_dataset().to_table()
    assert Counter(read["value"].to_pylist()) == Counter(
        b"%d" % i for i in (*range(500), *range(300, 500))
    )
    assert table.metadata().partition_columns == ["day"]
    assert read["properties"][0].as_py() == [("n", "1")]


@pytest.mark.timeout(300)
def test_an_iceberg_table_is_read_by_others(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path
) -> None:
    answer = hostile(client, "persistent://public/default/exported-iceberg", tmp_path)
    first = run("export", topic=answer.topic, format="iceberg", decode=True)
    publish(client, answer.topic, [(b"later", {"properties": {"n": "1"}})])
    added = run("export", topic=answer.topic, format="iceberg", decode=True)
    assert added.figure("added_rows") == 1
    table = StaticTable.from_metadata(added.figure("folder"))
    read = table.scan().to_arrow()
    assert read.num_rows == first.figure("rows") + 1
    plain = ds.dataset(
        [str(path) for path in Path(added.figure("folder")).glob("day=*/*.parquet")]
    ).to_table()
    places = ["ledger_id", "entry_id", "batch_index"]
    assert sorted(read.select(places).to_pylist(), key=str) == sorted(
        plain.select(places).to_pylist(), key=str
    )
    [later] = (
        table.scan(row_filter="value_bytes = 5 and entry_id >= 0")
        .to_arrow()
        .filter(ds.field("value") == b"later")
        .to_pylist()
    )
    assert later["properties"] == [("n", "1")]
    assert len(table.metadata.snapshots) == 2


@pytest.mark.timeout(300)
def test_hostile_messages_are_exported(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path
) -> None:
    answer = hostile(client, "persistent://public/default/export-hostile", tmp_path)
    exported = run("export", topic=answer.topic, decode=True)
    plain = answer.count - answer.kinds["encrypted"] - answer.kinds["chunked"]
    table = ds.dataset(exported.figure("folder"), partitioning="hive").to_table()
    readable = [
        row
        for row in table.select(["encrypted", "chunk_id"]).to_pylist()
        if not row["encrypted"] and row["chunk_id"] is None
    ]
    assert len(readable) == plain
