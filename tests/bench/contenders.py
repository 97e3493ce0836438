"""Servers that are measured: our instance; Apache Pulsar with a synced journal, or a floor program where it is not at
hand."""

import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.net.tls import ContextSource
from tests.support.instance import ROOT, running_instance
from tests.support.ports import free_ports

PEER = Path(__file__).parents[1] / "oracle" / "peer.py"
FLOOR = Path(__file__).with_name("floor.py")


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU seconds that processes used so far, user and system, all threads, those that ended too.

    From Linux' CPU clock of each process: /proc counts in hundredths of a second, some per cent of a work.
    """
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


@dataclass
class Contender:
    """A running server. ``pids``: the processes on the message path, whose CPU and memory are counted."""

    name: str
    url: str
    pids: list[int]
    start_s: float
    http: str = ""
    tls: ContextSource | None = None

    def cpu_s(self) -> float:
        return cpu_s(self.pids)

    def pss_mb(self) -> float:
        """Return the proportional set size, MB."""
        return sum(kilobytes(pid, "Pss:") for pid in self.pids) / 1024

    def rss_mb(self) -> list[float]:
        return [kilobytes(pid, "Rss:") / 1024 for pid in self.pids]


def kilobytes(pid: int, field: str) -> int:
    """Return a figure of ``smaps_rollup``, such as ``Pss:``; 0 when it is missing."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


@contextmanager
def ours(work: Path, name: str = "ours", root: Path = ROOT, **env: str) -> Iterator[Contender]:
    """Run our instance: the broker and the bookie count, since Apache's standalone has both in one process."""
    with running_instance(work / name, root=root, **env) as instance:
        pids = [instance.child(name)["pid"] for name in ("broker-1", "bookie-1")]
        yield Contender(name, instance.url, pids, instance.ready_after_s, instance.http)


def unpacked(work: Path, revision: str) -> Path:
    """Unpack the source tree of a git revision into a folder below ``work`` and return the folder."""
    root = work / "source"
    packed = work / "source.tar"
    archive = ["git", "archive", "--output", str(packed), revision]
    subprocess.run(archive, check=True, cwd=ROOT, timeout=60)
    with tarfile.open(packed) as tar:
        tar.extractall(root)
    return root


@contextmanager
def earlier(work: Path, revision: str, **env: str) -> Iterator[Contender]:
    """Run our instance of another git revision: its own source, unpacked, and its own processes."""
    with ours(work, "earlier", unpacked(work, revision), **env) as contender:
        contender.name = revision
        yield contender


@contextmanager
def apache(work: Path, settings: Mapping[str, str] | None = None) -> Iterator[Contender]:
    """Run Apache Pulsar standalone that syncs before it confirms, as we do; further settings by Apache's names."""
    folder = work / "apache"
    folder.mkdir()
    binary, http, bookie = free_ports(3, gap=20)
    start = [sys.executable, str(PEER), "standalone", "--dir", str(folder), "--sync"]
    start += ["--binary-port", str(binary), "--http-port", str(http)]
    start += ["--bookie-port", str(bookie)]
    for key, value in (settings or {}).items():
        start += ["--config", f"{key}={value}"]
    began = time.monotonic()
    done = subprocess.run(start, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"Apache Pulsar does not start: {done.stderr[-2000:]}")
    took = time.monotonic() - began
    try:
        status = subprocess.run(
            [sys.executable, str(PEER), "status", "--dir", str(folder)],
            check=True,
            capture_output=True,
            text=True,
        )
        pids = [int(json.loads(line)["pid"]) for line in status.stdout.splitlines()]
        url = f"pulsar://127.0.0.1:{binary}"
        yield Contender("apache", url, pids, took, f"http://127.0.0.1:{http}")
    finally:
        stop = [sys.executable, str(PEER), "stop", "--dir", str(folder)]
        subprocess.run(stop, check=True, capture_output=True, timeout=120)


@contextmanager
def floor(work: Path) -> Iterator[Contender]:
    """Run a program that only cuts frames and answers, without disk: no server in Python can be cheaper."""
    (port,) = free_ports(1)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(FLOOR), str(port)], stdout=subprocess.PIPE, cwd=FLOOR.parents[2]
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        url = f"pulsar://127.0.0.1:{port}"
        yield Contender("floor", url, [process.pid], time.monotonic() - began)
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def contenders(
    work: Path, revision: str = "", alone: bool = False, *, transactions: bool = False
) -> Iterator[list[Contender]]:
    """Run ours first, then the requested git revision, and Apache where it is available, else the floor.

    ``alone``: only ours, without Apache and floor. ``transactions``: with transactions.
    """
    env = {"MAGNETAR_TRANSACTION_COORDINATOR_ENABLED": "true"} if transactions else {}
    settings = {"transactionCoordinatorEnabled": "true"} if transactions else {}
    with ExitStack() as stack:
        running = [stack.enter_context(ours(work, **env))]
        if revision:
            running.append(stack.enter_context(earlier(work, revision, **env)))
        reason = None if alone else apache_missing()
        if reason is not None:
            print(f"Apache Pulsar is not at hand ({reason})", flush=True)
        if not alone and reason is None:
            running.append(stack.enter_context(apache(work, settings)))
        elif not alone and not revision:
            running.append(stack.enter_context(floor(work)))
        yield running


def apache_missing() -> str | None:
    """Return the reason why Apache Pulsar cannot be started here, None when it can (it is fetched if needed)."""
    if shutil.which("java") is None:
        return "no java on PATH"
    fetched = subprocess.run([sys.executable, str(PEER), "fetch"], capture_output=True, text=True)
    return None if fetched.returncode == 0 else fetched.stderr.strip()
