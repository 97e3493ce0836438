"""Rows per second and CPU per row of built-in connectors, each between one topic and a server of this machine.

    python -m tests.bench.functions.connectors [--rows N] [--only NAME …]

The CPU is that of the connector's instance alone. Sinks find their messages in the topic; a row counts once it is
acknowledged. Servers that this machine lacks are left out and named.
"""

import argparse
import asyncio
import json
import logging
import os
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pulsar

from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec
from engine.functions.runtime.processes import InstanceProcess
from engine.functions.runtime.runtime_kinds import runtime_of
from engine.net.http import HttpServer, Request, Response
from engine.net.network import LoopNetwork
from tests.bench.contenders import cpu_s
from tests.support.functions.redis_process import redis_program, running_redis
from tests.support.instance import running_instance
from tests.support.instances.function_instances import function_details
from tests.support.stores.postgresql import programs, running_postgresql

VALUE = json.dumps({"id": 123456, "name": "x" * 40, "total": 17.5, "open": True}).encode()
POLL_S = 0.05
BOUND_S = 300.0
Settings = dict[str, Any]


@contextmanager
def postgres(folder: Path, **more: Any) -> Iterator[Settings]:
    if programs() is None:
        raise FileNotFoundError("initdb and postgres")
    import psycopg

    with running_postgresql() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE columns (id int, name text, total float8, open bool, mid text UNIQUE)"
            )
        yield {"url": server.url, **more}


@contextmanager
def files(folder: Path, **more: Any) -> Iterator[Settings]:
    yield {"folder": str(folder / uuid.uuid4().hex), **more}


@contextmanager
def redis(folder: Path, **more: Any) -> Iterator[Settings]:
    if redis_program() is None:
        raise FileNotFoundError("redis-server")
    with running_redis() as server:
        yield {"url": server.url, **more}


@contextmanager
def bucket(folder: Path, **more: Any) -> Iterator[Settings]:
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise FileNotFoundError("moto") from error
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line of each request
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bench", method="PUT")).close()
    login = {"accessKeyId": "test", "secretAccessKey": "test"}
    try:
        yield {"bucket": "bench", "endpoint": endpoint, **login, **more}
    finally:
        server.stop()


@contextmanager
def receiver(folder: Path, **more: Any) -> Iterator[Settings]:
    """Serve requests on the event loop of the bench, which has nothing else to do meanwhile."""

    async def handle(request: Request) -> Response:
        return Response(204)

    yield {"server": HttpServer(LoopNetwork(), handle, connections_max=200), **more}


SINKS: dict[str, tuple[str, Callable[..., AbstractContextManager[Settings]], Settings]] = {
    "postgres, a row of each message": ("postgres", postgres, {"table": "t"}),
    "postgres, columns": (
        "postgres",
        postgres,
        {"table": "columns", "mode": "insert", "idColumn": "mid"},
    ),
    "files, lines": ("files", files, {"format": "lines"}),
    "files, JSON lines": ("files", files, {}),
    "redis, list": ("redis", redis, {"mode": "list", "name": "l"}),
    "redis, stream": ("redis", redis, {"mode": "stream", "name": "s"}),
    "s3, JSON lines": ("s3", bucket, {}),
    "s3, Parquet": ("s3", bucket, {"format": "parquet"}),
    "s3, Parquet of columns": ("s3", bucket, {"format": "parquet-columns"}),
    "http, in order": ("http", receiver, {}),
    "http, 16 at a time": ("http", receiver, {"concurrency": 16}),
}
GENERATOR = "generator to topic"


class ConnectorBench:
    """Connectors of one instance of ours."""

    def __init__(self, client: pulsar.Client, url: str, work: Path) -> None:
        self._client, self._url, self._work = client, url, work
        self._runtime = runtime_of("process", work / "environments")

    def _publish(self, topic: str, rows: int) -> None:
        producer = self._client.create_producer(
            topic, block_if_queue_full=True, batching_max_publish_delay_ms=5
        )
        for number in range(rows):
            producer.send_async(VALUE, lambda result, message_id: None, partition_key=str(number))
        producer.flush()
        producer.close()

    async def generated(self, rows: int) -> tuple[float, float]:
        """Return rows per second of the generator, and CPU microseconds of each."""
        details = self._details("generator", FunctionDetails.ComponentType.SOURCE)
        details.source.builtin = "generator"
        details.source.configs = json.dumps({"rate": 1_000_000, "count": rows})
        return await self._measured(details, rows)

    async def written(self, sink: str, rows: int) -> tuple[float, float]:
        """Return rows per second of a sink, and CPU microseconds of each. Raises FileNotFoundError for a server that
        is missing."""
        name, server, more = SINKS[sink]
        details = self._details(name, FunctionDetails.ComponentType.SINK)
        with server(self._work, **more) as settings:
            receiving = settings.pop("server", None)
            if receiving is not None:
                port = await receiving.listen("127.0.0.1", 0)
                settings["url"] = f"http://127.0.0.1:{port}/"
            elif name in ("files", "s3"):
                settings["maxSeconds"] = 1.0
            details.sink.builtin = name
            details.sink.configs = json.dumps(settings)
            (topic,) = details.source.inputSpecs
            await asyncio.to_thread(self._publish, topic, rows)
            try:
                return await self._measured(details, rows)
            finally:
                if receiving is not None:
                    await receiving.close()

    def _details(self, name: str, kind: FunctionDetails.ComponentType) -> FunctionDetails:
        topic = f"persistent://public/default/bench-{uuid.uuid4().hex[:8]}"
        is_source = kind == FunctionDetails.ComponentType.SOURCE
        inputs, output = ([], topic) if is_source else ([topic], "")
        details = function_details(f"bench-{uuid.uuid4().hex[:8]}", "", inputs, output)
        details.componentType = kind
        return details

    async def _measured(self, details: FunctionDetails, rows: int) -> tuple[float, float]:
        folder = self._work / uuid.uuid4().hex
        spec = InstanceSpec(FunctionMetaData(functionDetails=details), 0, None, folder, self._url)
        process = await self._runtime.start(spec)
        assert isinstance(process, InstanceProcess)
        try:
            first, began_s, began_cpu_s = await self._when(process, 1)
            last, ended_s, ended_cpu_s = await self._when(process, rows)
        finally:
            await process.stop(5)
        count = max(1, last - first)
        return count / (ended_s - began_s), (ended_cpu_s - began_cpu_s) / count * 1e6

    async def _when(self, process: InstanceProcess, rows: int) -> tuple[int, float, float]:
        """Return how many rows there are once there are ``rows``, the time and the CPU that were used then. The first
        call returns before any, when the instance runs."""
        ends_at_s = time.monotonic() + BOUND_S
        while time.monotonic() < ends_at_s:
            try:
                status = await process.status()
            except InstanceError:
                await asyncio.sleep(POLL_S)
                continue
            if status.error:
                raise RuntimeError(status.error)
            if status.written >= rows or (rows == 1 and status.running):
                return status.written, time.monotonic(), cpu_s([process.pid])
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"{rows} rows after {BOUND_S:g} s")


async def measured(client: pulsar.Client, url: str, work: Path, options: Any) -> None:
    """Print a line of each connector."""
    bench = ConnectorBench(client, url, work)
    for name in (GENERATOR, *SINKS):
        if options.only and not any(word in name for word in options.only):
            continue
        rows = options.rows // 10 if name.startswith("http") else options.rows
        load = os.getloadavg()[0]
        try:
            rate, cpu = await (
                bench.generated(rows) if name == GENERATOR else bench.written(name, rows)
            )
        except FileNotFoundError as error:
            print(f"{name:32}: not measured, {error} is missing here", flush=True)
            continue
        print(f"{name:32}: {rate:8.0f} rows/s {cpu:7.1f} us CPU each, load {load:.0f}", flush=True)


def main() -> None:
    """Measure all connectors on an instance that is made for it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--only", nargs="*", help="words of the connectors to measure")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_instance(Path(folder) / "instance") as instance,
    ):
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(instance.url, logger=logger)
        asyncio.run(measured(client, instance.url, Path(folder), options))
        client.close()


if __name__ == "__main__":
    main()
