"""Objects of a real server of the S3 protocol: each message in one object, each row one record, over kills."""

import asyncio
import io
import json
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import obstore
import pyarrow
import pytest
from obstore.store import S3Store
from pyarrow import parquet

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.objects.objects_connector import (
    CHUNK_RECORDS,
    SINK_SETTINGS,
    SOURCE_SETTINGS,
    ObjectsSink,
    ObjectsSource,
)
from engine.functions.connectors.spi import Guarantee
from engine.offload.errors import ObjectStoreError
from tests.support.functions.connector_host import FakeContext, Settlements, read_all

KEYS = {"accessKeyId": "test", "secretAccessKey": "test"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="needs moto, a server of the S3 protocol")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the settings of a bucket of the test's own."""
    name = f"b{abs(hash(request.node.name))}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT"))
    return {"bucket": name, "endpoint": endpoint, **KEYS}


def store_of(bucket: dict[str, Any]) -> S3Store:
    return S3Store(
        bucket["bucket"],
        endpoint=bucket["endpoint"],
        access_key_id="test",
        secret_access_key="test",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def objects_of(bucket: dict[str, Any]) -> dict[str, bytes]:
    store = store_of(bucket)
    names = sorted(row["path"] for rows in obstore.list(store) for row in rows)
    return {name: bytes(obstore.get(store, name).bytes()) for name in names}


async def sink_of(bucket: dict[str, Any], context: FakeContext, **settings: object) -> ObjectsSink:
    sink = ObjectsSink()
    await sink.open(checked(SINK_SETTINGS, {**bucket, **settings}), context)
    return sink


async def source_of(
    bucket: dict[str, Any], context: FakeContext, **settings: object
) -> ObjectsSource:
    source = ObjectsSource()
    given = {**bucket, "pollSeconds": 0.05, **settings}
    await source.open(checked(SOURCE_SETTINGS, given), context)
    return source


async def test_in_order_each_message_is_in_one_object_over_kills(bucket: dict[str, Any]) -> None:
    context = FakeContext(guarantee="EFFECTIVELY_ONCE")
    acked = -1
    for step in (2, 3, 5, 7):
        sink, seen = await sink_of(bucket, context, prefix="out", maxMessages=step), Settlements()
        await sink.write([seen.record(n, b'{"n":%d}' % n) for n in range(max(0, acked - 3), 20)])
        await sink.close()  # without flush: as by a kill
        acked = max([acked, *(record.sequence or 0 for record in seen.acked)])
    sink, seen = await sink_of(bucket, context, prefix="out"), Settlements()
    await sink.write([seen.record(n, b'{"n":%d}' % n) for n in range(20)])
    await sink.flush()
    await sink.close()
    objects = objects_of(bucket)
    assert all(name.startswith("out/public+default+in_partition_0-") for name in objects)
    lines = [json.loads(line) for data in objects.values() for line in data.splitlines()]
    assert [line["value"]["n"] for line in lines] == list(range(20))


async def test_parquet_has_a_row_of_each_message(bucket: dict[str, Any]) -> None:
    sink, seen = await sink_of(bucket, FakeContext(), format="parquet"), Settlements()
    await sink.write([seen.record(n, b"v%d" % n, key=f"k{n}") for n in range(3)])
    await sink.flush()
    await sink.close()
    (data,) = objects_of(bucket).values()
    rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    assert [row["value"] for row in rows] == [b"v0", b"v1", b"v2"]
    assert rows[1]["key"] == "k1"
    assert rows[1]["message_id"] == "7:1:0:-1"
    assert rows[1]["properties"] == [("n", "1")]


async def test_columns_of_json_objects_are_those_of_the_file_and_are_read_back(
    bucket: dict[str, Any],
) -> None:
    sink, seen = await sink_of(bucket, FakeContext(), format="parquet-columns"), Settlements()
    await sink.write(
        [seen.record(1, b'{"a":1}'), seen.record(2, b'{"b":"x"}'), seen.record(3, b"no object")]
    )
    await sink.flush()
    await sink.close()
    assert [record.sequence for record, _ in seen.failed] == [3]
    (data,) = objects_of(bucket).values()
    rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    assert [(row["a"], row["b"], row["_key"]) for row in rows] == [
        (1, None, None),
        (None, "x", None),
    ]
    records = await read_all(await source_of(bucket, FakeContext(), format="parquet"), 2)
    assert [json.loads(record.value)["a"] for record in records] == [1, None]


@pytest.mark.parametrize("guarantee", ["ATLEAST_ONCE", "EFFECTIVELY_ONCE"])
async def test_columns_of_two_types_are_in_two_objects(
    bucket: dict[str, Any], guarantee: Guarantee
) -> None:
    context = FakeContext(guarantee=guarantee)
    values = [b'{"a":1}', b'{"a":2}', b'{"a":"x"}', b'{"a":3}', b'{"a":[1]}']
    for _ in range(2):  # in order, the second time all are there
        sink, seen = await sink_of(bucket, context, format="parquet-columns"), Settlements()
        await sink.write([seen.record(n, value) for n, value in enumerate(values)])
        await sink.flush()
        await sink.close()
        assert len(seen.acked) == 5
    rows = [
        row["a"]
        for data in objects_of(bucket).values()
        for row in parquet.read_table(io.BytesIO(data)).to_pylist()
    ]
    once = [1, 2, "x", 3, [1]]
    assert rows == (once if guarantee == "EFFECTIVELY_ONCE" else once * 2)


async def test_each_line_is_one_record_over_kills_and_an_object_goes_once_it_is_stored(
    bucket: dict[str, Any],
) -> None:
    count = 2 * CHUNK_RECORDS + 5
    store = store_of(bucket)
    obstore.put(store, "a.jsonl", b"".join(b"a%d\n" % n for n in range(count)))
    obstore.put(store, "b.jsonl", b"b0\nb1")
    obstore.put(store, "empty", b"")
    context, seen = FakeContext(), dict[int, bytes]()
    for acked_runs in (0, 1, 2):  # killed behind the acknowledgement of so many runs
        source = await source_of(bucket, context, afterwards="delete")
        for run in range(acked_runs + 1):
            for record in await source.read():
                assert record.sequence is not None
                assert seen.setdefault(record.sequence, record.value) == record.value
                if run < acked_runs:
                    record.ack()
            await source.commit()
    source = await source_of(bucket, context, afterwards="delete")
    while len(seen) < count + 2 or objects_of(bucket):
        with suppress(TimeoutError):  # nothing may be left but objects to delete
            async with asyncio.timeout(1):
                for record in await source.read():
                    assert record.sequence is not None
                    assert seen.setdefault(record.sequence, record.value) == record.value
                    record.ack()
        await source.commit()
    expected = [b"a%d" % n for n in range(count)] + [b"b0", b"b1"]
    assert [seen[n] for n in sorted(seen)] == expected


async def test_an_object_that_cannot_be_read_is_reported_once_and_others_are_read(
    bucket: dict[str, Any],
) -> None:
    store = store_of(bucket)
    obstore.put(store, "a-large", bytes(2000))
    obstore.put(store, "b-damaged", b"PAR1 nonsense")
    target = io.BytesIO()
    parquet.write_table(pyarrow.table({"n": [1, 2]}), target)
    obstore.put(store, "c-good", target.getvalue())
    context = FakeContext()
    source = await source_of(bucket, context, format="parquet", maxObjectBytes=1000)
    assert len(await read_all(source, 2)) == 2
    with suppress(TimeoutError):
        await asyncio.wait_for(source.read(), 1)
    assert len(context.troubles) == 2
    assert "a-large: 2000 bytes exceed configs.maxObjectBytes" in context.troubles[0]
    assert "b-damaged: no Parquet file" in context.troubles[1]


async def test_a_new_object_under_the_key_of_a_deleted_one_is_read(bucket: dict[str, Any]) -> None:
    store, context = store_of(bucket), FakeContext()
    for value in (b"1", b"2", b"3"):
        obstore.put(store, "latest", value)
        source = await source_of(bucket, context, afterwards="delete")
        (record,) = await source.read()
        assert record.value == value
        record.ack()
        await source.commit()
        assert not objects_of(bucket)


async def test_a_missing_bucket_is_an_error_that_names_the_object(bucket: dict[str, Any]) -> None:
    source = await source_of({**bucket, "bucket": "missing"}, FakeContext())
    with pytest.raises(ObjectStoreError):
        await source.read()
