"""Functions per second and CPU per message: our instances and those of Apache's Python runtime, on the same broker.

    python -m tests.bench.functions.python_runtimes [--messages N] [--apache DISTRIBUTION/instances/python-instance]

Apache's runtime needs the packages grpcio and ratelimit; where they are in a folder of their own, PYTHONPATH names it.
The CPU is that of the instances alone. Sides take turns, since a shared machine is not the same machine for long.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
from google.protobuf import json_format

from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData
from engine.functions.runtime.ports import InstanceSpec
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.bench.contenders import cpu_s
from tests.support.instance import running_instance
from tests.support.instances.function_instances import function_details
from tests.support.ports import free_ports

CODE = {
    "identity": "class Fn:\n    def process(self, input, context):\n        return input\n",
    "json": (
        "import json\n"
        "class Fn:\n"
        "    def process(self, input, context):\n"
        "        value = json.loads(input)\n"
        "        value['seen'] = True\n"
        "        return json.dumps(value)\n"
    ),
}
PAYLOAD = json.dumps({"id": 123456, "name": "x" * 40, "values": [1, 2, 3]}).encode()
LATENCY_RATE, LATENCY_S = 1000, 8
NOTHING = "nothing"
PORTS = 3


@contextmanager
def apache(
    folder: Path, url: str, details: FunctionDetails, package: Path, count: int
) -> Iterator[list[int]]:
    """Run instances of Apache's Python runtime."""
    running = []
    logging = package.with_name("log.ini")
    logging.write_text(LOGGING)
    for number in range(count):
        port, metrics, _ = free_ports(PORTS)
        arguments = {
            "function_details": json.dumps(json_format.MessageToDict(details)),
            "py": str(package),
            "instance_id": str(number),
            "function_id": "f",
            "function_version": "0",
            "pulsar_serviceurl": url,
            "port": str(port),
            "metrics_port": str(metrics),
            "max_buffered_tuples": "1024",
            "logging_directory": str(package.parent),
            "logging_file": f"log-{number}",
            "logging_config_file": str(logging),
            "expected_healthcheck_interval": "-1",
            "cluster_name": "standalone",
            "secrets_provider": "secretsprovider.ClearTextSecretsProvider",
            "install_usercode_dependencies": "",
            "dependency_repository": "",
            "extra_dependency_repository": "",
        }
        command = [sys.executable, str(folder / "python_instance_main.py")]
        command += [
            part for name, value in arguments.items() if value for part in (f"--{name}", value)
        ]
        running.append(
            subprocess.Popen(
                command, cwd=package.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
    try:
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait(10)


@contextmanager
def ours(
    folder: Path, url: str, details: FunctionDetails, package: Path, count: int
) -> Iterator[list[int]]:
    """Run instances of ours, on an event loop of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runtime = runtime_of("process", package.parent / "environments")

    def done(work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    metadata = FunctionMetaData(functionDetails=details)
    started = [
        done(
            runtime.start(
                InstanceSpec(metadata, number, package, package.parent / f"i{number}", url)
            )
        )
        for number in range(count)
    ]
    try:
        yield [instance.pid for instance in started]
    finally:
        for instance in started:
            done(instance.stop(5))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def official(
    folder: Path, url: str, details: FunctionDetails, package: Path, count: int
) -> Iterator[list[int]]:
    """Run the least that an instance could be on the official client: see ``official_loop``."""
    inside = next(iter(details.source.inputSpecs))
    command = [sys.executable, "-m", "tests.bench.functions.official_loop"]
    command += [url, inside, details.sink.topic, str(package)]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait(10)


@contextmanager
def nothing(
    folder: Path, url: str, details: FunctionDetails, package: Path, count: int
) -> Iterator[list[int]]:
    """Run no function."""
    yield []


SIDES = {"ours": ours, "apache": apache, "official": official}


class Bench:
    """One function on one side, over topics of its own."""

    def __init__(self, client: pulsar.Client, url: str, apache_folder: Path, work: Path) -> None:
        self.client = client
        self.url = url
        self.apache_folder = apache_folder
        self.work = work

    @contextmanager
    def function(self, side: str, kind: str, count: int) -> Iterator[tuple[str, str, object]]:
        """Yield input, output, and what starts the instances."""
        name = f"{kind}-{uuid.uuid4().hex[:8]}"
        folder = self.work / name
        folder.mkdir()
        package = folder / "bench_function.py"
        package.write_text(CODE[kind])
        inside, out = (f"persistent://public/default/{name}-{end}" for end in ("in", "out"))
        details = function_details(name, "bench_function.Fn", [inside], out)
        details.parallelism = count
        yield (
            inside,
            out,
            lambda: (SIDES | {NOTHING: nothing})[side](
                self.apache_folder, self.url, details, package, count
            ),
        )

    def rate(self, side: str, kind: str, count: int, messages: int) -> tuple[float, float, float]:
        """Return results a second, CPU microseconds for each, and seconds from the start to the first."""
        with self.function(side, kind, count) as (inside, out, started):
            producer = self.client.create_producer(
                inside,
                block_if_queue_full=True,
                batching_enabled=True,
                batching_max_publish_delay_ms=2,
            )
            for _ in range(messages):
                producer.send_async(PAYLOAD, lambda result, message_id: None)
            producer.flush()
            consumer = self.client.subscribe(out, "bench", receiver_queue_size=5000)
            begin = time.monotonic()
            with started() as pids:  # type: ignore[operator]
                consumer.receive(60_000)
                first, cpu = time.monotonic(), cpu_s(pids)
                for _ in range(messages - 1):
                    last = consumer.receive(60_000)
                end, used = time.monotonic(), cpu_s(pids) - cpu
                consumer.acknowledge_cumulative(last)
            consumer.close()
        return (messages - 1) / (end - first), used / (messages - 1) * 1e6, first - begin

    def latency(self, side: str) -> tuple[float, float, float]:
        """Return the median and the 99th percentile of milliseconds from publishing an input to its result, at
        LATENCY_RATE a second, and CPU microseconds of the instance for each.

        The side ``nothing`` has no function: its consumer is on the input.
        """
        with self.function(side, "identity", 1) as (inside, out, started):
            if side == NOTHING:
                out = inside
            producer = self.client.create_producer(inside, batching_enabled=False)
            consumer = self.client.subscribe(out, "bench")
            producer.send(b"warm")
            times: list[float] = []
            with started() as pids:  # type: ignore[operator]
                consumer.receive(60_000)
                cpu = cpu_s(pids)
                total = LATENCY_RATE * LATENCY_S

                def publish() -> None:
                    begin = time.monotonic()
                    for number in range(total):
                        wait = begin + number / LATENCY_RATE - time.monotonic()
                        if wait > 0:
                            time.sleep(wait)
                        producer.send_async(
                            b"t%f" % time.monotonic(), lambda result, message_id: None
                        )

                thread = threading.Thread(target=publish)
                thread.start()
                for _ in range(total):
                    data = consumer.receive(60_000).data()
                    times.append((time.monotonic() - float(data[1:])) * 1000)
                thread.join()
                used = (cpu_s(pids) - cpu) / total * 1e6
            consumer.close()
        return statistics.median(times), statistics.quantiles(times, n=100)[98], used


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--instances", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--kinds", nargs="*", default=list(CODE))
    parser.add_argument("--apache", type=Path)
    parser.add_argument("--sides", nargs="*", help="of ours, official and apache")
    options = parser.parse_args()
    sides = ["ours", "official"] if options.apache is None else list(SIDES)
    sides = options.sides or sides
    with (
        tempfile.TemporaryDirectory() as folder,
        running_instance(Path(folder) / "instance") as instance,
    ):
        client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        bench = Bench(client, instance.url, options.apache, Path(folder))
        for kind in options.kinds:
            for count in options.instances:
                for turn in range(options.turns):
                    for side in sides:
                        rate, cpu, first_s = bench.rate(side, kind, count, options.messages)
                        print(
                            f"{kind} x{count} turn {turn} {side:6}: {rate:8.0f}/s {cpu:6.1f} us CPU each, "
                            f"first result after {first_s:.2f} s",
                            flush=True,
                        )
        for side in [NOTHING, *sides] * options.turns:
            median, high, used = bench.latency(side)
            print(
                f"latency at {LATENCY_RATE}/s {side:8}: p50 {median:.2f} ms, p99 {high:.2f} ms, "
                f"{used:.0f} us CPU each",
                flush=True,
            )
        client.close()
    os._exit(0)  # threads of the clients end with the process


LOGGING = """[loggers]
keys=root
[handlers]
keys=none
[formatters]
keys=
[logger_root]
level=INFO
handlers=none
[handler_none]
class=logging.NullHandler
args=()
"""

if __name__ == "__main__":
    main()
