"""Changes of a real PostgreSQL reach a topic once each while instances of the source and the server are killed."""

import asyncio
import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pulsar
import pytest

from engine.functions.definitions.functions_pb2 import (
    EFFECTIVELY_ONCE,
    FunctionDetails,
    FunctionMetaData,
)
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec
from engine.functions.runtime.processes import InstanceProcess
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.support.instance import Instance
from tests.support.instances.function_instances import function_details
from tests.support.instances.shared import SharedInstance
from tests.support.stores.postgresql import PostgreSql, programs, running_postgresql
from tests.support.waiting import until

pytestmark = [
    pytest.mark.skipif(programs() is None, reason="needs initdb and postgres"),
    pytest.mark.slow,
]
ROWS = 6000
KILLS_S = (0.0, 0.3, 0.1, 0.6, 0.2)
"""Seconds from the time at which an instance runs to its kill."""


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with running_postgresql("wal_level=logical") as postgresql:
        yield postgresql


async def _has_begun_or_ended(process: InstanceProcess, ending: asyncio.Task[object]) -> bool:
    with suppress(InstanceError):
        return ending.done() or (await process.status()).running
    return ending.done()


def values_of(client: pulsar.Client, topic: str) -> list[dict[str, object]]:
    """Return all values of a topic in its order."""
    values = []
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    with suppress(pulsar.Timeout):
        while True:
            values.append(json.loads(reader.read_next(2500).data()))
    reader.close()
    return values


async def test_each_change_is_stored_once_over_kills_of_instances_and_server(
    instance: Instance, client: pulsar.Client, server: PostgreSql, tmp_path: Path
) -> None:
    namespace = f"public/capture-{uuid.uuid4().hex[:8]}"
    assert instance.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
    assert instance.rest("POST", f"/admin/v2/namespaces/{namespace}/deduplication", True)[0] == 204
    topic = f"persistent://{namespace}/changes"
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    await connection.execute("CREATE TABLE orders (id int PRIMARY KEY, v text)")
    details = function_details("capture", "", [], topic)
    details.source.ClearField("inputSpecs")
    details.componentType = FunctionDetails.ComponentType.SOURCE
    details.source.builtin = "postgres"
    details.processingGuarantees = EFFECTIVELY_ONCE
    details.source.configs = json.dumps(
        {"url": server.url, "tables": ["orders"], "snapshot": "never", "batch": 200}
    )
    runtime = runtime_of("process", tmp_path / "environments")
    ends = 0

    async def started() -> InstanceProcess:
        nonlocal ends
        while True:
            metadata = FunctionMetaData(functionDetails=details)
            spec = InstanceSpec(metadata, 0, None, tmp_path / f"i{ends}", instance.url)
            process = await runtime.start(spec)
            assert isinstance(process, InstanceProcess)
            ending = asyncio.get_running_loop().create_task(process.wait())
            await until(partial(_has_begun_or_ended, process, ending))
            running = not ending.done()
            ending.cancel()
            if running:
                return process
            # The server has not noticed yet that the one before is gone, or is not there.
            ends += 1
            await process.stop(5)

    process = await started()  # which makes the slot
    written = 0
    for step, delay_s in enumerate(KILLS_S):
        for _ in range(ROWS // len(KILLS_S) // 100):
            first, written = written + 1, written + 100
            await connection.execute(
                f"INSERT INTO orders SELECT n, 'v' || n FROM generate_series({first}, {written}) n"
            )
        await asyncio.sleep(delay_s)  # time: each kill has a delay of its own
        os.kill(process.pid, signal.SIGKILL)
        await process.stop(5)
        if step == 2:
            await connection.close()
            server.kill()
            server.start()
            connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
        ends += 1
        process = await started()

    async def all_confirmed() -> bool:
        status = await process.status()
        assert status.running, status.error
        cursor = await connection.execute(
            "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots", [end]
        )
        return await cursor.fetchall() == [(True,)]

    cursor = await connection.execute("SELECT pg_current_wal_lsn()::text")
    ((end,),) = await cursor.fetchall()
    await connection.execute("INSERT INTO orders VALUES (0, 'last')")
    await until(all_confirmed, "the server forgets what is stored", bound_s=120)
    await process.stop(10)
    await connection.close()
    values = await asyncio.to_thread(values_of, client, topic)
    ids = [value["after"]["id"] for value in values]  # type: ignore[index]
    assert ids == [*range(1, ROWS + 1), 0]
