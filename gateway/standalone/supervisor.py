"""The supervisor of an instance, which starts its children, restarts them, serves the control socket and stops them."""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

from engine.base import log as logs
from engine.base.errors import MagnetarError
from gateway.standalone.control import STOPPING, reachable
from gateway.standalone.leftovers import die_with_parent
from gateway.standalone.on_demand.spark_setup import SparkSetup
from gateway.standalone.plan import WORKER_KEY, Child, Ready

POLL_S = 0.05
POLL_MAX_S = 0.5
DELAY_S = 0.5
DELAY_MAX_S = 10.0
STEADY_S = 5.0
READY_S = 60.0
"""Time for which a starting child may be inactive: without processor time, log output or a restart."""
READY_MAX_S = 600.0
ENDS_MAX = 2
"""Number of times that a starting child may end before a request for it fails; it is started again nevertheless."""
SAME_ENDS_MAX = 5
"""Number of times that a child which never was ready may end in the same way before the instance is ready, which takes
15 seconds. Then the instance stops: another start would not help."""
QUIET_S = 10.0
REQUEST_MAX = 4096
REQUEST_S = 30.0
LOG_KEEP_BYTES = 64 << 20
LOG_CHECK_S = 5.0
LAST_MESSAGE_MAX = 1000
"""Characters. Room for a path several times and the remedy, which is at the end of a message."""
STACK_LINES = 60
STORE = "zookeeper"
"""Name of the metadata server."""
CAUSE = "Caused by: "
DIGITS = re.compile(r"\d+")
HARMLESS = re.compile(r"WARNING: ")
"""Java's warnings about its own options and modules."""
VERBS = ("stop", "kill", "start", "need")
"""Requests about a child. ``need`` starts one as ``start`` does, and what it will need, unless it was stopped by a
request."""
SETUP_VERBS = ("install-spark", "spark-setup")
"""Requests about the installation of Spark: to begin it, and for its state."""
NO_LISTENERS: Mapping[int, socket.socket] = {}


log = logging.getLogger("magnetar")


def report(text: str) -> None:
    """Log one line for the user who started the instance."""
    log.info("%s", text)


def configure_output(form: str, stream: TextIO | None = None) -> None:
    """Send reports to ``stream`` or standard output, as ``text`` for people or as ``json``."""
    handler = logging.StreamHandler(sys.stdout if stream is None else stream)
    plain = logging.Formatter("%(name)s: %(message)s")
    handler.setFormatter(logs.formatter(form) if form == "json" else plain)
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def fail(text: str, code: int = 1) -> NoReturn:
    """Print one line with the problem and its remedy, then exit with ``code``."""
    print(f"magnetar: {text}", file=sys.stderr)
    sys.exit(code)


class ChildState(Enum):
    """State of a child. ``backoff``: it ended by itself and will be started again; ``stopped``: it ended on request."""

    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPED = "stopped"


class LogFile:
    """The output of a child: at most about ``2 * keep_bytes`` on disk, the older half in ``<name>.log.1``."""

    def __init__(self, path: Path, keep_bytes: int = LOG_KEEP_BYTES) -> None:
        self.path = path
        self._keep_bytes = keep_bytes

    def rotate(self) -> None:
        """Copy the end of a file longer than ``keep_bytes`` to ``.log.1`` and truncate the file.

        The child's own descriptor stays valid. Lines written between the copy and the truncation are lost, as with
        logrotate's copytruncate.
        """
        try:
            size = self.path.stat().st_size
            if size <= self._keep_bytes:
                return
            with self.path.open("rb+") as log, self.path.with_suffix(".log.1").open("wb") as old:
                log.seek(size - self._keep_bytes)
                shutil.copyfileobj(log, old)
                log.truncate(0)
        except FileNotFoundError:
            return

    def last_message(self) -> str:
        """Return the line that explains best why the child ended, of at most LAST_MESSAGE_MAX; else an empty text.

        It is the last critical record, else the innermost cause of a Java stack trace, else the last error, else the
        last line.
        """
        try:
            with self.path.open("rb") as log:
                log.seek(max(self.path.stat().st_size - 8192, 0))
                lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        except OSError:
            return ""
        lines = [_as_text(line) for line in lines if line and not HARMLESS.match(line)]
        critical = [line for line in lines[-20:] if " CRITICAL " in line]
        causes = [
            line.removeprefix(CAUSE) for line in lines[-STACK_LINES:] if line.startswith(CAUSE)
        ]
        errors = [line for line in lines[-20:] if " ERROR " in line]
        return logs.one_line((critical or causes or errors or lines or [""])[-1][:LAST_MESSAGE_MAX])


def _as_text(line: str) -> str:
    """Return a record of ``log_format`` json in the form of ``text``; any other line unchanged."""
    try:
        record = json.loads(line)
        return " ".join(str(record[name]) for name in ("time", "level", "logger", "message"))
    except (ValueError, TypeError, KeyError):
        return line


async def is_ready(ready: Ready, host: str, pid: int = 0) -> bool:
    """Return whether the process ``pid`` is ready; takes two seconds at most."""
    if ready.kind == "alive":
        return True
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, ready.port)
            try:
                if ready.kind == "tcp":
                    return True
                if ready.password_file is not None:
                    writer.write(f"AUTH {ready.password_file.read_text()}\r\n".encode())
                    if await reader.readline() != b"+OK\r\n":
                        return False
                if ready.kind == "redis":
                    writer.write(b"PING\r\n")
                    return await reader.readline() == b"+PONG\r\n"
                if ready.kind == "worker":
                    writer.write(f"GET {WORKER_KEY}\r\n".encode())
                    await reader.readline()  # The length of the value.
                    return await reader.readline() == f"{pid}\r\n".encode()
                if ready.kind == "zookeeper":
                    writer.write(b"srvr")  # ``ruok`` is answered before the database is loaded.
                    return (await reader.readline()).startswith(b"Zookeeper version")
                writer.write(
                    f"GET {ready.path} HTTP/1.0\r\nHost: {host}:{ready.port}\r\n\r\n".encode()
                )
                head = await reader.readline()
                return head.split()[1:2] == [b"200"]
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


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


class Supervisor:
    """All children of one instance."""

    def __init__(
        self,
        specs: Sequence[Child],
        *,
        log_dir: Path,
        host: str,
        control_socket: Path,
        listeners: Mapping[int, socket.socket] = NO_LISTENERS,
        report: Callable[[str], None] = report,
        spark_setup: SparkSetup | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``spark_setup`` installs Spark on request; None where Spark is a server elsewhere. ``prepare`` is called once
        the metadata server is ready, and what needs that server starts after it."""
        self._report = report
        self._spark_setup = spark_setup
        self._children: Mapping[str, ChildProcess] = {
            spec.name: ChildProcess(spec, log_dir, self._report, host, listeners) for spec in specs
        }
        self._socket_path = control_socket
        self._prepare = prepare
        self._prepared = asyncio.Event()
        self._stopping = asyncio.Event()
        self.closing = False
        self._serving = False
        self._exit_code = 0

    async def run(self, banner: Callable[[float], str]) -> int:
        """Start all children and serve until SIGINT or SIGTERM; return the exit code.

        It is EX_CONFIG when a child refuses its settings before the instance is ready.
        """
        # The name must be valid to the end: Python 3.13 reads it again when the server closes.
        with reachable(self._socket_path) as name:
            return await self._run(banner, name)

    async def _run(self, banner: Callable[[float], str], socket_name: str) -> int:
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        server = await asyncio.start_unix_server(self._serve, socket_name)
        os.chmod(self._socket_path, 0o600)
        tasks = [
            loop.create_task(self._start_all(began, banner)),
            loop.create_task(self._rotate_logs()),
            *(
                loop.create_task(stop(child))
                for child in self._children.values()
                for stop in (self._stop_when_refused, self._stop_when_hopeless)
            ),
        ]
        await self._stopping.wait()
        self.closing = True
        self._report("stopping; Ctrl-C kills what is left")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # No task starts a child from here on.
        server.close()
        if self._spark_setup is not None:
            await self._spark_setup.stop()
        await self._stop_all()
        self._socket_path.unlink(missing_ok=True)
        return self._exit_code

    def _on_signal(self, number: int) -> None:
        # A second SIGTERM does not kill: some programs send it to a process and to its parent, which forwards it.
        if self._stopping.is_set() and number == signal.SIGINT:
            self._report("killing what is left")
            for child in self._children.values():
                child.end_now()
        self._stopping.set()

    async def _stop_when_refused(self, child: ChildProcess) -> None:
        await child.refused.wait()
        if not self._serving and not child.spec.serves:
            self._exit_code = os.EX_CONFIG
            self._stopping.set()

    async def _stop_when_hopeless(self, child: ChildProcess) -> None:
        await child.hopeless.wait()
        if not self._serving and not child.spec.serves:
            self._report(
                f"{child.spec.name} cannot start, and each attempt ended alike ({child.hopeless_cause});"
                f" log: {child.log.path}"
            )
            self._exit_code = 1
            self._stopping.set()

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_CHECK_S)
            for child in self._children.values():
                try:
                    child.log.rotate()
                except OSError as error:  # For example a full disk.
                    self._report(f"cannot shorten {child.log.path}: {error.strerror}")

    async def _start_all(self, began: float, banner: Callable[[float], str]) -> None:
        waiting = [child for child in self._children.values() if not child.spec.on_demand]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prepare_store())
            for child in waiting:
                group.create_task(self._start_when_due(child))
            group.create_task(self._report_progress(waiting, began, banner))

    async def _prepare_store(self) -> None:
        while self._prepare is not None:
            await self._children[STORE].ready.wait()
            try:
                await self._prepare()
                break
            except MagnetarError as error:
                self._report(f"the records of the clusters are not written yet: {error}")
                await asyncio.sleep(DELAY_S)
        self._prepared.set()

    async def _start_when_due(self, child: ChildProcess) -> None:
        for need in child.spec.needs:
            await self._children[need].ready.wait()
        if STORE in child.spec.needs:
            await self._prepared.wait()
        # A child that was stopped by a request meanwhile stays down until it is started by one.
        if child.state is not ChildState.STOPPED:
            child.start()
        await child.ready.wait()

    async def _report_progress(
        self, waiting: Sequence[ChildProcess], began: float, banner: Callable[[float], str]
    ) -> None:
        """Report when a child becomes ready, and when the instance is.

        While nothing changes, report the children that are not ready, after QUIET_S and then in growing intervals.
        """
        starting = list(waiting)
        quiet_since, quiet_s = time.monotonic(), QUIET_S
        while starting:
            ready = [child for child in starting if child.ready.is_set()]
            for child in ready:
                took = time.monotonic() - began
                ports = ", ".join(f"{label} {port}" for label, port in child.spec.ports.items())
                self._report(
                    f"{child.spec.name} is ready after {took:.1f} s{': ' if ports else ''}{ports}"
                )
                quiet_since, quiet_s = time.monotonic(), QUIET_S
            # A request starts a child again that refused its settings; the instance serves without.
            starting = [
                child
                for child in starting
                if child not in ready and not (child.spec.serves and child.refused.is_set())
            ]
            if not self._serving and all(child.spec.serves for child in starting):
                self._serving = True
                self._report(banner(time.monotonic() - began))
            if starting and time.monotonic() - quiet_since > quiet_s:
                names = ", ".join(child.spec.name for child in starting)
                self._report(f"still waiting for {names}")
                quiet_since, quiet_s = time.monotonic(), quiet_s * 1.5
            await asyncio.sleep(POLL_S)

    async def _stop_all(self) -> None:
        """Stop each kind of child before the servers that it needs to end properly."""
        order = (
            *("worker", "gateway", "spark", "functions", "proxy", "broker", "bookie", "redis"),
            STORE,
        )
        for kind in order:
            of_kind = [
                child
                for name, child in self._children.items()
                if name.rpartition(".")[2].split("-")[0] == kind
            ]
            await asyncio.gather(*(child.stop() for child in of_kind))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                line = await reader.readline()
            answer = await self._answer(line)
            async with asyncio.timeout(REQUEST_S):
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except asyncio.CancelledError:
            if not self.closing:
                raise
            # The loop ends while a client has sent no request; asyncio's streams would log a cancelled handler.
        except (OSError, TimeoutError, ValueError) as error:
            self._report(f"a control request failed: {error}")
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line[:REQUEST_MAX])
            verb, name = str(request["verb"]), str(request.get("name", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            return {"error": 'expected one line {"verb": …, "name": …}'}
        if verb == "status":
            return {"pid": os.getpid(), "children": [c.describe() for c in self._children.values()]}
        if verb in SETUP_VERBS:
            return await self._answer_setup(verb)
        if verb not in VERBS:
            return {"error": f"unknown verb {verb!r}; known: status, {', '.join(VERBS)}"}
        child = self._find(name)
        if child is None:
            return {"error": f"no child named {name!r}; there are: {', '.join(self._children)}"}
        if self.closing:
            return {"error": STOPPING}
        if verb == "stop":
            await child.stop()
        elif verb == "kill":
            if child.describe()["pid"] is None:
                return {"error": f"{name} is not running (state {child.state.value})"}
            child.kill()
            await child.ended()  # so that the next status is not of the killed process
        elif verb == "need" and child.state is ChildState.STOPPED:
            return {"error": f"{name} was stopped by a request"}
        elif problem := await self._start(child, with_later=verb == "need"):
            return {"error": problem, "children": [child.describe()]}
        return {"children": [child.describe()]}

    async def _answer_setup(self, verb: str) -> dict[str, Any]:
        if self._spark_setup is None:
            return {"error": "this instance uses a Spark server that it does not run"}
        if verb == "install-spark":
            if self.closing:
                return {"error": STOPPING}
            await self._spark_setup.start()
        return {"spark": await self._spark_setup.describe()}

    async def _start(self, child: ChildProcess, with_later: bool = False) -> str:
        """Start a child, and before it those of its needs that are on demand and were not started yet; ``with_later``
        also what it will need, at the same time.

        Returns the problem when one does not become ready, else an empty text.
        """
        for later in child.spec.will_need if with_later else ():
            if self._children[later].state is ChildState.DOWN:
                self._children[later].start()
        for need in (self._children[name] for name in child.spec.needs):
            if need.state is ChildState.DOWN:
                need.start()
            elif need.state is ChildState.STOPPED:
                return f"{need.spec.name}, which {child.spec.name} needs, was stopped by a request"
            if problem := await self._until_ready(need):
                return problem
        child.start()
        return await self._until_ready(child)

    def _find(self, name: str) -> ChildProcess | None:
        """Return the child of this name; a broker also by the id it registers with, ``host:HTTP port``.

        A console knows only the id. The host may be any that the broker advertises, since ports are unique within an
        instance.
        """
        child = self._children.get(name)
        port = name.rpartition(":")[2]
        if child is not None or not port.isdecimal():
            return child
        brokers = (child for child in self._children.values() if "pulsar" in child.spec.ports)
        return next((child for child in brokers if child.spec.ports.get("http") == int(port)), None)

    async def _until_ready(self, child: ChildProcess) -> str:
        """Wait until the child is ready; return the problem when it does not become ready, else an empty text.

        Waits while the child is active, at most READY_MAX_S, not while the instance stops, not when the child refuses
        its settings, and not when it has ended ENDS_MAX times.
        """
        loop = asyncio.get_running_loop()
        waits = [loop.create_task(event.wait()) for event in (child.ready, self._stopping)]
        began = active = time.monotonic()
        activity = child.activity()
        ends = child.restarts
        failed = False
        while not (child.ready.is_set() or self._stopping.is_set() or failed):
            await asyncio.wait(waits, timeout=POLL_MAX_S, return_when=asyncio.FIRST_COMPLETED)
            now = time.monotonic()
            if (latest := child.activity()) != activity:
                activity, active = latest, now
            failed = child.refused.is_set() or child.restarts - ends >= ENDS_MAX
            if now - active > READY_S or now - began > READY_MAX_S:
                break
        for wait in waits:
            wait.cancel()
        if child.ready.is_set():
            return ""
        if self._stopping.is_set():
            return STOPPING
        message = child.log.last_message()
        if failed:
            return f"{child.spec.name} ends while it starts: {message}; log: {child.log.path}"
        took_s = time.monotonic() - began
        return f"{child.spec.name} was started but is not ready after {took_s:.0f} s; its log ends: {message}"
