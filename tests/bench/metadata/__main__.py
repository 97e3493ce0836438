"""The metadata server beside Apache ZooKeeper, by turns: ``python -m tests.bench.metadata [--rounds 3]``.

Both keep their data on real files and sync every write. A raw client pipelines frames made beforehand over one
connection, to one server at a time: every work is cut into slices that take turns, so that other load on the machine
meets both. Prints medians over the slices: operations a second and µs of the server's CPU for each, at 1 and 64 in
flight; the time until a new process serves, its memory at rest, and the delay of a watch's event behind its change.
"""

import argparse
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.metadata.server.protocol import (
    OPEN_ACL,
    ConnectRequest,
    Create,
    Delete,
    GetData,
    Multi,
    Op,
    Request,
    SetData,
)
from tests.conftest import find_java
from tests.support.ports import free_ports
from tests.support.zookeeper.client_codec import encode_connect_request, encode_request

ROOT = Path(__file__).resolve().parents[3]
DATA = b"x" * 100
SLICES = 10
Results = defaultdict[str, defaultdict[str, list[float]]]
"""Values by figure and server."""


class Process:
    """A running server: ours, or Apache's with its usual JIT."""

    def __init__(self, command: list[str], port: int, folder: Path) -> None:
        self.port = port
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as probe:
                    probe.sendall(b"srvr")
                    if b"Mode" in probe.recv(4096):
                        break
            except OSError:
                time.sleep(0.002)
        self.ready_s = time.perf_counter() - begun

    def cpu_s(self) -> float:
        """Return the CPU time of the threads that run now, exact to a nanosecond."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def ours(folder: Path) -> Process:
    (port,) = free_ports(1)
    arguments = ["--data-dir", str(folder / "data"), "--port", str(port)]
    return Process([sys.executable, "-m", "engine", "metadata", *arguments], port, folder)


def apaches(folder: Path) -> Process:
    from importlib.util import find_spec

    java, spec = find_java(), find_spec("pyspark")
    assert java is not None
    assert spec is not None
    assert spec.origin is not None
    (port,) = free_ports(1)
    (folder / "zoo.cfg").write_text(
        f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n"
    )
    jars = Path(spec.origin).parent / "jars" / "*"
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    return Process([java, "-cp", str(jars), main, str(folder / "zoo.cfg")], port, folder)


SERVERS: dict[str, Callable[[Path], Process]] = {"ours": ours, "Apache's": apaches}


class Session:
    """A session on a blocking socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._socket.sendall(encode_connect_request(ConnectRequest(0, 0, 30_000, 0, bytes(16))))
        self.frames(1)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frames(self, count: int) -> list[bytes]:
        """Return the next frames: at least ``count``, and all that arrived with them."""
        frames: list[bytes] = []
        while True:
            pos, buffer = 0, self._buffer
            while len(buffer) - pos >= 4:
                end = pos + 4 + int.from_bytes(buffer[pos : pos + 4], "big")
                if end > len(buffer):
                    break
                frames.append(buffer[pos + 4 : end])
                pos = end
            self._buffer = buffer[pos:]
            if len(frames) >= count:
                return frames
            self._buffer += self._socket.recv(1 << 18)

    def pipeline(self, frames: list[bytes], in_flight: int) -> None:
        """Send all frames, ``in_flight`` of them without an answer at most."""
        sent, answered = in_flight, 0
        self.send(b"".join(frames[:in_flight]))
        while answered < len(frames):
            replies = self.frames(1)
            for frame in replies:
                assert frame[12:16] == bytes(4), frame.hex()
            answered += len(replies)
            more = frames[sent : sent + len(replies)]
            sent += len(more)
            if more:
                self.send(b"".join(more))

    def close(self) -> None:
        self._socket.close()


def requests(work: str, count: int) -> Iterator[Request]:
    for i in range(count):
        if work == "create":
            yield Create(Op.CREATE, f"/bench/{i:07}", DATA, OPEN_ACL, 0)
        elif work == "set":
            yield SetData(f"/bench/{i % 100:07}", DATA, -1)
        elif work == "get":
            yield GetData(f"/bench/{i % 100:07}", False)
        elif work == "multi":
            path = f"/bench/m{i % 100:07}"
            set_data = SetData(f"/bench/{i % 100:07}", DATA, -1)
            yield Multi((Create(Op.CREATE, path, DATA, OPEN_ACL, 0), set_data, Delete(path, -1)))
        else:
            yield Delete(f"/bench/{i:07}", -1)


def encoded(work: str, count: int) -> list[bytes]:
    return [encode_request(i + 1, request) for i, request in enumerate(requests(work, count))]


def watch_delay_ms(port: int, count: int) -> float:
    """Return the median time from the answer of a change to its event at another client."""
    writer, watcher = Session(port), Session(port)
    delays = []
    for i in range(count):
        watcher.send(encode_request(i + 1, GetData("/bench", True)))
        watcher.frames(1)
        begun = time.perf_counter()
        writer.send(encode_request(i + 1, SetData("/bench", DATA, -1)))
        watcher.frames(1)
        event = time.perf_counter()
        writer.frames(1)
        answer = time.perf_counter()
        delays.append((event - begun, answer - begun))
    return statistics.median(event - answer for event, answer in delays) * 1000


@contextmanager
def running(name: str) -> Iterator[Process]:
    folder = Path(tempfile.mkdtemp(prefix="metadata-bench-"))
    process = SERVERS[name](folder)
    try:
        yield process
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(processes: dict[str, Process], scale: float, results: Results) -> None:
    """Run all works on the servers, each in slices that take turns, and append the figures of every slice."""
    for name, process in processes.items():
        results["ready, s"][name].append(process.ready_s)
    time.sleep(0.5)
    sessions = {}
    for name, process in processes.items():
        results["memory at rest, MB"][name].append(process.memory_mb())
        session = sessions[name] = Session(process.port)
        session.pipeline([encode_request(1, Create(Op.CREATE, "/bench", b"", OPEN_ACL, 0))], 1)
        # Not measured: Java's compiler needs it.
        for work in ("create", "set", "get", "multi", "delete"):
            session.pipeline(encoded(work, max(int(8000 * scale), 200)), 64)
    for in_flight in (64, 1):
        for work, count in (("create", 8000), ("set", 8000), ("get", 20_000), ("multi", 4000)):
            frames = encoded(work, max(int(count * scale) // (1 if in_flight > 1 else 8), 200))
            for i in range(SLICES):
                slice_ = frames[len(frames) * i // SLICES : len(frames) * (i + 1) // SLICES]
                for name in sorted(processes, reverse=bool(i % 2)):
                    cpu, begun = processes[name].cpu_s(), time.perf_counter()
                    sessions[name].pipeline(slice_, in_flight)
                    seconds = time.perf_counter() - begun
                    cpu = processes[name].cpu_s() - cpu
                    figure = f"{work}, {in_flight} in flight"
                    results[f"{figure}, op/s"][name].append(len(slice_) / seconds)
                    results[f"{figure}, CPU µs"][name].append(cpu / len(slice_) * 1e6)
        created = max(int(8000 * scale) // (1 if in_flight > 1 else 8), 200)
        for session in sessions.values():
            session.pipeline(encoded("delete", created), 64)
    for name, process in processes.items():
        delay_ms = watch_delay_ms(process.port, 200)
        results["event behind its answer, ms"][name].append(delay_ms)
        results["memory afterwards, MB"][name].append(process.memory_mb())
        sessions[name].close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--alone", action="store_true", help="without Apache's")
    arguments = parser.parse_args()
    names = ["ours"] if arguments.alone else list(SERVERS)
    results: Results = defaultdict(lambda: defaultdict(list))
    for _ in range(arguments.rounds):
        with ExitStack() as stack:
            processes = {name: stack.enter_context(running(name)) for name in names}
            measure(processes, arguments.scale, results)
    print("| figure | " + " | ".join(names) + " | ours to Apache's |")
    print("|---|" + "---|" * (len(names) + 1))
    for figure, by_name in results.items():
        medians = [statistics.median(by_name[name]) for name in names]
        ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) > 1 and medians[1] else ""
        print(f"| {figure} | " + " | ".join(f"{m:,.3g}" for m in medians) + f" | {ratio} |")


if __name__ == "__main__":
    main()
