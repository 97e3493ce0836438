"""Real Spark reads topics straight from the bookies: rows by ``format("pulsar")``, and a profile of many messages."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import _pulsar
import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, Schema, String

from tests.e2e.test_newcomer import wait_for
from tests.support.instance import Instance

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
CODECS = pulsar.CompressionType
COLUMNS = "key,value,value_bytes,compression,batch_index,chunk_id,entry_bytes"


def published(instance: Instance, topic: str) -> list[tuple[str, bytes]]:
    """Publish messages of all codecs, batched and single, and one in chunks; return them in no order."""
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


@pytest.fixture(scope="module")
def spark(instance: Instance) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from spark_jobs.pulsar_source import register

    instance.control("start", "spark")
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{instance.ports['SPARK']}").create()
    register(session)
    yield session
    session.stop()


def read(spark: Any, instance: Instance, topic: str, columns: str, **more: str) -> Any:
    metadata = f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"
    options = {"topic": topic, "metadata.url": metadata, "columns": columns, **more}
    return spark.read.format("pulsar").options(**options).load()


@pytest.mark.timeout(300)
def test_spark_and_its_python_are_warmed_up_as_by_a_worker(spark: Any) -> None:
    from gateway.jobs import spark as of_worker

    of_worker.warm(spark)


@pytest.mark.timeout(300)
def test_rows_and_a_profile_match_the_published_messages(instance: Instance, spark: Any) -> None:
    topic = "persistent://public/default/every-codec"
    sent = published(instance, topic)
    rows = read(spark, instance, topic, COLUMNS, entriesPerPartition="300").collect()
    assert list(rows[0].asDict()) == COLUMNS.split(",")
    url = {"service.url": instance.url}
    through = read(spark, instance, topic, COLUMNS, readFrom="brokers", **url).collect()
    assert through == rows
    unchunked = [row for row in rows if row.chunk_id is None]
    assert Counter((row.key, bytes(row.value)) for row in unchunked) == Counter(sent[:-1])
    assert all(row.value_bytes == len(row.value) for row in unchunked)
    assert {row.compression for row in unchunked} == {"NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"}
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
    ranked = sorted(Counter(key for key, _ in sent).items(), key=lambda item: (-item[1], item[0]))
    keys = next(t["rows"] for t in done["result"]["tables"] if t["key"] == "top_keys")
    assert [tuple(row[:2]) for row in keys] == ranked[:3], (keys, ranked)
    codecs = next(t["rows"] for t in done["result"]["tables"] if t["key"] == "compression")
    assert {row[0]: row[2] for row in codecs} == dict.fromkeys(
        ("NONE", "SNAPPY", "ZLIB", "ZSTD"), 400
    ) | {"LZ4": 401}
    assert facts["last_publish"] <= time.time_ns() // 1_000_000


class Order(Record):  # type: ignore[misc]
    id = Integer()
    customer = String()


class Priced(Record):  # type: ignore[misc]
    id = Integer()
    customer = String()
    price = Integer(required_default=True)


class Encoded(Schema):  # type: ignore[misc]
    """A schema for values that are already encoded by an Avro definition."""

    def __init__(self) -> None:
        at = {"type": "long", "logicalType": "timestamp-millis"}
        fields = [{"name": "id", "type": "long"}, {"name": "at", "type": at}]
        definition = {"type": "record", "name": "Event", "fields": fields}
        super().__init__(bytes, _pulsar.SchemaType.AVRO, definition, "AVRO")

    def encode(self, obj: bytes) -> bytes:
        return obj


@pytest.mark.timeout(300)
def test_values_are_decoded_by_the_version_that_each_message_names(
    instance: Instance, spark: Any
) -> None:
    from pyspark.sql.functions import from_json

    orders, events = (f"persistent://public/default/{name}" for name in ("orders", "events"))
    _, _ = instance.rest("PUT", f"/admin/v2/{orders.replace('://', '/')}/partitions", 2)
    client = pulsar.Client(instance.url, logger=SILENT)
    for topic in (orders, events):
        client.subscribe(topic, "keep").close()
    first = client.create_producer(orders, schema=JsonSchema(Order))
    first.send(Order(id=1, customer="ä"))
    first.send(Order(id=2))
    client.create_producer(orders, schema=JsonSchema(Priced)).send(Priced(id=3, price=5))
    client.create_producer(orders).send(b"raw")
    event = client.create_producer(events, schema=Encoded(), batching_enabled=True)
    event.send(b"\x0a\x02")
    event.send(b"\x0a")
    client.close()

    names = "value,schema_version,decoded,decode_error,key"
    loaded = read(spark, instance, orders, names)
    rows = {bytes(row.value): row for row in loaded.collect()}
    assert len(rows) == 4
    raw = rows.pop(b"raw")
    assert (raw.schema_version, raw.decoded) == (None, None)
    assert raw.decode_error == "its producer named no schema version"
    assert Counter(row.schema_version for row in rows.values()) == {0: 2, 1: 1}
    typed = loaded.select(
        from_json("decoded", "id BIGINT, customer STRING, price INT").alias("order")
    ).select("order.*")
    assert sorted(tuple(row) for row in typed.where("id IS NOT NULL").collect()) == [
        (1, "ä", None),
        (2, None, None),
        (3, None, 5),
    ]

    through = {"readFrom": "brokers", "service.url": instance.url, "startingTime": "1"}
    of_brokers = read(spark, instance, orders, names, **through).collect()
    assert sorted(of_brokers, key=str) == sorted(loaded.collect(), key=str)
    after = max(row.publish_ms for row in read(spark, instance, orders, "publish_ms").collect())
    later = read(spark, instance, orders, names, **through | {"startingTime": str(after + 1)})
    assert later.count() == 0

    [good, bad] = read(spark, instance, events, "decoded,decode_error,schema_version").collect()
    assert tuple(good) == ('{"id":5,"at":"1970-01-01T00:00:00.001Z"}', None, 0)
    assert tuple(bad) == (None, "at: the data ends early", 0)
    timed = read(spark, instance, events, "decoded").select(
        from_json("decoded", "id BIGINT, at TIMESTAMP").alias("event")
    )
    assert timed.selectExpr("unix_millis(event.at)").first()[0] == 1
    assert "decoded" not in read(spark, instance, events, "value").columns
