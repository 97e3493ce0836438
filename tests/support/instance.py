"""A real instance for tests: ``manage.py standalone run`` as a child process on free ports, data in a folder."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.standalone.control import NotRunningError, send_request
from gateway.standalone.plan import control_socket
from gateway.standalone.ports import DEFAULTS
from tests.support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
PORTS = (
    *("ZOOKEEPER", "REDIS", "HTTP", "SPARK", "BROKER", "BROKER_HTTP", "BOOKIE", "BOOKIE_HTTP"),
    *("GATEWAY_HTTP", "FUNCTIONS"),
)

SECURE_PORTS = ("BROKER_TLS", "BROKER_HTTP_TLS", "HTTPS", "FUNCTIONS_TLS")
"""Ports that an instance with ``--secure`` has besides."""
PYTHON_PARTS = ("bookie", "broker", "functions-worker", "gateway", "worker")
RECORD = re.compile(r"\S+Z (WARNING|ERROR|CRITICAL) (\S+) .*")
NOT_OURS = ("kazoo",)
"""Loggers whose warnings a part of the instance handles, and logs itself when they persist."""
STACK = "Traceback (most recent call last)"
SUPERVISOR = re.compile(
    r"magnetar: .*( ended \(| refuses its settings|did not stop in|: killed|cannot )"
)
STARVED = (
    # A busy machine gives a process no time for seconds; the process that waited for it logs that and continues.
    r"WARNING engine\.\S+ (not followed yet|cannot register yet|bundle lost|fenced|not trimmed) ",
    r"WARNING engine\.\S+ (topic not loaded|cursor is not persisted|ledger failed) .*(timed|no answer|lost|expired)",
    r"WARNING bookie\.\S+ registration failed, trying again ",
    r"WARNING gateway\.\S+ (no fresh numbers for the console|figures of before are not known) ",
    r"WARNING gateway\.jobs\.tasks (gateways cannot detect this worker|heartbeat of run) ",
    r"WARNING gateway\.jobs\.\w+ .* could not be sent to Celery's broker: .*Timeout",
    r"WARNING asyncio Executing .* took ",
)
"""Warnings that a busy machine causes. They are never counted, so that a healthy run does not fail by them."""


class Instance:
    """A running instance. ``url`` for Pulsar clients, ``http`` for everything else."""

    def __init__(
        self,
        data_dir: Path,
        bookies: int = 1,
        brokers: int = 1,
        gateways: int = 1,
        root: Path = ROOT,
        port_offset: int | None = None,
        metadata: str = "embedded",
        secure: bool = False,
        clusters: Sequence[str] = (),
        **env: str,
    ) -> None:
        """Prepare an instance; ``bookies`` and ``brokers`` are those of each of ``clusters``, ``url`` is the first
        one's."""
        self.data_dir = data_dir
        self.secure = secure
        self.root = root  # the source tree it runs from
        self.bookies = bookies
        self.brokers = brokers
        self.gateways = gateways
        self.metadata = metadata
        self.clusters = tuple(clusters)
        names = (*PORTS, *SECURE_PORTS) if secure else PORTS
        if port_offset is None:
            self.ports = dict(zip(names, free_ports(len(names), gap=50), strict=True))
        else:
            self.ports = {name: DEFAULTS[name] + port_offset for name in names}
        self.env = env
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_after_s = 0.0

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.ports['BROKER']}"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.ports['HTTP']}"

    def url_of(self, cluster: str) -> str:
        """Return the address of a cluster's first broker."""
        return f"pulsar://127.0.0.1:{self.child(f'{cluster}.broker-1')['ports']['pulsar']}"

    def start(self, timeout_s: float = 90.0) -> None:
        """Start and wait until the instance reports that it is healthy. Raises with the logs' ends when it does not."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("MAGNETAR_")}
        env |= {f"MAGNETAR_{name}_PORT": str(port) for name, port in self.ports.items()}
        # As in the instances of Apache Pulsar whose answers are compared.
        env["MAGNETAR_DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES"] = "4"
        # One process less for tests of other parts, which run beside each other.
        env["MAGNETAR_FUNCTIONS_WORKER_ENABLED"] = "false"
        env |= {"MAGNETAR_DATA_DIR": str(self.data_dir), **self.env}
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "manage.py", "standalone", "run"]
        command += ["--bookies", str(self.bookies), "--brokers", str(self.brokers)]
        if self.gateways > 1:
            command += ["--gateways", str(self.gateways)]
        if self.secure:
            command += ["--secure"]
        if self.clusters:
            command += ["--clusters", ",".join(self.clusters)]
        if self.metadata != "embedded":
            command += ["--metadata", self.metadata]
        began = time.monotonic()
        with (self.data_dir / "supervisor.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.root, env=env, stdout=log, stderr=log)
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() - began > timeout_s:
                logs = self.logs()
                self.stop()
                raise RuntimeError(f"the instance did not become healthy:\n{logs}")
            time.sleep(0.05)
        self.ready_after_s = time.monotonic() - began

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.http}/admin/v2/brokers/health", timeout=5) as reply:
                return bool(reply.read() == b"ok")
        except (OSError, urllib.error.URLError):
            return False

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise

    def control(self, verb: str, name: str = "") -> dict[str, Any]:
        """Give the supervisor the order ``status``, ``stop``, ``kill`` or ``start`` for a child."""
        answer = send_request(control_socket(self.data_dir), verb, name)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def child(self, name: str) -> dict[str, Any]:
        children = self.control("status")["children"]
        return next(child for child in children if child["name"] == name)

    def kill(self, name: str) -> None:
        """Kill a child as a crash would; return when the supervisor knows that it ended."""
        pid = self.child(name)["pid"]
        self.control("kill", name)
        while self.child(name)["pid"] == pid:
            time.sleep(0.02)

    def wait_running(self, name: str, timeout_s: float = 180.0) -> None:
        """Wait until a child is ready again."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            try:
                if self.child(name)["state"] == "running":
                    return
            except NotRunningError:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"{name} is not running after {timeout_s} s:\n{self.logs()}")

    def logs(self, tail: int = 3000) -> str:
        files = [self.data_dir / "supervisor.log", *sorted((self.data_dir / "logs").glob("*.log"))]
        return "\n".join(
            f"== {f.name}\n{f.read_text(errors='replace')[-tail:]}" for f in files if f.exists()
        )

    def rest(
        self, method: str, path: str, body: Any = None, timeout_s: float = 20.0
    ) -> tuple[int, Any]:
        """Call the gateway; return the status and the decoded body (text when it is not JSON)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.http + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as reply:
                status, raw = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                status, raw = error.code, error.read()
        try:
            return status, json.loads(raw) if raw else None
        except ValueError:
            return status, raw.decode(errors="replace")


@contextmanager
def healthy_instance(
    data_dir: Path, provoked: Sequence[str] = (), **options: Any
) -> Iterator[Instance]:
    """Yield an instance to which no harm is done; fail at the end if a part complained of anything but ``provoked``.

    A part that warns, fails or prints a stack without a cause has a fault that other tests may not detect.
    """
    with running_instance(data_dir, **options) as instance:
        yield instance
    if lines := complaints(data_dir, provoked):
        raise AssertionError("parts of a healthy instance complained:\n" + "\n".join(lines[:50]))


@contextmanager
def running_instance(data_dir: Path, **options: Any) -> Iterator[Instance]:
    """Run an instance for the length of a ``with`` block."""
    instance = Instance(data_dir, **options)
    instance.start()
    try:
        yield instance
    finally:
        instance.stop()


def complaints(data_dir: Path, allowed: Sequence[str] = ()) -> list[str]:
    """Return the lines by which parts of the instance in ``data_dir`` complain, each after the name of its log.

    ``allowed``: regular expressions of what the test provoked, searched in the line; of a stack in the line before it.
    """
    known = [re.compile(pattern) for pattern in (*STARVED, *allowed)]
    logs = sorted((data_dir / "logs").glob("*.log*"))
    return [
        f"{log.name}: {line}"
        for log in (data_dir / "supervisor.log", *logs)
        if log.exists()
        for line in _of_log(log)
        if not any(pattern.search(line) for pattern in known)
    ]


def _of_log(log: Path) -> Iterator[str]:
    python = log.name.partition(".log")[0].rpartition(".")[2].startswith(PYTHON_PARTS)
    before = ""
    for line in log.read_text(errors="replace").splitlines():
        if STACK in line:
            if not (python and RECORD.match(before)):  # the record above it counts already
                yield f"{before} {line.strip()}"
        elif log.name == "supervisor.log":
            if SUPERVISOR.match(line):
                yield line
        elif python and (record := RECORD.match(line)) and not record[2].startswith(NOT_OURS):
            yield line
        if line and not line[0].isspace():
            before = line
