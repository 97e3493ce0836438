"""A real Spark hands filters of every kind to the source, which takes part of them and leaves all to Spark."""

import subprocess
import sys

import pytest

PROGRAM = """
from tests.support.analyses.stream_program import session

spark = session()
rows = spark.read.format("pulsar").options(topic="x", metadataUrl="zk:127.0.0.1:1", ranges="[]").load()
for where in (
    "publish_time >= timestamp'2026-01-01 00:00:00' and key = 'a' and ledger_id > 5 and entry_id <= 7",
    "event_time < current_timestamp() and partition in (0, 1) and topic like '%x' and value is not null",
    "not (publish_ms = 7) or key is null",
):
    assert rows.where(where).collect() == []
    print(rows.where(where)._jdf.queryExecution().executedPlan().toString())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_filters_reach_the_source_and_change_no_result() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=290
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "PythonScan" in done.stdout or "pulsar" in done.stdout, done.stdout
