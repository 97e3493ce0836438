"""Instances killed at every step: effectively-once results are each input's once, at-least-once loses none."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pulsar
import pytest

from engine.functions.instance.feed import AT_MOST_ONCE_QUEUE
from engine.functions.runtime.processes import InstanceProcess
from tests.support.instance import Instance
from tests.support.instances.function_instances import Function, function_details
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until

MESSAGES = 1200
KILLS = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.025, 0.04)
"""Seconds from a call of the user's code to the kill: before its result is sent, before it is stored, between that and
the acknowledgement, and behind it."""
CODE = f"""
import os, signal, threading, time
FOLDER, DELAYS = {{folder!r}}, {KILLS!r}
planned = []

def killed_sometimes(x):
    time.sleep(0.0003)
    # Each delay is used once, by whichever instance reaches such a message first.
    if x % 20 == 7 and not planned:
        for index, delay in enumerate(DELAYS):
            try:
                os.close(os.open(os.path.join(FOLDER, str(index)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            planned.append(delay)
            kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
            threading.Timer(delay, kill).start() if delay else kill()
            break

def process(x):
    killed_sometimes(x)
    return x

class Count:
    def process(self, x, context):
        context.incr_counter("n", 1)
        context.incr_counter("sum", x)
        killed_sometimes(x)
        value = int(context.get_state("value") or b"0") + 1
        context.put_state("value", str(value))
        context.put_state("last of " + context.get_current_message_topic_name(), str(x))
        return str(x) + " " + str(context.get_counter("n")) + " " + str(value)
"""
KILLS_MIN = len(KILLS) - 2
"""Kills that must have happened: the last delays may be over after the last message."""


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


@pytest.fixture
def namespace(instance: Instance) -> str:
    name = f"public/once-{uuid.uuid4().hex[:8]}"
    assert instance.rest("PUT", f"/admin/v2/namespaces/{name}")[0] == 204
    assert instance.rest("POST", f"/admin/v2/namespaces/{name}/deduplication", True)[0] == 204
    return name


def publish_all(client: pulsar.Client, topic: str, messages: int, *, batches: bool) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=batches,
        batching_max_publish_delay_ms=5,
        block_if_queue_full=True,
    )
    for number in range(messages):
        producer.send_async(
            b"%d" % number, lambda result, message_id: None, partition_key=str(number)
        )
    producer.flush()
    producer.close()


def all_of(client: pulsar.Client, topic: str) -> Counter[int]:
    """Return how often each number is in a topic."""
    counts: Counter[int] = Counter()
    consumer = client.subscribe(
        topic, uuid.uuid4().hex, initial_position=pulsar.InitialPosition.Earliest
    )
    with suppress(pulsar.Timeout):
        while True:
            counts[int(consumer.receive(2500).data())] += 1
    consumer.close()
    return counts


async def kept_running(function: Function, number: int, ends: list[str]) -> None:
    """Start an instance again whenever it has ended."""
    started: InstanceProcess | None = None
    try:
        while True:
            started = await function.start(number)
            reason = await started.wait()
            ends.append(reason.text)
    finally:
        if started is not None:
            await started.stop(5)


async def processed(
    client: pulsar.Client,
    instance: Instance,
    function: Function,
    topic: str,
    instances: int,
    *,
    batches: bool,
    messages: int = MESSAGES,
) -> None:
    """Publish all messages while instances run and are killed; return when all inputs are acknowledged."""
    ends: list[str] = []
    watchers = [
        asyncio.get_running_loop().create_task(kept_running(function, number, ends))
        for number in range(instances)
    ]
    inside = topic.removeprefix("persistent://")

    def backlog() -> int:
        kind = "partitioned-stats" if instances > 1 else "stats"
        status, stats = instance.rest(
            "GET", f"/admin/v2/persistent/{inside}/{kind}?getPreciseBacklog=true"
        )
        assert status == 200
        subscription = stats["subscriptions"].get(function.details.source.subscriptionName)
        return -1 if subscription is None else int(subscription["msgBacklog"])

    async def finished() -> bool:
        return len(ends) >= KILLS_MIN and await asyncio.to_thread(backlog) == 0

    try:
        await asyncio.to_thread(publish_all, client, topic, messages, batches=batches)
        await until(finished, lambda: f"all of it, after {len(ends)} ends: {watchers}", bound_s=100)
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


def function_of(
    instance: Instance, folder: Path, namespace: str, guarantee: int, inside: str, out: str
) -> Function:
    details = function_details(f"once-{namespace[-8:]}", "users_function", [inside], out)
    details.source.subscriptionName = "function"
    details.processingGuarantees = guarantee  # type: ignore[assignment]
    (folder / "kills").mkdir()
    return Function(instance.url, folder, details, CODE.format(folder=str(folder / "kills")))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("batches", [True, False])
async def test_effectively_once_results_are_each_input_once(
    client: pulsar.Client, instance: Instance, namespace: str, tmp_path: Path, batches: bool
) -> None:
    inside, out = f"persistent://{namespace}/in", f"persistent://{namespace}/out"
    function = function_of(instance, tmp_path, namespace, 2, inside, out)
    await processed(client, instance, function, inside, 1, batches=batches)
    assert await asyncio.to_thread(all_of, client, out) == Counter(range(MESSAGES))


@pytest.mark.timeout(240)
async def test_effectively_once_holds_for_several_instances(
    client: pulsar.Client, instance: Instance, namespace: str, tmp_path: Path
) -> None:
    inside, out = f"persistent://{namespace}/in", f"persistent://{namespace}/out"
    for topic, partitions in (("in", 3), ("out", 2)):
        path = f"/admin/v2/persistent/{namespace}/{topic}/partitions"
        assert instance.rest("PUT", path, partitions)[0] == 204
    function = function_of(instance, tmp_path, namespace, 2, inside, out)
    function.details.parallelism = 2
    await processed(client, instance, function, inside, 2, batches=True)
    assert await asyncio.to_thread(all_of, client, out) == Counter(range(MESSAGES))


def lines_of(client: pulsar.Client, topic: str, count: int) -> list[list[int]]:
    """Return the numbers of each result, at least ``count`` results."""
    lines: list[list[int]] = []
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while len(lines) < count or reader.has_message_available():
        lines.append([int(word) for word in reader.read_next(30_000).data().split()])
    reader.close()
    return lines


async def counters_of(function: Function) -> list[int]:
    """Return the counters of a stateful function and its value, as a new instance knows them."""
    started = await function.start(0)
    try:
        entries = [await started.state_get(key) for key in ("n", "sum", "value")]
    finally:
        await started.stop(10)
    numbers = []
    for entry in entries:
        assert entry is not None
        numbers.append(int(entry["value"] or entry["number"]))
    return numbers


@pytest.mark.timeout(240)
@pytest.mark.parametrize("batches", [True, False])
async def test_effectively_once_state_counts_each_input_once(
    client: pulsar.Client, instance: Instance, namespace: str, tmp_path: Path, batches: bool
) -> None:
    inside, out = f"persistent://{namespace}/in", f"persistent://{namespace}/out"
    function = function_of(instance, tmp_path, namespace, 2, inside, out)
    function.details.className = "users_function.Count"
    await processed(client, instance, function, inside, 1, batches=batches)
    # Not only the state counts each input once: each result was made of the state before it.
    lines = await asyncio.to_thread(lines_of, client, out, MESSAGES)
    assert lines == [[number, number + 1, number + 1] for number in range(MESSAGES)]
    total = sum(range(MESSAGES))
    assert await counters_of(function) == [MESSAGES, total, MESSAGES]


@pytest.mark.timeout(240)
async def test_effectively_once_counters_hold_for_several_instances_and_no_output(
    client: pulsar.Client, instance: Instance, namespace: str, tmp_path: Path
) -> None:
    inside = f"persistent://{namespace}/in"
    path = f"/admin/v2/persistent/{namespace}/in/partitions"
    assert instance.rest("PUT", path, 3)[0] == 204
    function = function_of(instance, tmp_path, namespace, 2, inside, "")
    function.details.className = "users_function.Count"
    function.details.parallelism = 2
    await processed(client, instance, function, inside, 2, batches=True)
    # The value is read and written by both, so it counts less; counters add up.
    assert (await counters_of(function))[:2] == [MESSAGES, sum(range(MESSAGES))]


@pytest.mark.timeout(240)
async def test_at_least_once_loses_nothing(
    client: pulsar.Client, instance: Instance, namespace: str, tmp_path: Path
) -> None:
    inside, out = f"persistent://{namespace}/in", f"persistent://{namespace}/out"
    function = function_of(instance, tmp_path, namespace, 0, inside, out)
    await processed(client, instance, function, inside, 1, batches=True)
    counts = await asyncio.to_thread(all_of, client, out)
    assert counts.keys() == set(range(MESSAGES))


@pytest.mark.timeout(240)
async def test_at_most_once_repeats_nothing(
    client: pulsar.Client, instance: Instance, namespace: str, tmp_path: Path
) -> None:
    inside, out = f"persistent://{namespace}/in", f"persistent://{namespace}/out"
    function = function_of(instance, tmp_path, namespace, 1, inside, out)
    # Each kill may lose a whole queue, behind which the next one must still find messages.
    messages = MESSAGES + len(KILLS) * AT_MOST_ONCE_QUEUE
    await processed(client, instance, function, inside, 1, batches=False, messages=messages)
    counts = await asyncio.to_thread(all_of, client, out)
    assert set(counts.values()) == {1}


async def test_without_deduplication_effectively_once_ends_with_the_reason(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    base = f"persistent://public/default/undone-{uuid.uuid4().hex[:8]}"
    details = function_details("undone", "users_function", [f"{base}-in"], f"{base}-out")
    details.processingGuarantees = 2  # type: ignore[assignment]
    function = Function(instance.url, tmp_path, details, "def process(x):\n    return x\n")
    producer = client.create_producer(f"{base}-in")
    producer.send(b"1")
    started = await function.start()
    try:
        reason = await asyncio.wait_for(started.wait(), 60)
    finally:
        await started.stop(5)
    assert f"{base}-out has no deduplication" in reason.text
