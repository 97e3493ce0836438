"""Instances of functions in processes, on real brokers, with official clients at both ends."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pulsar
import pytest

from engine.functions.definitions.configs import details_of, parse_config
from engine.functions.definitions.functions_pb2 import RetryDetails
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.processes import InstanceProcess
from tests.support.instance import Instance
from tests.support.instances.function_instances import Function, function_details, unique
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until

RECEIVE_MS = 20_000


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


@asynccontextmanager
async def running(
    function: Function, number: int = 0, **more: Any
) -> AsyncIterator[InstanceProcess]:
    started = await function.start(number, **more)
    try:
        yield started
    finally:
        await started.stop(10)


def publish(client: pulsar.Client, topic: str, *messages: bytes, **settings: Any) -> None:
    producer = client.create_producer(topic)
    for message in messages:
        producer.send(message, **settings)
    producer.close()


def received(client: pulsar.Client, topic: str, count: int) -> list[pulsar.Message]:
    consumer = client.subscribe(topic, "test", initial_position=pulsar.InitialPosition.Earliest)
    messages = [consumer.receive(RECEIVE_MS) for _ in range(count)]
    for message in messages:
        consumer.acknowledge(message)
    consumer.close()
    return messages


async def texts(client: pulsar.Client, topic: str, count: int) -> list[str]:
    messages = await asyncio.to_thread(received, client, topic, count)
    return [message.data().decode() for message in messages]


CONTEXT = """
from pulsar import Function

class All(Function):
    def process(self, input, context):
        context.get_logger().info("got %s", input)
        context.record_metric("seen", 2)
        context.publish(context.get_user_config_value("side"), f"side {input}",
                        message_conf={"partition_key": "k", "properties": {"p": "q"}})
        return "|".join(str(each) for each in (
            input, context.get_message_key(), context.get_ordering_key(), context.get_message_properties(),
            context.get_message_eventtime(), context.get_current_message_topic_name(), context.get_function_name(),
            context.get_function_tenant(), context.get_function_namespace(), context.get_function_id(),
            context.get_function_version(), context.get_instance_id(), context.get_user_config_map()["a"],
            context.get_user_config_value("absent"), context.get_secret("password"), context.get_secret("absent"),
            context.get_input_topics(), context.get_output_topic(), context.get_output_serde_class_name(),
            context.get_message_id().entry_id(), context.get_partition_key(),
        ))
"""


async def test_the_context_is_complete(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, out, side, logs = unique("in"), unique("out"), unique("side"), unique("log")
    details = function_details("complete", "users_function.All", [inside], out)
    details.userConfig = f'{{"a": 1, "side": "{side}"}}'
    details.secretsMap = '{"password": "p"}'
    details.logTopic = logs
    async with running(Function(instance.url, tmp_path, details, CONTEXT)) as started:
        settings = {
            "partition_key": "key",
            "ordering_key": "o",
            "properties": {"x": "y"},
            "event_timestamp": 7,
        }
        await asyncio.to_thread(publish, client, inside, b"12", **settings)
        (message,) = await asyncio.to_thread(received, client, out, 1)
        assert message.data().decode().split("|") == [
            *("12", "key", "b'o'", "{'x': 'y'}", "7", inside, "complete", "public", "default"),
            *("public/default/complete", "0", "0", "1", "None", "p", "None", f"['{inside}']", out),
            *("serde.IdentitySerDe", "0", "key"),
        ]
        assert message.properties()["__pfn_input_topic__"] == inside
        (aside,) = await asyncio.to_thread(received, client, side, 1)
        assert (aside.data(), aside.partition_key(), aside.properties()) == (
            b"side 12",
            "k",
            {"p": "q"},
        )
        (line,) = await texts(client, logs, 1)
        assert line.endswith("[INFO]: got 12")
        status, stats = await started.status(), await started.stats()
        assert (status.running, status.received, status.processed) == (True, 1, 1)
        assert stats.user_metrics == {"user_metric_seen_count": 1, "user_metric_seen_sum": 2.0}
        assert 'pulsar_function_received_total{tenant="public"' in await started.metrics()
        assert "got 12" in await started.log_tail(10)


async def test_an_exception_is_shown_with_its_trace_and_the_dead_letter_has_the_message(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    code = (
        "def process(input):\n"
        "    if input == 'bad': raise ValueError('no good')\n"
        "    return input\n"
    )
    inside, out, dead = unique("in"), unique("out"), unique("dead")
    details = function_details("failing", "users_function", [inside], out)
    details.retryDetails.CopyFrom(RetryDetails(maxMessageRetries=2, deadLetterTopic=dead))
    details.source.negativeAckRedeliveryDelayMs = 100
    async with running(Function(instance.url, tmp_path, details, code)) as started:
        await asyncio.to_thread(publish, client, inside, b"a", b"bad", b"b", properties={"x": "y"})
        assert sorted(await texts(client, out, 2)) == ["a", "b"]
        (letter,) = await asyncio.to_thread(received, client, dead, 1)
        assert letter.data() == b"bad"
        assert letter.properties()["x"] == "y"
        assert letter.properties()["EXCEPTION"] == "ValueError: no good"
        status = await started.status()
        assert status.user_exceptions == 3
        trace = status.latest_user_exceptions[0].text
        assert "line 2, in process" in trace
        assert trace.strip().endswith("ValueError: no good")


async def test_a_failed_message_of_an_ordered_function_holds_up_those_behind_it(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    code = (
        "failed = []\n"
        "def process(input):\n"
        "    if input == 2 and len(failed) < 3:\n"
        "        failed.append(1)\n"
        "        raise RuntimeError('later')\n"
        "    return input\n"
    )
    inside, out = unique("in"), unique("out")
    details = function_details("ordered", "users_function", [inside], out)
    details.retainOrdering = True
    async with running(Function(instance.url, tmp_path, details, code)) as started:
        await asyncio.to_thread(publish, client, inside, *(b"%d" % number for number in range(6)))
        assert await texts(client, out, 6) == ["0", "1", "2", "3", "4", "5"]
        assert (await started.status()).user_exceptions == 3


async def test_state_is_shared_by_instances_and_survives_them(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    code = (
        "from pulsar import Function\n"
        "class Count(Function):\n"
        "    def process(self, input, context):\n"
        "        context.incr_counter('n', 1)\n"
        "        context.put_state('last-' + context.get_instance_id(), str(input).encode())\n"
        "        return 'x'\n"
    )
    inside, out = unique("in"), unique("out")
    details = function_details(f"stateful-{inside[-8:]}", "users_function.Count", [inside], out)
    details.parallelism = 2
    function = Function(instance.url, tmp_path, details, code)
    async with running(function, 0) as first, running(function, 1) as second:
        await asyncio.to_thread(
            publish, client, inside, *(b"m%d" % number for number in range(200))
        )
        await texts(client, out, 200)

        async def agreed() -> bool:
            entries = [await part.state_get("n") for part in (first, second)]
            return all(entry is not None and entry["number"] == 200 for entry in entries)

        await until(agreed, "both see the sum")
        await first.state_put("n", None, 1000)
        await first.state_put("word", b"w", None)
        assert await first.state_get("absent") is None
    async with running(function, 0) as again:
        entry = await again.state_get("n")
        word = await again.state_get("word")
        assert entry is not None
        assert entry["number"] == 1000
        assert word == {"value": b"w", "number": None, "version": 1}
        await asyncio.to_thread(publish, client, inside, b"more")

        async def counted() -> bool:
            number = await again.state_get("n")
            return number is not None and number["number"] == 1001

        await until(counted, "the next increment")


async def test_the_topic_of_the_state_is_let_go_behind_a_copy(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    code = (
        "from pulsar import Function\n"
        "class Many(Function):\n"
        "    def process(self, input, context):\n"
        "        context.incr_counter('n', 1)\n"
        "        for key in range(250):\n"
        "            context.put_state(f'k{key}', f'{input}-{key}')\n"
    )
    inside = unique("in")
    details = function_details(f"copied-{inside[-8:]}", "users_function.Many", [inside])
    function = Function(instance.url, tmp_path, details, code)
    topic = f"/admin/v2/persistent/public/default/__function_state_{details.name}"

    def kept() -> int:
        _, stats = instance.rest("GET", f"{topic}/stats?getPreciseBacklog=true")
        return int(stats["subscriptions"]["__function_state"]["msgBacklog"])

    async with running(function) as started:
        producer = client.create_producer(inside)

        async def counted(count: int) -> bool:
            entry = await started.state_get("n")
            return entry is not None and entry["number"] == count

        for number in range(60):
            await asyncio.to_thread(producer.send, b"%d" % number)
            # Changes of one register in one slice are one message.
            await until(partial(counted, number + 1), "the message")
        await until(lambda: asyncio.to_thread(lambda: 0 < kept() < 8000), "the copy")
        before = await started.state_get("k0")
        assert before is not None
    (tmp_path / "other").mkdir()
    async with running(Function(instance.url, tmp_path / "other", details, code)) as again:
        entries = [await again.state_get(key) for key in ("k0", "k249", "n")]
        assert [entry and entry["value"] for entry in entries] == [b"59-0", b"59-249", None]
        assert entries[2] is not None
        assert entries[2]["number"] == 60
        assert entries[0] == before


async def test_windows_get_lists_and_acknowledge_what_leaves(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, out = unique("in"), unique("out")
    details = function_details("windowed", "users_function", [inside], out)
    details.userConfig = (
        '{"__WINDOWCONFIGS__": {"windowLengthCount": 3, "slidingIntervalCount": 2}}'
    )
    function = Function(
        instance.url, tmp_path, details, "def process(inputs):\n    return sum(inputs)\n"
    )
    async with running(function):
        await asyncio.to_thread(
            publish, client, inside, *(b"%d" % number for number in range(1, 7))
        )
        assert await texts(client, out, 3) == ["3", "9", "15"]
    async with running(function):
        # Of the last window 6 may be in the next: it was not acknowledged.
        await asyncio.to_thread(publish, client, inside, b"10")
        assert await texts(client, out, 1) == ["16"]


EVENTS = """
class Time:
    def extract_timestamp(self, input):
        return int(input.split(b":")[0])

def process(inputs):
    return b" ".join(inputs)
"""


async def test_windows_by_event_time_continue_after_a_kill_and_late_data_is_kept(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, out, late = unique("in"), unique("out"), unique("late")
    window = {
        "windowLengthDurationMs": 100,
        "maxLagMs": 50,
        "watermarkEmitIntervalMs": 50,
        "timestampExtractorClassName": "users_function.Time",
        "lateDataTopic": late,
    }
    config = {
        "tenant": "public",
        "namespace": "default",
        "name": f"events-{inside[-8:]}",
        "className": "users_function",
        "runtime": "PYTHON",
        "inputSpecs": {inside: {"serdeClassName": "users_function.Raw"}},
        "output": out,
        "outputSerdeClassName": "users_function.Raw",
        "subscriptionPosition": "Earliest",
        "windowConfig": window,
    }
    # As by REST: the record of a function with windows says that nothing acknowledges but the windows.
    stored = details_of("function", parse_config("function", config))
    raw = "class Raw:\n    def deserialize(self, data):\n        return data\n"
    raw += "    def serialize(self, value):\n        return value\n"
    function = Function(instance.url, tmp_path, stored, EVENTS + raw)
    subscription = f"public/default/{config['name']}"

    def backlog() -> int:
        path = inside.replace("persistent://", "/admin/v2/persistent/")
        _, stats = instance.rest("GET", f"{path}/stats?getPreciseBacklog=true")
        return int(stats["subscriptions"][subscription]["msgBacklog"])

    async with running(function) as first:
        # Two windows: up to 100 and up to 200; the watermark is 50 behind the latest.
        for data in (b"60:b", b"30:a", b"150:c", b"170:d"):
            await asyncio.to_thread(publish, client, inside, data)
        assert await texts(client, out, 1) == ["30:a 60:b"]
        # What the first window had is acknowledged, the second one's is not.
        await until(lambda: asyncio.to_thread(lambda: backlog() == 2), "the first window")
        await asyncio.to_thread(publish, client, inside, b"40:late")
        letters = await asyncio.to_thread(received, client, late, 1)
        assert letters[0].data() == b"40:late"
        await until(lambda: asyncio.to_thread(lambda: backlog() == 2), "the late message")
        os.kill(first.pid, signal.SIGKILL)
        await first.wait()
    async with running(function):
        await asyncio.to_thread(publish, client, inside, b"260:e")
        assert await texts(client, out, 1) == ["150:c 170:d"]
        await until(lambda: asyncio.to_thread(lambda: backlog() == 1), "the second window")


async def test_a_pattern_finds_its_topics(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    base, out = unique("many"), unique("out")
    await asyncio.to_thread(publish, client, f"{base}-a", b"a")
    await asyncio.to_thread(publish, client, f"{base}-b", b"b")
    details = function_details("pattern", "users_function", [], out)
    details.source.inputSpecs[f"{base}-.*"].isRegexPattern = True
    async with running(
        Function(instance.url, tmp_path, details, "def process(x):\n    return x\n")
    ):
        assert sorted(await texts(client, out, 2)) == ["a", "b"]


async def test_manual_acknowledgement_leaves_the_rest_unacknowledged(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    code = (
        "from pulsar import Function\n"
        "class Ack(Function):\n"
        "    def process(self, input, context):\n"
        "        if input % 2:\n"
        "            context.ack(context.get_message_id(), context.get_current_message_topic_name())\n"
        "        return str(input)\n"
    )
    inside, out = unique("in"), unique("out")
    details = function_details("manual", "users_function.Ack", [inside], out)
    details.processingGuarantees = 3  # type: ignore[assignment]  # MANUAL
    function = Function(instance.url, tmp_path, details, code)
    async with running(function):
        await asyncio.to_thread(publish, client, inside, *(b"%d" % number for number in range(4)))
        assert sorted(await texts(client, out, 4)) == ["0", "1", "2", "3"]
    async with running(function):
        assert sorted(await texts(client, out, 2)) == ["0", "2"]


async def test_a_trigger_returns_the_output_or_the_exception(
    instance: Instance, tmp_path: Path
) -> None:
    inside, out = unique("in"), unique("out")
    code = "def process(x):\n    return 10 / x\n"
    details = function_details("triggered", "users_function", [inside], out)
    async with running(Function(instance.url, tmp_path, details, code)) as started:
        assert await started.trigger("", b"4") == b"2.5"
        with pytest.raises(InstanceError, match="ZeroDivisionError"):
            await started.trigger(inside, b"0")
        with pytest.raises(InstanceError, match="unidentified topic"):
            await started.trigger(out, b"4")


async def end_of(function: Function, **more: Any) -> str:
    started = await function.start(**more)
    reason = await asyncio.wait_for(started.wait(), 60)
    await started.stop(1)
    assert not reason.expected
    return reason.text


async def test_code_that_cannot_be_loaded_is_the_reason_of_the_end(
    instance: Instance, tmp_path: Path
) -> None:
    details = function_details("broken", "users_function.Missing", [unique("in")])
    assert (
        await end_of(Function(instance.url, tmp_path, details, ""))
        == "users_function has no Missing"
    )
    details = function_details("broken", "users_function", [unique("in")])
    assert "SyntaxError" in await end_of(
        Function(instance.url, tmp_path, details, "def process(:\n")
    )


HIDDEN = """
import os, resource, sys
def process(x):
    return "|".join([",".join(sorted(os.environ)), str(sys.flags.isolated), os.getcwd(),
                     str(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20), str(os.getpgrp() == os.getpid())])
"""


async def test_the_worker_is_hidden_from_the_function(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_TOKEN", "secret")
    details = function_details("hidden", "users_function", [unique("in")], unique("out"))
    details.resources.ram = 64 << 20
    async with running(
        Function(instance.url, tmp_path, details, HIDDEN), environment={"GIVEN": "1"}
    ) as started:
        shown = (await started.trigger("", b"x")).decode().split("|")
        assert shown[0].split(",") == ["GIVEN", "HOME", "LANG", "PATH", "TMPDIR", "TZ"]
        assert shown[1:] == ["1", str(tmp_path / "instance-0"), "320", "True"]
    assert not (tmp_path / "instance-0").exists()


async def test_memory_above_the_functions_is_refused_to_it(
    instance: Instance, tmp_path: Path
) -> None:
    details = function_details("greedy", "users_function", [unique("in")], unique("out"))
    details.resources.ram = 64 << 20
    code = "def process(x):\n    return len(bytearray(500 << 20))\n"
    async with running(Function(instance.url, tmp_path, details, code)) as started:
        with pytest.raises(InstanceError, match="MemoryError"):
            await started.trigger("", b"x")
        assert (await started.status()).running
