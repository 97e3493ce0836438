"""A process that has imported the bookie and forks one for each life: importing takes longer than most of them live.

``python -m tests.crash.kit.nursery <socket>``: each connection requests one life (a line of JSON with plan, arguments,
environment, log). It receives the process id, and the exit status at the end. The end of a process ends its children.
"""

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from tests.crash.kit import faulty_bookie
from tests.crash.kit.lossy_disk import Plan

ROOT = Path(__file__).resolve().parents[3]
TURN_S = 0.05


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def serve(path: str) -> None:
    die_with_parent()
    # A bookie imports these only when it needs them.
    for late in ("engine.metadata.zookeeper", "rocksdict"):
        importlib.import_module(late)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    while True:
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            keep(link)
        link.close()


def keep(link: socket.socket) -> NoReturn:
    """Wait for one bookie and report its exit status."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    life = json.loads(link.makefile().readline())
    pid = os.fork()
    if pid == 0:
        link.close()
        live(life)
    link.sendall(b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    link.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def live(life: dict[str, Any]) -> NoReturn:
    """Run the bookie up to the end of the interpreter."""
    die_with_parent()
    log = os.open(life["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(life["env"])
    raise SystemExit(faulty_bookie.main(Plan(**life["plan"]), life["arguments"]))


class Life:
    """A bookie's process, as ``subprocess.Popen`` would show it."""

    def __init__(self, path: str, life: dict[str, Any]) -> None:
        self._link = socket.socket(socket.AF_UNIX)
        try:
            self._link.connect(path)
        except OSError:
            self._link.close()
            raise
        self._link.sendall(json.dumps(life).encode() + b"\n")
        self._received = b""
        self.returncode: int | None = None
        self._turn = threading.Lock()
        self.pid = int(self._line(10.0))

    def _line(self, timeout_s: float) -> bytes:
        """Return the next line. Raises TimeoutError; the bytes received so far are kept."""
        self._link.settimeout(timeout_s)
        try:
            while b"\n" not in self._received:
                more = self._link.recv(64)
                assert more, "the nursery is gone"
                self._received += more
        except BlockingIOError as error:
            raise TimeoutError from error
        line, self._received = self._received.split(b"\n", 1)
        return line

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired. Several threads may wait."""
        until = time.monotonic() + timeout
        while self.returncode is None:
            with self._turn:
                if self.returncode is None:
                    try:
                        self.returncode = int(self._line(TURN_S if timeout else 0.0))
                        self._link.close()
                    except TimeoutError:
                        if time.monotonic() >= until:
                            raise subprocess.TimeoutExpired("bookie", timeout) from None
        return self.returncode


class Nursery:
    """Started when the first life is asked for; ends with this process."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._path = ""

    def begin(self, life: dict[str, Any]) -> Life:
        if self._child is None:
            self._path = tempfile.mkdtemp(prefix="nursery-") + "/socket"
            command = [sys.executable, "-m", "tests.crash.kit.nursery", self._path]
            self._child = subprocess.Popen(command, cwd=ROOT)
        until = time.monotonic() + 30
        while True:
            try:
                return Life(self._path, life)
            except (FileNotFoundError, ConnectionRefusedError):
                assert self._child.poll() is None, "the nursery did not start"
                assert time.monotonic() < until, "the nursery does not listen"
                time.sleep(0.02)

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            os.remove(self._path)
            os.rmdir(os.path.dirname(self._path))
            self._child = None


if __name__ == "__main__":
    serve(sys.argv[1])
