"""Processes of a machine, which is killed, stopped and started as a whole."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY_S = 90.0


@dataclass
class Part:
    """A program of a machine. ``is_ready`` connects to it as its users do."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    is_ready: Callable[[], bool]
    child: subprocess.Popen[bytes] | None = None

    def end(self) -> str:
        """Return whether the process lives, for a report."""
        return "never started" if self.child is None else f"exit status {self.child.poll()}"


@dataclass
class Machine:
    """A machine with its processes, in the order of their start."""

    number: int
    address: str
    folder: Path
    parts: list[Part] = field(default_factory=list)
    wrap: Callable[[Sequence[str]], list[str]] = list

    def __str__(self) -> str:
        return f"machine {self.number} ({', '.join(part.name for part in self.parts)})"

    def log(self, part: Part) -> Path:
        return self.folder / f"{part.name}.log"

    def start(self) -> None:
        """Start the processes that do not run, without waiting for them."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith("MAGNETAR_")}
        for part in self.parts:
            if part.child is not None and part.child.poll() is None:
                continue
            with self.log(part).open("ab") as log:
                part.child = subprocess.Popen(
                    self.wrap(part.argv),
                    cwd=ROOT,
                    env=environ | dict(part.env),
                    stdout=log,
                    stderr=log,
                )

    def restart_ended(self) -> None:
        """Start again what ended by itself, as a service manager does."""
        if self.running:
            self.start()

    @property
    def running(self) -> bool:
        return any(part.child is not None for part in self.parts)

    def wait_ready(self, timeout_s: float = READY_S) -> float:
        """Wait until all parts serve; return the seconds. Raises RuntimeError with the end of a log."""
        began = time.monotonic()
        for part in self.parts:
            while not part.is_ready():
                if time.monotonic() - began > timeout_s:
                    text = self.log(part).read_text(errors="replace")[-3000:]
                    raise RuntimeError(
                        f"{part.name} of {self} is not ready ({part.end()}):\n{text}"
                    )
                self.restart_ended()
                time.sleep(0.1)
        return time.monotonic() - began

    def end(self, number: int = signal.SIGKILL, timeout_s: float = 40.0) -> float:
        """Signal all processes, the last started first, and wait for their end; return the seconds."""
        began = time.monotonic()
        children = [part.child for part in reversed(self.parts) if part.child is not None]
        for child in children:
            if child.poll() is None:
                child.send_signal(number)
                if number != signal.SIGKILL:
                    _ended(child, timeout_s)
        for child in children:
            _ended(child, timeout_s)
        for part in self.parts:
            part.child = None
        return time.monotonic() - began

    def pause(self, *, stopped: bool) -> None:
        """Stop or continue all processes, as a machine that is suspended."""
        for part in self.parts:
            if part.child is not None:
                part.child.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)


def _ended(child: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(10)
