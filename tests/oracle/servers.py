"""Servers of either side, each a process of its own on loopback: Apache's through ``peer.py``, and ours."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bookie.cookies import instance_id
from engine.base.entropy import RandomEntropy
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from tests.oracle.ledgers_java import LEAN
from tests.support.instance import ROOT
from tests.support.ports import free_ports

INTERNAL_TOKEN = "oracle-tests-only"
PEER = Path(__file__).with_name("peer.py")
LEAN_PEER = {
    "PEER_MEM": LEAN.partition(" -XX:+")[0],
    "PEER_GC": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def peer(*words: object, timeout_s: float = 180.0) -> dict[str, Any]:
    """Run ``peer.py``; what it printed as JSON."""
    done = subprocess.run(
        [sys.executable, str(PEER), *map(str, words)],
        env=os.environ | LEAN_PEER,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode:
        raise RuntimeError(f"peer {words[0]}: {done.stderr[-3000:]}")
    line = done.stdout.strip().rpartition("\n")[2]
    return dict(json.loads(line)) if line.startswith("{") else {}


class Ours:
    """A process of ours: starts, dies, stops. ``log`` keeps its output over restarts."""

    def __init__(
        self, name: str, argv: list[str], env: dict[str, str], status: int, log: Path
    ) -> None:
        self.name = name
        self._argv = [sys.executable, "-m", *argv]
        self._env = {k: v for k, v in os.environ.items() if not k.startswith("MAGNETAR_")} | env
        self._status = status
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_s: float = 40.0) -> None:
        """Start the process and return once it is ready."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(
                self._argv, cwd=ROOT, env=self._env, stdout=out, stderr=out
            )
        until = time.monotonic() + timeout_s
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(f"{self.name} is not ready:\n{self.tail()}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._status}/ready", timeout=5):
                return True
        except OSError:
            return False

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def stop(self) -> None:
        """SIGTERM; it must end by itself and with status 0."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        if status:
            raise RuntimeError(f"{self.name} ended with {status}:\n{self.tail()}")


class OurMetadata(Ours):
    """A metadata server with its own folder below ``work``; ``kill`` and ``start`` keep port and data."""

    def __init__(self, work: Path) -> None:
        (self.port,) = free_ports(1)
        self.zk = f"127.0.0.1:{self.port}"
        argv = ["engine", "metadata", "--data-dir", str(work / "metadata")]
        log = work / "metadata.log"
        super().__init__("metadata", [*argv, "--port", str(self.port)], {}, self.port, log)

    def ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False


class OurBookie(Ours):
    """A bookie with its own folder below ``work``; its id is its address, as BookKeeper's is."""

    def __init__(
        self,
        work: Path,
        name: str,
        zk: str,
        *,
        env: dict[str, str] | None = None,
        **settings: object,
    ) -> None:
        self.port, status = free_ports(2)
        self.id = f"127.0.0.1:{self.port}"
        self.status_port = status
        self.data = work / name
        argv = ["bookie", "--data-dir", str(self.data), "--port", str(self.port)]
        argv += ["--status-port", str(status), "--metadata", f"zk:{zk}"]
        all_settings = {"journal_file_bytes": 4 << 20, "write_cache_bytes": 8 << 20} | settings
        own = {f"MAGNETAR_BOOKIE_{key.upper()}": str(value) for key, value in all_settings.items()}
        own["MAGNETAR_AUTO_RECOVERY_DAEMON_ENABLED"] = (
            "false"  # tests stop bookies, and see what then is on each
        )
        super().__init__(name, argv, own | (env or {}), status, work / f"{name}.log")


class OurBroker(Ours):
    """A broker with quorums 3, 3, 2. ``cluster`` must be the one in the metadata."""

    def __init__(
        self, work: Path, name: str, zk: str, cluster: str = "standalone", **more: object
    ) -> None:
        """``more``: settings."""
        self.port, self.http_port = free_ports(2)
        settings = {
            "DATA_DIR": work / name,
            "METADATA_URL": f"zk:{zk}",
            "CLUSTER_NAME": cluster,
            "BROKER_PORT": self.port,
            "BROKER_HTTP_PORT": self.http_port,
            "METADATA_STORE_SESSION_TIMEOUT_MILLIS": 5000,
            "INTERNAL_TOKEN": INTERNAL_TOKEN,
            "MANAGED_LEDGER_DEFAULT_ENSEMBLE_SIZE": 3,
            "MANAGED_LEDGER_DEFAULT_WRITE_QUORUM": 3,
            "MANAGED_LEDGER_DEFAULT_ACK_QUORUM": 2,
            **{name.upper(): value for name, value in more.items()},
        }
        (work / name).mkdir(parents=True, exist_ok=True)
        env = {f"MAGNETAR_{key}": str(value) for key, value in settings.items()}
        super().__init__(name, ["engine", "broker"], env, self.http_port, work / f"{name}.log")

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"


class OurGateway(Ours):
    """REST of ours, beside an ``OurBroker`` on the same metadata."""

    def __init__(self, work: Path, name: str, zk: str, cluster: str = "standalone") -> None:
        (port,) = free_ports(1)
        self.http = f"http://127.0.0.1:{port}"
        settings = {
            "DATA_DIR": work / name,
            "METADATA_URL": f"zk:{zk}",
            "CLUSTER_NAME": cluster,
            "INTERNAL_TOKEN": INTERNAL_TOKEN,
        }
        argv = ["gateway.serve", "--host", "127.0.0.1", "--port", str(port)]
        env = {f"MAGNETAR_{key}": str(value) for key, value in settings.items()}
        super().__init__(name, argv, env, port, work / f"{name}.log")

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.http}/admin/v2/clusters", timeout=5):
                return True
        except OSError:
            return False


class OurBookies:
    """Bookies of ours on a chroot of their own."""

    def __init__(self, work: Path, zk: str, count: int = 3, **settings: object) -> None:
        self.work = work
        self.zk = zk
        self.each = [OurBookie(work, f"bookie-{i + 1}", zk, **settings) for i in range(count)]

    @property
    def uri(self) -> str:
        """The metadata URI for Apache's ledger client."""
        return f"zk+hierarchical://{self.zk}/ledgers"

    def named(self, bookie_id: str) -> OurBookie:
        return next(bookie for bookie in self.each if bookie.id == bookie_id)

    def add(self, name: str, **settings: object) -> OurBookie:
        """Add and start a further bookie."""
        bookie = OurBookie(self.work, name, self.zk, **settings)
        self.each.append(bookie)
        bookie.start()
        return bookie

    def __enter__(self) -> "OurBookies":
        try:
            for bookie in self.each:
                bookie.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                for bookie in self.each:
                    bookie.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        for bookie in self.each:
            bookie.kill()


class ApacheBookie:
    """One of Apache's on a root that is there already; ``stop`` and ``start`` keep id and data. ``config``: further
    entries of its configuration file."""

    def __init__(self, work: Path, name: str, zk: str, port: int, **config: object) -> None:
        self.name = name
        self.id = f"127.0.0.1:{port}"
        self._folder = work / name
        self._start = ("bookies", "--dir", self._folder, "--zk", zk, "--base-port", port)
        for key, value in config.items():
            self._start += ("--config", f"{key}={value}")

    def start(self) -> None:
        """Start the bookie and return once it is registered."""
        self._folder.mkdir(parents=True, exist_ok=True)
        peer(*self._start)

    def stop(self) -> None:
        peer("stop", "--dir", self._folder)

    def kill(self) -> None:
        kill_peers(self._folder)


def kill_peers(folder: Path) -> None:
    """``kill -9`` for what ``peer.py`` runs in ``folder``."""
    for line in peer_status(folder):
        os.kill(line["pid"], signal.SIGKILL)
    while peer_status(folder):
        time.sleep(0.05)


def peer_status(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PEER), "status", "--dir", str(folder)],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


class ApacheBookies:
    """Three of Apache's on a chroot of their own, whose root our code has written."""

    def __init__(self, work: Path, zk: str) -> None:
        self.zk = zk
        ports = free_ports(3)
        self.each = [ApacheBookie(work, f"bookie-{i}", zk, p) for i, p in enumerate(ports, 1)]

    @property
    def uri(self) -> str:
        """The metadata URI for Apache's ledger client."""
        return f"zk+hierarchical://{self.zk}/ledgers"

    def __enter__(self) -> "ApacheBookies":
        asyncio.run(make_root(self.zk))
        try:
            with ThreadPoolExecutor(len(self.each)) as threads:
                list(threads.map(ApacheBookie.start, self.each))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with ThreadPoolExecutor(len(self.each)) as threads:
            list(threads.map(ApacheBookie.stop, self.each))


async def connected(zk: str) -> MetadataStore:
    """Open a session of ours at ``host:port/chroot``."""
    return await connect(f"zk:{zk}")


async def make_root(zk: str) -> None:
    """Write the records that a first bookie of ours writes before it registers."""
    store = await connected(zk)
    try:
        await instance_id(store, RandomEntropy(), initialize=True)
    finally:
        await store.close()


class ApacheBroker:
    """Apache's broker; with ``init`` the first start writes the cluster's metadata unless it is there."""

    def __init__(
        self,
        work: Path,
        name: str,
        zk: str,
        *,
        init: bool,
        quorums: str = "3,3,2",
        cluster: str = "standalone",
        **more: object,
    ) -> None:
        """``more``: settings."""
        self.name = name
        self.port, web = free_ports(2)
        self.url = f"pulsar://127.0.0.1:{self.port}"
        self.web = web
        self.http = f"http://127.0.0.1:{web}"
        self._folder = work / name
        self._start: list[object] = ["broker", "--dir", self._folder, "--zk", zk]
        self._start += ["--binary-port", self.port, "--http-port", web, "--quorum", quorums]
        self._start += ["--cluster", cluster]
        self._start += ["--init"] if init else []
        settings = {
            "metadataStoreSessionTimeoutMillis": 5000,  # a killed one's topics wait for its end
            "defaultNumberOfNamespaceBundles": 4,
            "acknowledgmentAtBatchIndexLevelEnabled": "true",
            "webSocketServiceEnabled": "false",
            "brokerShutdownTimeoutMs": 5000,
            **more,
        }
        for key, value in settings.items():
            self._start += ["--config", f"{key}={value}"]

    def start(self) -> None:
        """Start the broker and return once it reports to be healthy."""
        self._folder.mkdir(parents=True, exist_ok=True)
        peer(*self._start)

    def stop(self) -> None:
        peer("stop", "--dir", self._folder)

    def kill(self) -> None:
        kill_peers(self._folder)
