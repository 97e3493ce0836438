"""Sides that are measured: a running server with one way to sync, and a load program of its own for each work."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.contenders import cpu_s, kilobytes
from tests.bench.figures import Figures

STARTED_S, WORK_S = 120.0, 300.0
WINDOW = 1000
"""Messages in flight where a work has many."""

Work = Callable[[int], tuple[Figures, int]]
"""Takes about how many messages; returns figures, and how many messages the CPU is divided by, 0 where it is not."""


class MissingError(Exception):
    """A program is not on this machine; the text says how to get it."""


@dataclass(frozen=True)
class Side:
    """``works`` by name. ``share`` of the messages that a work has for others: a slow side needs fewer for a second."""

    name: str
    pids: Sequence[int]
    start_s: float
    works: dict[str, Work]
    share: float = 1.0

    def run(self, work: str, messages: int) -> Figures:
        """Return the figures of one round, with the CPU time of the server."""
        before = cpu_s(self.pids)
        figures, stored = self.works[work](max(int(messages * self.share), 200))
        if stored:
            figures["CPU µs/message"] = (cpu_s(self.pids) - before) / stored * 1e6
        return figures

    def pss_mb(self) -> float:
        return sum(kilobytes(pid, "Pss:") for pid in self.pids) / 1024


def found(name: str, remedy: str) -> str:
    """Return the path of a program. Raises MissingError."""
    path = shutil.which(name)
    if path is None:
        raise MissingError(f"no {name} on PATH. Mend it with: {remedy}")
    return path


def output_of(command: Sequence[str]) -> str:
    """Run a program to its end; return what it printed. Raises RuntimeError."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORK_S)
    if done.returncode:
        output = (done.stdout + done.stderr)[-500:]
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {output}")
    return done.stdout + done.stderr


@contextmanager
def server(command: Sequence[str], port: int, log: Path) -> Iterator[tuple[int, float]]:
    """Run a server for the length of the block; yield its process and the seconds until it listened."""
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > began + STARTED_S:
                    raise RuntimeError(f"{command[0]}: {log.read_text()[-500:]}") from error
                time.sleep(0.005)
        yield process.pid, time.monotonic() - began
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
