"""Messages of a topic as a DataFrame, through the real engine."""

from collections import Counter
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_jobs.jobs.kit.messages import messages
from spark_jobs.pulsar_source.options import parse
from tests.support.analyses.runs import Shown
from tests.support.analyses.topics_with_answers import CHUNKED_BYTES, LARGE_BYTES, hostile, hot_keys
from tests.support.instance import Instance


@pytest.mark.timeout(300)
def test_a_selection_is_a_frame_whose_query_reports_progress(
    instance: Instance, spark: Any, client: pulsar.Client
) -> None:
    keys = hot_keys(client, "persistent://public/default/kit-keys")
    options = parse({"topic": keys.topic, **stores(instance), "entriesPerPartition": "1"})
    shown = Shown()
    with messages(spark, options, ("key", "value_bytes", "unread"), shown) as frame:
        counted = frame.groupBy("key").agg({"*": "count", "value_bytes": "sum"}).collect()
    assert Counter({row[0]: row[1] for row in counted}) == keys.messages
    assert sum(row[2] for row in counted) == keys.value_bytes
    assert [done for _, done, _ in shown.stages] == sorted(done for _, done, _ in shown.stages)
    # Spark reports the tasks of a query at intervals, of which a short one has none.
    assert shown.stages[-1][2] > 1


@pytest.mark.timeout(300)
def test_hostile_messages_are_rows(
    instance: Instance, spark: Any, client: pulsar.Client, tmp_path: Path
) -> None:
    answer = hostile(client, "persistent://public/default/kit-hostile", tmp_path)
    options = parse({"topic": answer.topic, **stores(instance)})
    columns = (
        *("value_bytes", "encrypted", "chunk_id", "key", "properties", "event_time", "decoded"),
        *("decode_error", "batch_size", "value", "unread", "unread_entries", "publish_time"),
    )
    with messages(spark, options, columns, Shown()) as frame:
        rows = frame.collect()
    assert not [row for row in rows if row.unread]
    assert sum(row.batch_size for row in rows if row.encrypted) == answer.kinds["encrypted"]
    plain = [row for row in rows if not row.encrypted and row.chunk_id is None]
    assert len(plain) == answer.count - answer.kinds["encrypted"] - answer.kinds["chunked"]
    assert max(row.value_bytes for row in plain) > LARGE_BYTES
    assert sum(row.value is None for row in plain) == answer.kinds["null"]
    assert sum(row.value_bytes for row in rows if row.chunk_id is not None) == CHUNKED_BYTES
    assert {row.decode_error for row in plain} <= {None, "its producer named no schema version"}


def stores(instance: Instance) -> dict[str, str]:
    return {"metadata.url": f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"}
