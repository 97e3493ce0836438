"""Real Spark reads topics straight from the bookies: rows by ``format("pulsar")``, and a profile of many messages."""

import random
import time
from collections import Counter

import pulsar
import pytest

from tests.e2e.test_newcomer import wait_for
from tests.support.instance import Instance

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
CODECS = pulsar.CompressionType
COLUMNS = "key,value,value_bytes,compression,batch_index,chunk_id,entry_bytes"


def published(instance: Instance, topic: str) -> list[tuple[str, bytes]]:
    """Messages of all codecs, batched and single, and one in chunks; what was sent, in no order."""
    chance = random.Random(7)
    client = pulsar.Client(instance.url, logger=SILENT)
    client.subscribe(topic, "keep").close()
    sent: list[tuple[str, bytes]] = []
    for codec in (CODECS.NONE, CODECS.LZ4, CODECS.ZLib, CODECS.ZSTD, CODECS.SNAPPY):
        for batched in (False, True):
            producer = client.create_producer(
                topic, batching_enabled=batched, compression_type=codec, block_if_queue_full=True
            )
            for _ in range(200):
                message = f"k{chance.randint(0, 9)}", chance.randbytes(chance.randint(0, 900))
                producer.send_async(message[1], lambda *_: None, partition_key=message[0])
                sent.append(message)
            producer.flush()
            producer.close()
    large = client.create_producer(
        topic, chunking_enabled=True, batching_enabled=False, compression_type=CODECS.LZ4
    )
    sent.append(("large", chance.randbytes(11 << 20)))
    large.send(sent[-1][1], partition_key="large")
    client.close()
    return sent


@pytest.mark.timeout(300)
def test_rows_and_a_profile_say_what_was_published(instance: Instance) -> None:
    from pyspark.sql import SparkSession

    from spark_jobs.pulsar_source.source import PulsarDataSource

    topic = "persistent://public/default/every-codec"
    sent = published(instance, topic)
    instance.control("start", "spark")
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{instance.ports['SPARK']}").create()
    try:
        spark.dataSource.register(PulsarDataSource)
        options = {
            "topic": topic,
            "metadata.url": f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}",
            "columns": COLUMNS,
            "entriesPerPartition": "300",
        }
        rows = spark.read.format("pulsar").options(**options).load().collect()
    finally:
        spark.stop()
    assert list(rows[0].asDict()) == COLUMNS.split(",")
    whole = [row for row in rows if row.chunk_id is None]
    assert Counter((row.key, bytes(row.value)) for row in whole) == Counter(sent[:-1])
    assert all(row.value_bytes == len(row.value) for row in whole)
    assert {row.compression for row in whole} == {"NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"}
    chunks = [row for row in rows if row.chunk_id is not None]
    assert [row.value_bytes for row in chunks] == [len(sent[-1][1])] + [0] * (len(chunks) - 1)

    body = {"analysis": "topic-profile", "parameters": {"topic": topic, "top": 3}}
    _, run = instance.rest("POST", "/api/v1/runs", body)
    path = f"/api/v1/runs/{run['id']}"
    done = wait_for(instance, path, lambda r: r["state"] in ("succeeded", "failed"), 120)
    assert done["state"] == "succeeded", done["error"]
    facts = {item["key"]: item["value"] for item in done["result"]["summary"]}
    assert (facts["messages"], facts["chunked"]) == (len(sent), 1)
    assert facts["value_bytes"] == sum(len(value) for _, value in sent)
    assert facts["stored_bytes"] >= sum(row.entry_bytes for row in rows if row.batch_index <= 0)
    assert (facts["size_max"], facts["keys"]) == (len(sent[-1][1]), 11)
    ranked = sorted(Counter(key for key, _ in sent).items(), key=lambda one: (-one[1], one[0]))
    keys = next(t["rows"] for t in done["result"]["tables"] if t["key"] == "top_keys")
    assert [tuple(row[:2]) for row in keys] == ranked[:3], (keys, ranked)
    codecs = next(t["rows"] for t in done["result"]["tables"] if t["key"] == "compression")
    assert {row[0]: row[2] for row in codecs} == dict.fromkeys(
        ("NONE", "SNAPPY", "ZLIB", "ZSTD"), 400
    ) | {"LZ4": 401}
    assert facts["last_publish"] <= time.time_ns() // 1_000_000
