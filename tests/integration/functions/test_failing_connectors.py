"""Messages that a sink cannot write are dead letters; a lost other end ends the instance with a reason."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pulsar
import pytest

from engine.functions.definitions.functions_pb2 import (
    ATMOST_ONCE,
    ConsumerSpec,
    FunctionDetails,
    FunctionMetaData,
    RetryDetails,
)
from engine.functions.runtime.ports import InstanceSpec, RunningInstance
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.support.instance import Instance
from tests.support.instances.function_instances import function_details, is_settled, unique
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until

CODE = """
import os
from engine.functions.connectors.spi import LostEndError, Record, Sink, Source

class Lines(Sink):
    async def open(self, settings, context):
        self.path = settings["path"]

    async def write(self, records):
        for record in records:
            if record.payload == b"bad":
                record.fail(ValueError("bad one"))
                continue
            if record.payload == b"gone":
                raise LostEndError("the other end is gone")
            with open(self.path, "ab") as file:
                file.write(record.payload + b"\\n")
            if record.payload == b"kill":
                os.kill(os.getpid(), 9)
            record.ack()

class Numbers(Source):
    async def open(self, settings, context):
        self.sent = False

    async def read(self):
        import asyncio
        if self.sent:
            await asyncio.Event().wait()
        self.sent = True
        return [Record(b"1"), Record(b"2", topic="persistent://no/such/topic"), Record(b"3")]
"""


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


def sink_details(inside: str) -> FunctionDetails:
    details = function_details(f"failing-{uuid.uuid4().hex[:8]}", "", [inside])
    details.componentType = FunctionDetails.ComponentType.SINK
    details.source.negativeAckRedeliveryDelayMs = 200
    details.sink.className = "failing_connector.Lines"
    return details


async def started(instance: Instance, folder: Path, details: FunctionDetails) -> RunningInstance:
    package = folder / "failing_connector.py"
    package.write_text(CODE)
    metadata = FunctionMetaData(functionDetails=details)
    spec = InstanceSpec(metadata, 0, package, folder / uuid.uuid4().hex, instance.url)
    running = await runtime_of("process", folder / "environments").start(spec)
    await until(partial(is_settled, running), "the connector", bound_s=120)
    return running


def publish(client: pulsar.Client, topic: str, *payloads: bytes, batched: bool = False) -> None:
    producer = client.create_producer(
        topic, batching_enabled=batched, batching_max_publish_delay_ms=500
    )
    for payload in payloads:
        producer.send_async(payload, lambda result, message_id: None)
    producer.flush()
    producer.close()


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().split() if path.exists() else []


def letters_of(client: pulsar.Client, topic: str, count: int) -> list[pulsar.Message]:
    consumer = client.subscribe(topic, "test", initial_position=pulsar.InitialPosition.Earliest)
    letters = [consumer.receive(60_000) for _ in range(count)]
    consumer.close()
    return letters


def backlog_of(instance: Instance, topic: str, details: FunctionDetails) -> int:
    path = topic.removeprefix("persistent://")
    _, stats = instance.rest("GET", f"/admin/v2/persistent/{path}/stats?getPreciseBacklog=true")
    name = f"{details.tenant}/{details.namespace}/{details.name}"
    return int(stats["subscriptions"][name]["msgBacklog"])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_message_that_fails_too_often_is_a_dead_letter_and_no_other_is(
    client: pulsar.Client, instance: Instance, tmp_path: Path, batched: bool, ordered: bool
) -> None:
    inside, dead, path = unique("in"), unique("dead"), tmp_path / "lines"
    details = sink_details(inside)
    details.retainOrdering = ordered
    details.retryDetails.CopyFrom(RetryDetails(maxMessageRetries=2, deadLetterTopic=dead))
    details.sink.configs = json.dumps({"path": str(path)})
    payloads = [b"1", b"bad", b"2", b"3"]
    await asyncio.to_thread(publish, client, inside, *payloads, batched=batched)
    running = await started(instance, tmp_path, details)
    (letter,) = await asyncio.to_thread(letters_of, client, dead, 1)
    assert letter.data() == b"bad"
    assert letter.properties()["REAL_TOPIC"] == inside
    assert letter.properties()["EXCEPTION"] == "ValueError: bad one"
    await until(lambda: backlog_of(instance, inside, details) == 0, "all acknowledged")
    assert (await running.status()).sink_exceptions == 3
    await running.stop(5)
    assert sorted(lines_of(path)) == [b"1", b"2", b"3"]


async def test_a_message_that_the_schema_cannot_read_fails_alone(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, dead, path = unique("in"), unique("dead"), tmp_path / "lines"
    details = sink_details(inside)
    details.source.inputSpecs[inside].CopyFrom(ConsumerSpec(schemaType="json"))
    details.retryDetails.CopyFrom(RetryDetails(maxMessageRetries=0, deadLetterTopic=dead))
    details.sink.configs = json.dumps({"path": str(path)})
    await asyncio.to_thread(publish, client, inside, b'{"a":1}', b"\xff{", b'{"a":2}')
    running = await started(instance, tmp_path, details)
    if (await running.status()).error:
        pytest.fail((await running.status()).error)
    (letter,) = await asyncio.to_thread(letters_of, client, dead, 1)
    assert letter.data() == b"\xff{"
    await until(lambda: len(lines_of(path)) == 2, "the others")
    await running.stop(5)


async def test_a_lost_end_ends_the_instance_and_no_message_counts_as_failed(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, dead, path = unique("in"), unique("dead"), tmp_path / "lines"
    details = sink_details(inside)
    details.retryDetails.CopyFrom(RetryDetails(maxMessageRetries=0, deadLetterTopic=dead))
    details.sink.configs = json.dumps({"path": str(path)})
    await asyncio.to_thread(publish, client, inside, b"1", b"gone", b"2")
    for _ in range(3):
        running = await started(instance, tmp_path, details)
        reason = await asyncio.wait_for(running.wait(), 60)
        assert "LostEndError: the other end is gone" in reason.text
        await running.stop(5)
    # Nothing behind it was written or given up: all of it is delivered again.
    assert set(lines_of(path)) == {b"1"}
    assert backlog_of(instance, inside, details) >= 2
    _, topics = instance.rest("GET", "/admin/v2/persistent/public/default")
    assert dead not in topics


async def test_at_most_once_nothing_is_written_twice_over_a_kill(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, path = unique("in"), tmp_path / "lines"
    details = sink_details(inside)
    details.processingGuarantees = ATMOST_ONCE
    details.sink.configs = json.dumps({"path": str(path)})
    await asyncio.to_thread(publish, client, inside, b"1", b"bad", b"kill")
    for _ in range(2):
        running = await started(instance, tmp_path, details)
        if not lines_of(path).count(b"kill"):
            await running.wait()
        await asyncio.to_thread(publish, client, inside, b"2")
        await until(lambda: b"kill" in lines_of(path), "the kill")
        await running.stop(5)
    running = await started(instance, tmp_path, details)
    await until(lambda: backlog_of(instance, inside, details) == 0, "all acknowledged")
    await running.stop(5)
    lines = lines_of(path)
    assert lines.count(b"1") <= 1
    assert lines.count(b"kill") == 1


async def test_a_record_that_cannot_be_stored_ends_its_source(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    out = unique("out")
    details = function_details(f"failing-{uuid.uuid4().hex[:8]}", "", [], out)
    details.componentType = FunctionDetails.ComponentType.SOURCE
    details.source.className = "failing_connector.Numbers"
    running = await started(instance, tmp_path, details)
    reason = await asyncio.wait_for(running.wait(), 60)
    await running.stop(5)
    assert "a record could not be stored" in reason.text
