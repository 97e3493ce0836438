"""Processes and threads of instances: how they end, and what they leave; sources and sinks in them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pulsar
import pytest

from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData
from engine.functions.runtime import processes
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec, RunningInstance
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.support.instance import ROOT, Instance
from tests.support.instances.function_instances import (
    Function,
    function_details,
    is_settled,
    unique,
)
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until, until_blocking

WORKER = """
import asyncio, sys
from pathlib import Path
from tests.support.instances.function_instances import Function, function_details

async def main(url, folder, inside):
    code = Path(folder, "code.txt").read_text()
    function = Function(url, Path(folder), function_details("left", "users_function", [inside]), code)
    started = await function.start()
    print(started.pid, (await started.trigger("", b"x")).decode(), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(*sys.argv[1:]))
"""
CHILD = (
    "import subprocess\ndef process(x):\n    return str(subprocess.Popen(['sleep', '1000']).pid)\n"
)


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_an_instance_and_its_children_end_with_a_killed_worker(
    instance: Instance, tmp_path: Path
) -> None:
    (tmp_path / "code.txt").write_text(CHILD)
    arguments = [sys.executable, "-c", WORKER, instance.url, str(tmp_path), unique("in")]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        pids = [int(pid) for pid in worker.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        worker.kill()
    until_blocking(lambda: not any(map(is_alive, pids)), "instance and child to end")


async def test_children_of_an_instance_end_with_it(instance: Instance, tmp_path: Path) -> None:
    details = function_details("children", "users_function", [unique("in")], unique("out"))
    started = await Function(instance.url, tmp_path, details, CHILD).start()
    child = int(await started.trigger("", b"x"))
    assert is_alive(child)
    os.kill(started.pid, signal.SIGKILL)
    assert "SIGKILL" in (await started.wait()).text
    await until(lambda: not is_alive(child), "the child to end")
    await started.stop(1)


async def test_code_that_never_returns_is_killed_after_the_grace_time(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside = unique("in")
    code = "import time\ndef process(x):\n    time.sleep(1000)\n"
    details = function_details("stuck", "users_function", [inside])
    started = await Function(instance.url, tmp_path, details, code).start()
    producer = client.create_producer(inside)
    producer.send(b"x")

    async def received() -> bool:
        return (await started.status()).received == 1

    await until(received, "the message")
    assert (await started.status()).running, "it answers while the code does not return"
    began = time.monotonic()
    await started.stop(1)
    assert time.monotonic() - began < 60
    assert (await started.wait()).expected


async def test_restarts_leave_no_process_file_or_descriptor(
    instance: Instance, tmp_path: Path
) -> None:
    details = function_details("restarted", "users_function", [unique("in")], unique("out"))
    function = Function(instance.url, tmp_path, details, "def process(x):\n    return x\n")
    warm = await function.start()
    await warm.stop(5)
    before = set(os.listdir("/proc/self/fd")), sorted(path.name for path in tmp_path.iterdir())
    pids = []
    for _ in range(5):
        started = await function.start()
        pids.append(started.pid)
        await started.stop(5)
    after = set(os.listdir("/proc/self/fd")), sorted(path.name for path in tmp_path.iterdir())
    assert len(after[0]) <= len(before[0])
    assert after[1] == before[1]
    assert not any(map(is_alive, pids))


async def test_a_process_that_starts_longer_than_its_lease_lasts_runs(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease_s = 1.5
    # time: a busy machine, on which the interpreter needs twice the lease to start
    slow = f"import time; time.sleep({2 * lease_s}); {processes.PROGRAM}"
    monkeypatch.setattr(processes, "PROGRAM", slow)
    details = function_details("slow", "users_function", [unique("in")], unique("out"))
    function = Function(instance.url, tmp_path, details, "def process(x):\n    return x\n")
    renewing: list[RunningInstance] = []

    async def renew() -> None:
        while True:
            for started in renewing:
                started.lease_until(time.monotonic() + lease_s)
            await asyncio.sleep(lease_s / 5)

    renewal = asyncio.get_running_loop().create_task(renew())
    try:
        began = time.monotonic()
        started = await function.begin(lease_end=lambda: time.monotonic() + lease_s)
        renewing.append(started)
        assert not (await started.status()).running
        with pytest.raises(InstanceError, match="is starting"):
            await started.stats()
        await until(lambda: runs(started), "the instance", bound_s=60)
        assert time.monotonic() - began > 2 * lease_s
        await started.stop(5)
    finally:
        renewal.cancel()


async def runs(started: RunningInstance) -> bool:
    try:
        status = await started.status()
    except InstanceError:
        return False
    assert not status.error
    return status.running


async def test_a_process_that_is_stopped_while_it_starts_ends_at_once(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROGRAM", "import time; time.sleep(1000)")
    details = function_details("stopped", "users_function", [unique("in")])
    started = await Function(instance.url, tmp_path, details, "").begin()
    async with asyncio.timeout(30):
        await started.stop(1000)
    assert (await started.wait()).expected


async def test_the_thread_runtime_runs_the_same_function(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, out = unique("in"), unique("out")
    (tmp_path / "threaded_function.py").write_text("def process(x):\n    return x + 1\n")
    details = function_details("threaded", "threaded_function", [inside], out)
    metadata = FunctionMetaData(functionDetails=details)
    spec = InstanceSpec(
        metadata, 0, tmp_path / "threaded_function.py", tmp_path / "run", instance.url
    )
    started = await runtime_of("thread", tmp_path / "environments").start(spec)
    await until(partial(is_settled, started), "the instance")
    assert started.pid == os.getpid()
    assert await started.trigger("", b"4") == b"5"
    assert (await started.status()).running
    await started.stop(5)
    assert (await started.wait()).expected
    assert not (tmp_path / "run").exists()


async def start_connector(
    instance: Instance, folder: Path, details: FunctionDetails, code: str = ""
) -> RunningInstance:
    """Start a source or sink; ``code`` empty: one that is built in."""
    package = folder / "users_connector.py" if code else None
    if package is not None:
        package.write_text(code)
    metadata = FunctionMetaData(functionDetails=details)
    spec = InstanceSpec(metadata, 0, package, folder / "run", instance.url)
    started = await runtime_of("process", folder / "environments").start(spec)

    await until(partial(is_settled, started), "the connector", bound_s=120)
    return started


def received(client: pulsar.Client, topic: str, count: int) -> list[bytes]:
    consumer = client.subscribe(topic, "test", initial_position=pulsar.InitialPosition.Earliest)
    data = [consumer.receive(20_000).data() for _ in range(count)]
    consumer.close()
    return data


SOURCE = """
import asyncio
from engine.functions.connectors.spi import Record, Source

class Numbers(Source):
    async def open(self, settings, context):
        self.last = int(await context.get_state("last") or b"-1")
        self.context, self.most, self.next = context, settings["most"], self.last + 1

    async def read(self):
        while self.next >= self.most:
            await asyncio.sleep(0.05)
        self.next += 1
        return [Record(b"%d" % (self.next - 1), on_settled=self.settled)]

    def settled(self, record, error):
        self.last = max(self.last, int(record.value))

    async def commit(self):
        await self.context.put_state("last", b"%d" % self.last)
"""


async def test_a_source_of_the_users_goes_on_where_it_was(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    out = unique("source")
    details = function_details(f"numbers-{out[-8:]}", "", [], out)
    details.componentType = FunctionDetails.ComponentType.SOURCE
    details.source.className = "users_connector.Numbers"
    for most in (5, 9):
        details.source.configs = json.dumps({"most": most})
        (tmp_path / str(most)).mkdir()
        started = await start_connector(instance, tmp_path / str(most), details, SOURCE)
        assert not (await started.status()).error

        async def written(count: int = 5 if most == 5 else 4) -> bool:
            return (await started.status()).written == count  # noqa: B023

        await until(written, "its records")
        await started.stop(10)
    assert await asyncio.to_thread(received, client, out, 9) == [b"%d" % n for n in range(9)]


SINK = """
from engine.functions.connectors.spi import Sink

class Lines(Sink):
    async def open(self, settings, context):
        self.path, self.failed = settings["path"], False

    async def write(self, records):
        for record in records:
            if record.value == b"3" and not self.failed:
                self.failed = True
                raise OSError("disk full")
            with open(self.path, "ab") as file:
                file.write(record.value + b"\\n")
            record.ack()
"""


async def test_a_sink_of_the_users_gets_what_failed_again(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, path = unique("sink"), tmp_path / "lines.txt"
    details = function_details("lines", "", [inside])
    details.componentType = FunctionDetails.ComponentType.SINK
    details.source.negativeAckRedeliveryDelayMs = 200
    details.sink.className = "users_connector.Lines"
    details.sink.configs = json.dumps({"path": str(path)})
    producer = client.create_producer(inside, batching_enabled=False)
    for number in range(6):
        producer.send(b"%d" % number)
    started = await start_connector(instance, tmp_path, details, SINK)
    expected = {b"%d" % number for number in range(6)}
    await until(
        lambda: path.exists() and set(path.read_bytes().split()) == expected,
        "all lines",
        bound_s=60,
    )
    status = await started.status()
    assert status.sink_exceptions >= 1
    assert "OSError: disk full" in status.latest_sink_exceptions[0].text
    await started.stop(5)


async def test_a_built_in_source_runs_by_its_name(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    out = unique("generated")
    details = function_details("generated", "", [], out)
    details.componentType = FunctionDetails.ComponentType.SOURCE
    details.source.builtin = "generator"
    details.source.configs = "{}"
    started = await start_connector(instance, tmp_path, details)
    assert (await started.status()).error == ""
    assert len(await asyncio.to_thread(received, client, out, 1)) == 1
    await started.stop(5)
