"""Functions on real workers: further workers beside the one of an instance, and functions deployed by REST."""

import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pulsar

from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part
from tests.support.instance import Instance
from tests.support.ports import free_ports

WORKER = "functions-worker"
INSTANCE_PROGRAM = b"engine.functions.instance.__main__"
FAST = {
    "MAGNETAR_FUNCTIONS_WORKER_ENABLED": "true",
    "MAGNETAR_FUNCTIONS_WORKER_METADATA_STORE_SESSION_TIMEOUT_MILLIS": "4000",
    "MAGNETAR_FUNCTIONS_WORKER_RESCHEDULE_TIMEOUT_MS": "500",
    "MAGNETAR_FUNCTIONS_WORKER_FAILURE_CHECK_FREQ_MS": "1000",
    "MAGNETAR_FUNCTIONS_WORKER_FUNCTION_RESTART_FIRST_MS": "200",
    "MAGNETAR_FUNCTIONS_WORKER_FUNCTION_RESTART_LONGEST_MS": "2000",
}
"""Settings of an instance whose workers notice failures within seconds."""


class FurtherProcess:
    """A further process like ``child`` of an instance, with its settings and ports of its own, and ``settings`` as
    variables. ``ports``: variables of ports. ``python``: the interpreter; empty: the tests' one."""

    def __init__(
        self,
        instance: Instance,
        child: str,
        name: str,
        ports: Sequence[str],
        python: str = "",
        **settings: str,
    ) -> None:
        self.id = name
        self.log = instance.data_dir / f"{name}.log"
        pid = instance.child(child)["pid"]
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        environ = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        for variable, port in zip(ports, free_ports(len(ports)), strict=True):
            if variable in environ:
                environ[variable] = str(port)
        self.settings = environ | settings
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        command[0] = python or command[0]
        self._command, self._root = command, instance.root
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=self._root, env=self.settings, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def start_again(self) -> None:
        """Start a process of the same name in place of one that was killed."""
        self.process = self._start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def close(self) -> None:
        """End it in order."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)


class WorkerProcess(FurtherProcess):
    """A further worker of an instance."""

    def __init__(
        self, instance: Instance, worker_id: str, python: str = "", **settings: str
    ) -> None:
        ports = [f"MAGNETAR_FUNCTIONS_WORKER_WORKER_PORT{end}" for end in ("", "_TLS")]
        named = {"MAGNETAR_FUNCTIONS_WORKER_WORKER_ID": worker_id}
        super().__init__(instance, WORKER, worker_id, ports, python, **named | settings)


class BrokerBeside(FurtherProcess):
    """A further broker of an instance."""

    def __init__(self, instance: Instance, name: str) -> None:
        ports = [
            *("MAGNETAR_BROKER_PORT", "MAGNETAR_BROKER_HTTP_PORT"),
            *("MAGNETAR_BROKER_SERVICE_PORT_TLS", "MAGNETAR_BROKER_HTTP_PORT_TLS"),
        ]
        super().__init__(instance, "broker-1", name, ports)

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.settings['MAGNETAR_BROKER_PORT']}"

    @property
    def ready(self) -> bool:
        """True once it serves topics."""
        address = f"http://127.0.0.1:{self.settings['MAGNETAR_BROKER_HTTP_PORT']}/ready"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def further_worker(
    instance: Instance, worker_id: str = "second-worker", python: str = "", **settings: str
) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(instance, worker_id, python, **settings)
    try:
        yield worker
    finally:
        worker.close()


def instances_of(worker_pid: int) -> list[int]:
    """Return the processes of a worker's instances."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == worker_pid and INSTANCE_PROGRAM in (folder / "cmdline").read_bytes():
                    pids.append(int(folder.name))
    return sorted(pids)


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie; a suspended one is alive."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def send_form(
    instance: Instance, method: str, path: str, config: dict[str, Any], code: str = ""
) -> tuple[int, str]:
    """Create or update a function; return the status and the text of the answer, 0 without one."""
    parts = [json_part("functionConfig", config)]
    if code:
        parts.append(file_part(code.encode(), "users_function.py"))
    request = urllib.request.Request(
        f"{instance.http}/admin/v3/functions/{path}",
        form(*parts),
        {"Content-Type": FORM_TYPE},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


class Publisher:
    """Publisher of numbered messages on a thread of its own, until ``close``, over any failure."""

    def __init__(self, client: pulsar.Client, topic: str, pause_s: float = 0.004) -> None:
        self._client = client
        self._topic = topic
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._producer = client.create_producer(
            topic, send_timeout_millis=0, block_if_queue_full=True, batching_max_messages=5
        )
        # One receipt first: at a reconnection before it, this client begins its sequence ids anew, and a topic that
        # deduplicates takes its next messages for repetitions.
        self._producer.send(b"0")
        self.count = 1
        self.stored = 1
        self._refused: list[tuple[int, pulsar.Result]] = []
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        while not self._stop.wait(self._pause_s):
            self._producer.send_async(b"%d" % self.count, partial(self._sent, self.count))
            self.count += 1

    def _sent(self, number: int, result: pulsar.Result, message_id: object) -> None:
        if result == pulsar.Result.Ok:
            self.stored += 1
        else:
            self._refused.append((number, result))

    def close(self) -> int:
        """Stop; return how many messages were published, all of which are stored."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()
        assert not self._refused, f"{len(self._refused)} sends failed, first {self._refused[0]}"
        return self.count


def contents(client: pulsar.Client, topic: str) -> list[int]:
    """Return the numbers in a topic, in order."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    numbers = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(30_000).data()))
    reader.close()
    return numbers


def repeated(numbers: list[int]) -> dict[int, int]:
    """Return the numbers that are there more than once."""
    return {number: count for number, count in Counter(numbers).items() if count > 1}


def backlog_of(instance: Instance, topic: str, subscription: str) -> int:
    """Return the messages that a subscription has not acknowledged; -1 while that is not known."""
    inside = topic.removeprefix("persistent://")
    try:
        status, stats = instance.rest(
            "GET", f"/admin/v2/persistent/{inside}/stats?getPreciseBacklog=true"
        )
    except OSError:
        return -1
    if status != 200 or subscription not in stats["subscriptions"]:
        return -1
    return int(stats["subscriptions"][subscription]["msgBacklog"])
