"""A child of an instance and its processes: they are spawned, checked, signalled and started again."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from gateway.standalone.children.log_file import LogFile
from gateway.standalone.children.readiness import is_ready
from gateway.standalone.leftovers import die_with_parent
from gateway.standalone.plan import Child

POLL_S = 0.05
POLL_MAX_S = 0.5
DELAY_S = 0.5
DELAY_MAX_S = 10.0
STEADY_S = 5.0
SAME_ENDS_MAX = 5
"""Number of times that a child which never was ready may end in the same way before the instance is ready, which takes
15 seconds. Then the instance stops: another start would not help."""
DIGITS = re.compile(r"\d+")
NO_LISTENERS: Mapping[int, socket.socket] = {}


class ChildState(Enum):
    """State of a child. ``backoff``: it ended by itself and will be started again; ``stopped``: it ended on request."""

    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPED = "stopped"


class ChildProcess:
    """A child and its current process.

    One task spawns the processes, one after the other; all other callers set what is wanted. A request applies to the
    current process and to one that is being spawned, so it is carried out at once or right after the spawn.
    """

    def __init__(
        self,
        spec: Child,
        log_dir: Path,
        report: Callable[[str], None],
        host: str,
        listeners: Mapping[int, socket.socket] = NO_LISTENERS,
    ) -> None:
        """``listeners`` are those of the instance, by port."""
        self.spec = spec
        self._descriptors = {
            word: listeners[port].fileno() for word, port in spec.listeners.items()
        }
        self.state = ChildState.DOWN
        self.restarts = 0
        self.process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()
        self.wanted = False
        self.refused = asyncio.Event()
        self.hopeless = asyncio.Event()
        self.hopeless_cause = ""
        self._last_cause = ""
        self._same_ends = 0
        self.log = LogFile(log_dir / f"{spec.name}.log")
        self._report = report
        self._host = host
        self._supervisor_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._signalled = False
        self._stop_requested = False
        self._kill_at_once = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._ready_at = 0.0

    def start(self) -> None:
        """Request that the child runs.

        A running process is kept, and a delayed restart happens at once. After ``stop``, even one that is not finished,
        a new process is started.
        """
        self.wanted = True
        self._wake.set()
        if self._supervisor_task is None or self._supervisor_task.done():
            self.refused.clear()
            self._supervisor_task = asyncio.get_running_loop().create_task(self._supervise())

    async def stop(self) -> None:
        """Send SIGTERM, then SIGKILL after the child's own time-out; return when the process has ended.

        The child stays down until ``start``. A cancelled call stops it nevertheless.
        """
        self._request_end()
        await self._ended.wait()

    def end_now(self) -> None:
        """Stop the child by SIGKILL without waiting. A later ``stop`` sends SIGKILL at once, too."""
        self._kill_at_once = True
        self._request_end()

    def _request_end(self) -> None:
        self.wanted = False
        self._stop_requested = True
        self._wake.set()
        if self._ended.is_set():
            self.state = ChildState.STOPPED
        else:
            self._terminate()

    def kill(self) -> None:
        """Send SIGKILL to the process group, as a crash would end it; the child is then restarted."""
        if self._alive():
            self._signal_end(signal.SIGKILL)

    async def ended(self) -> None:
        """Return when no process of the child runs, if only for a moment."""
        await self._ended.wait()

    def activity(self) -> tuple[int, int, int]:
        """Return numbers that grow while the child works: its restarts, processor time in ticks, and bytes of log."""
        ticks = size = 0
        with contextlib.suppress(OSError):
            size = self.log.path.stat().st_size
            if self.process is not None:
                stat = Path(f"/proc/{self.process.pid}/stat").read_text()
                user, system = stat.rpartition(")")[2].split()[11:13]
                ticks = int(user) + int(system)
        return self.restarts, ticks, size

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "cluster": self.spec.cluster,
            "pid": self.process.pid if self.process is not None and self._alive() else None,
            "ports": dict(self.spec.ports),
            "state": self.state.value,
            "restarts": self.restarts,
        }

    def _alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def _signal_end(self, number: int) -> None:
        """Signal the current process to end; it is not ready any more."""
        self._signalled = True
        self.ready.clear()
        self._signal(number)

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def _terminate(self) -> None:
        if not self._alive():
            return  # A spawn that is under way checks the request when it is done.
        if self._kill_at_once:
            self._signal_end(signal.SIGKILL)
        elif self._kill_timer is None:
            self._signal_end(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            self._kill_timer = loop.call_later(self.spec.stop_timeout_s, self._kill_overdue)

    def _kill_overdue(self) -> None:
        self._report(f"{self.spec.name} did not stop in {self.spec.stop_timeout_s:.0f} s: killed")
        self._signal(signal.SIGKILL)

    async def _supervise(self) -> None:
        """Run the child and restart it until it is no longer wanted."""
        delay_s = DELAY_S
        while self.wanted:
            began = time.monotonic()
            code, message = await self._run_once()
            if self._stop_requested:
                delay_s = DELAY_S  # A start after a stop is a request of its own, not a retry after a failure.
                continue
            self.restarts += 1
            if self._ready_at > began and time.monotonic() - self._ready_at > STEADY_S:
                # It served for a while, so an immediate restart is likely to succeed.
                delay_s = DELAY_S
            cause = f"signal {-code}" if code < 0 else f"exit {code}: {message}"
            if code == os.EX_CONFIG:
                without = f": {self.spec.serves} cannot run" if self.spec.serves else ""
                self._report(f"{self.spec.name} refuses its settings ({cause}){without}")
                self.refused.set()
                break
            self._count_end(cause)
            self.state = ChildState.BACKOFF
            without = f" {self.spec.serves} cannot run meanwhile;" if self.spec.serves else ""
            self._report(
                f"{self.spec.name} ended ({cause});{without} again in {delay_s:.1f} s; log: {self.log.path}"
            )
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), delay_s)
            delay_s = min(delay_s * 2, DELAY_MAX_S)
        self.state = ChildState.STOPPED

    def _count_end(self, cause: str) -> None:
        """Note an end; set ``hopeless`` when a child that never was ready ends in the same way repeatedly."""
        same = DIGITS.sub("", cause)  # Without times, process ids and sizes.
        self._same_ends = self._same_ends + 1 if same == self._last_cause else 1
        self._last_cause = same
        if not self._ready_at and self._same_ends >= SAME_ENDS_MAX:
            self.hopeless_cause = cause
            self.hopeless.set()

    async def _run_once(self) -> tuple[int, str]:
        """Run one process from its spawn to its end; return its exit code and last message."""
        self._ended.clear()
        self._stop_requested = self._signalled = False
        self.state = ChildState.STARTING
        try:
            if problem := await self._spawn():
                return 127, problem
            if self._stop_requested:
                self._terminate()
            return await self._wait_for_end(), self.log.last_message()
        finally:
            if self._kill_timer is not None:
                self._kill_timer.cancel()
                self._kill_timer = None
            self.ready.clear()
            self._ended.set()

    async def _spawn(self) -> str:
        """Spawn the process; return the problem when that fails, else an empty text."""
        try:
            # In append mode, so that the file may be truncated while it is written.
            log = self.log.path.open("ab")
        except OSError as error:
            return f"cannot open its log: {error.strerror}"
        with log:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *(str(self._descriptors.get(word, word)) for word in self.spec.argv),
                    pass_fds=tuple(self._descriptors.values()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.spec.env},
                    start_new_session=True,
                    preexec_fn=partial(die_with_parent, os.getpid()),
                )
            except OSError as error:
                return f"cannot run {self.spec.argv[0]}: {error.strerror}"
        return ""

    async def _wait_for_end(self) -> int:
        """Poll until the process is ready, then wait until it ends; return its exit code."""
        assert self.process is not None
        ended = asyncio.get_running_loop().create_task(self.process.wait())
        pause_s = POLL_S
        while not (ended.done() or self._signalled or self.ready.is_set()):
            if not await is_ready(self.spec.ready, self._host, self.process.pid):
                await asyncio.wait([ended], timeout=pause_s)
                pause_s = min(pause_s * 1.1, POLL_MAX_S)
            elif not (ended.done() or self._signalled):
                self.state = ChildState.RUNNING
                self._ready_at = time.monotonic()
                self.ready.set()
        code = await ended
        # Descendants in its process group may still run, such as a worker's pool.
        self._signal(signal.SIGKILL)
        return code
