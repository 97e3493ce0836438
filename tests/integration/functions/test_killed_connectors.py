"""Built-in connectors keep their guarantee while their instance is killed at several points.

``test_change_capture.py`` has the source of PostgreSQL.
"""

import asyncio
import json
import urllib.request
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pulsar
import pytest
from redis.asyncio import Redis

from engine.functions.connectors.catalogue import CATALOGUE
from engine.functions.definitions.functions_pb2 import (
    ATLEAST_ONCE,
    EFFECTIVELY_ONCE,
    FunctionDetails,
)
from engine.net.http import HttpServer, Request, Response
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from tests.support.functions.killed_connectors import KilledConnector, Passage
from tests.support.functions.redis_process import redis_program, running_redis
from tests.support.instance import Instance
from tests.support.instances.function_instances import function_details
from tests.support.instances.shared import SharedInstance
from tests.support.ports import free_ports
from tests.support.stores.postgresql import programs, running_postgresql

pytestmark = pytest.mark.slow


class Place(NamedTuple):
    """The messaging end of a connector: its topic, and what a test needs to reach it."""

    client: pulsar.Client
    topic: str
    folder: Path

    async def published(self, numbers: Sequence[int]) -> None:
        """Publish numbers to the topic; return once they are stored."""

        def publish() -> None:
            producer = self.client.create_producer(self.topic, block_if_queue_full=True)
            for number in numbers:
                producer.send_async(b"%d" % number, lambda result, message_id: None)
            producer.flush()
            producer.close()

        await asyncio.to_thread(publish)

    async def received(self) -> list[int]:
        """Return all numbers of the topic."""

        def read() -> list[int]:
            numbers = []
            reader = self.client.create_reader(self.topic, pulsar.MessageId.earliest)
            while reader.has_message_available():
                numbers.append(int(reader.read_next(30_000).data()))
            reader.close()
            return numbers

        return await asyncio.to_thread(read)


Opened = AbstractAsyncContextManager[tuple[dict[str, Any], Passage]]


@asynccontextmanager
async def generator_source(place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    wanted = 0

    async def put(numbers: Sequence[int]) -> None:
        nonlocal wanted
        wanted = numbers[-1]

    async def stored() -> list[int]:
        # It goes on for ever; numbers behind those that are looked for are not counted.
        return [number for number in await place.received() if number <= wanted]

    yield {"rate": 400, "template": "{n}"}, Passage(put, stored)


@asynccontextmanager
async def files_source(place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    folder = place.folder / "from"
    folder.mkdir()

    async def put(numbers: Sequence[int]) -> None:
        with (folder / f"{numbers[0] % 3}.txt").open("ab") as file:
            file.writelines(b"%d\n" % number for number in numbers)

    yield {"folder": str(folder), "pollSeconds": 0.05}, Passage(put, place.received)


@asynccontextmanager
async def files_sink(place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    folder = place.folder / "to"

    async def stored() -> list[int]:
        return [int(line) for path in folder.glob("*.txt") for line in path.read_bytes().split()]

    settings = {"folder": str(folder), "format": "lines", "maxSeconds": 0.2, "maxMessages": 150}
    yield settings, Passage(place.published, stored)


@asynccontextmanager
async def http_source(place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    (port,) = free_ports(1)
    client = HttpClient(LoopNetwork(), timeout_s=30)

    async def put(numbers: Sequence[int]) -> None:
        body = b"\n".join(b"%d" % number for number in numbers)
        while True:
            with suppress(HttpError):
                answer = await client.request("POST", f"http://127.0.0.1:{port}/", body=body)
                if answer.status == 204:
                    return
            await asyncio.sleep(0.1)

    yield {"port": port, "records": "lines"}, Passage(put, place.received)
    client.close()


@asynccontextmanager
async def http_sink(place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    numbers: list[int] = []

    async def handle(request: Request) -> Response:
        numbers.append(int(request.body))
        return Response(204)

    async def stored() -> list[int]:
        return list(numbers)

    server = HttpServer(LoopNetwork(), handle, connections_max=100)
    port = await server.listen("127.0.0.1", 0)
    yield {"url": f"http://127.0.0.1:{port}/"}, Passage(place.published, stored)
    await server.close()


@asynccontextmanager
async def postgres_sink(place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    if programs() is None:
        pytest.skip("needs initdb and postgres")
    with running_postgresql() as server:
        connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)

        async def stored() -> list[int]:
            with suppress(psycopg.errors.UndefinedTable):
                cursor = await connection.execute("SELECT value FROM t")
                return [int(value) for (value,) in await cursor.fetchall()]
            return []

        yield {"url": server.url, "table": "t"}, Passage(place.published, stored)
        await connection.close()


@asynccontextmanager
async def redis_of(kind: str, place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    if redis_program() is None:
        pytest.skip("needs redis-server")
    with running_redis() as server:
        redis: Any = Redis.from_url(server.url)

        async def put(numbers: Sequence[int]) -> None:
            async with redis.pipeline() as pipeline:
                for number in numbers:
                    pipeline.xadd("s", {"n": number})
                await pipeline.execute()

        async def stored() -> list[int]:
            return [int(value) for value in await redis.lrange("l", 0, -1)]

        if kind == "source":
            settings = {"stream": "s", "valueField": "n", "batch": 70}
            yield {"url": server.url, **settings}, Passage(put, place.received)
        else:
            settings = {"mode": "list", "name": "l"}
            yield {"url": server.url, **settings}, Passage(place.published, stored)
        await redis.aclose()


@asynccontextmanager
async def bucket_of(kind: str, place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    moto = pytest.importorskip("moto.server", reason="needs moto, a server of the S3 protocol")
    import obstore
    from obstore.store import S3Store

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint, name = f"http://{host}:{port}", f"killed-{kind}"
    made = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    await asyncio.to_thread(urllib.request.urlopen, made)
    store = S3Store(
        name,
        endpoint=endpoint,
        access_key_id="test",
        secret_access_key="test",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    async def put(numbers: Sequence[int]) -> None:
        data = b"".join(b"%d\n" % number for number in numbers)
        await obstore.put_async(store, f"{numbers[0]:08d}.txt", data)

    async def stored() -> list[int]:
        numbers: list[int] = []
        async for rows in obstore.list(store):
            for row in rows:
                data = await (await obstore.get_async(store, row["path"])).bytes_async()
                numbers += map(int, bytes(data).split())
        return numbers

    settings = {"bucket": name, "endpoint": endpoint}
    settings |= {"accessKeyId": "test", "secretAccessKey": "test"}
    try:
        if kind == "source":
            yield {**settings, "pollSeconds": 0.1}, Passage(put, place.received)
        else:
            form = {"format": "lines", "maxSeconds": 0.3, "maxMessages": 300}
            yield {**settings, **form}, Passage(place.published, stored)
    finally:
        server.stop()


@asynccontextmanager
async def kafka_of(kind: str, place: Place) -> AsyncIterator[tuple[dict[str, Any], Passage]]:
    kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from confluent_kafka.admin import AdminClient

    # The cluster is the one that the client library simulates; ``test_kafka.py`` has Apache's own server.
    admin = AdminClient({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1})
    (broker,) = admin.list_topics(timeout=30).brokers.values()
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    admin.list_topics("t", timeout=30)  # which creates it
    producer = kafka.Producer(servers)

    async def put(numbers: Sequence[int]) -> None:
        for number in numbers:
            producer.produce("t", b"%d" % number, b"%d" % number)
        assert await asyncio.to_thread(producer.flush, 30) == 0

    def read() -> list[int]:
        group = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        consumer = kafka.Consumer({**servers, **group, "enable.partition.eof": True})
        partitions = consumer.list_topics("t", timeout=30).topics["t"].partitions
        consumer.assign([kafka.TopicPartition("t", number, 0) for number in partitions])
        numbers, open_partitions = [], len(partitions)
        while open_partitions:
            for message in consumer.consume(10_000, 0.5):
                if message.error() is None:
                    numbers.append(int(message.value()))
                else:
                    open_partitions -= 1
        consumer.close()
        return numbers

    async def stored() -> list[int]:
        return await asyncio.to_thread(read)

    address = {"bootstrapServers": servers["bootstrap.servers"]}
    if kind == "source":
        yield {**address, "topics": ["t"], "batch": 150}, Passage(put, place.received)
    else:
        yield {**address, "topic": "t"}, Passage(place.published, stored)


ENDS: dict[tuple[str, str], Callable[[Place], Opened]] = {
    ("generator", "source"): generator_source,
    ("files", "source"): files_source,
    ("files", "sink"): files_sink,
    ("http", "source"): http_source,
    ("http", "sink"): http_sink,
    ("postgres", "sink"): postgres_sink,
    ("redis", "source"): lambda place: redis_of("source", place),
    ("redis", "sink"): lambda place: redis_of("sink", place),
    ("s3", "source"): lambda place: bucket_of("source", place),
    ("s3", "sink"): lambda place: bucket_of("sink", place),
    ("kafka", "source"): lambda place: kafka_of("source", place),
    ("kafka", "sink"): lambda place: kafka_of("sink", place),
}
ELSEWHERE = {("postgres", "source")}
"""Ends that have such a test in another file: see the module."""


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


def test_each_end_of_the_catalogue_is_killed_in_a_test() -> None:
    ends = {
        (known.name, kind)
        for known in CATALOGUE.values()
        for kind in ("source", "sink")
        if getattr(known, kind) is not None
    }
    assert ends == ENDS.keys() | ELSEWHERE


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "kind"), ENDS, ids=map("-".join, ENDS))
async def test_a_connector_keeps_its_guarantee_over_kills(
    client: pulsar.Client, instance: Instance, tmp_path: Path, name: str, kind: str
) -> None:
    namespace = f"public/killed-{uuid.uuid4().hex[:8]}"
    assert instance.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
    assert instance.rest("POST", f"/admin/v2/namespaces/{namespace}/deduplication", True)[0] == 204
    topic = f"persistent://{namespace}/numbers"
    once = getattr(CATALOGUE[name], kind).promise == "effectively once"
    async with ENDS[name, kind](Place(client, topic, tmp_path)) as (settings, passage):
        if kind == "source":
            details = function_details(f"killed-{name}", "", [], topic)
            details.componentType = FunctionDetails.ComponentType.SOURCE
            details.source.builtin = name
            details.source.configs = json.dumps(settings)
        else:
            details = function_details(f"killed-{name}", "", [topic])
            details.componentType = FunctionDetails.ComponentType.SINK
            details.sink.builtin = name
            details.sink.configs = json.dumps(settings)
        details.namespace = namespace.partition("/")[2]
        details.processingGuarantees = EFFECTIVELY_ONCE if once else ATLEAST_ONCE
        killed = KilledConnector(instance.url, tmp_path, details)
        numbers, stored = await killed.passed(passage)
    if once:
        assert Counter(stored) == Counter(numbers)
    else:
        assert set(stored) == set(numbers)
