"""Real etcd servers on loopback, of the system's ``etcd`` or the one that the bootstrap has unpacked."""

import json
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_ports

UNPACKED = Path(__file__).parents[3] / ".tools" / "etcd" / "usr" / "bin" / "etcd"
MISSING = (
    "no etcd: install the Debian package etcd-server, or run bootstrap.py --dev, which unpacks it"
)


def find_etcd() -> str | None:
    """Return the path of the server, None without one."""
    path = shutil.which("etcd")
    if path is None and UNPACKED.exists():
        path = str(UNPACKED)
    return path


class EtcdMember:
    """One server of a cluster; ``stop`` and ``start`` keep its data. ``secured`` has its options of TLS."""

    def __init__(
        self,
        program: str,
        directory: Path,
        name: str,
        ports: tuple[int, int],
        secured: Sequence[str] = (),
    ) -> None:
        client, peer = ports
        self.url = f"http{'s' if secured else ''}://127.0.0.1:{client}"
        self.peer = f"{name}=http://127.0.0.1:{peer}"
        self._name = name
        self._log = directory / f"{name}.log"
        self._command = [
            program, "--name", name, "--data-dir", str(directory / name),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn", *secured,
        ]  # fmt: skip
        self.tls: ssl.SSLContext | None = None
        """Context of ``call``, for a member with TLS."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, peers: str) -> None:
        """Start the server; it serves when its cluster has a quorum."""
        command = [*self._command, "--initial-cluster", peers]
        with open(self._log, "ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    def wait_serving(self, deadline_s: float = 30.0) -> None:
        end = time.monotonic() + deadline_s
        while not self._serves():
            assert self._process is not None
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(self._log.read_text()[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def call(self, method: str, **body: object) -> dict[str, object]:
        """Call a method of the gateway, for faults that no client makes, such as a compaction."""
        data = json.dumps(body).encode()
        url = f"{self.url}/v3/{method}"
        with urllib.request.urlopen(url, data, timeout=10, context=self.tls) as answer:
            message: dict[str, object] = json.load(answer)
            return message

    def _serves(self) -> bool:
        try:
            self.call("kv/range", key="YQ==")
        except OSError:
            return False
        return True


class EtcdCluster:
    """A cluster of etcd with ``size`` members; its data lives as long as ``directory``."""

    def __init__(self, program: str, directory: Path, size: int) -> None:
        ports = free_ports(2 * size)
        self.members = [
            EtcdMember(program, directory, f"m{n}", (ports[2 * n], ports[2 * n + 1]))
            for n in range(size)
        ]
        self.url = "etcd:" + ",".join(member.url for member in self.members)
        self._peers = ",".join(member.peer for member in self.members)

    def start(self, number: int | None = None) -> None:
        """Start all members, or a stopped one, and wait until they serve."""
        members = self.members if number is None else [self.members[number]]
        for member in members:
            member.start(self._peers)
        for member in members:
            member.wait_serving()

    def stop(self) -> None:
        for member in self.members:
            member.stop()


@contextmanager
def running_etcd(directory: Path, members: int) -> Iterator[EtcdCluster]:
    """Run a cluster for the length of the block; skip the test where there is no etcd."""
    program = find_etcd()
    if program is None:
        pytest.skip(MISSING)
    cluster = EtcdCluster(program, directory, members)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
