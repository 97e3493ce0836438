"""Start an instance's children, keep them running, answer the control socket, stop them in order."""

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from engine.base import log as logs
from gateway.standalone.control import reachable
from gateway.standalone.plan import LISTENER, WORKER_KEY, Child, Ready

PR_SET_PDEATHSIG = 1
POLL_S = 0.05
POLL_MAX_S = 0.5
DELAY_S = 0.5
DELAY_MAX_S = 10.0
STEADY_S = 5.0
READY_S = 60.0
"""How long a child that is waited for may neither compute nor say anything."""
READY_MAX_S = 150.0
QUIET_S = 10.0
REQUEST_MAX = 4096
REQUEST_S = 30.0
LOG_KEEP_BYTES = 64 << 20
LOG_LOOK_S = 5.0
LAST_WORDS_MAX = 300
STACK_LINES = 60
CAUSE = "Caused by: "
HARMLESS = re.compile(r"WARNING: ")
"""What Java says of its own options and modules."""
NO_LISTENERS: Mapping[int, socket.socket] = {}


log = logging.getLogger("magnetar")


def say(text: str) -> None:
    """One line to whoever started the instance."""
    log.info("%s", text)


def speak(form: str) -> None:
    """What is said goes to standard output from now on: ``text`` for people, who see it live, or ``json``."""
    handler = logging.StreamHandler(sys.stdout)
    plain = logging.Formatter("%(name)s: %(message)s")
    handler.setFormatter(logs.formatter(form) if form == "json" else plain)
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def fail(text: str) -> None:
    """One line that says what is wrong and how to mend it, then exit 1."""
    sys.exit(f"magnetar: {text}")


class State(Enum):
    """Life of a child. ``backoff``: it ended by itself and will be started again; ``stopped``: on request."""

    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPED = "stopped"


class LogFile:
    """Where a child writes: at most about ``2 * keep_bytes`` on disk, the older half in ``<name>.log.1``."""

    def __init__(self, path: Path, keep_bytes: int = LOG_KEEP_BYTES) -> None:
        self.path = path
        self._keep_bytes = keep_bytes

    def turn(self) -> None:
        """When it has become long, keep the end as ``.log.1`` and begin again.

        The child's own descriptor stays valid; lines written between the copy and the cut are lost, as with
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

    def last_words(self) -> str:
        """What the child said at the end, at most 300 characters: why it gave up, in its own words, else the innermost
        cause in a stack of Java's, else its last error, else its last line."""
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
        return logs.one_line((critical or causes or errors or lines or [""])[-1][:LAST_WORDS_MAX])


def _as_text(line: str) -> str:
    """A record of ``log_format`` json as one of ``text``; any other line as it is."""
    try:
        record = json.loads(line)
        return " ".join(str(record[name]) for name in ("time", "level", "logger", "message"))
    except (ValueError, TypeError, KeyError):
        return line


def _die_with_parent(supervisor: int) -> None:
    """In the child between fork and exec: end when the supervisor ends, however it ends, even before this line."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        os._exit(1)


async def is_ready(ready: Ready, host: str, pid: int = 0) -> bool:
    """Try once whether the process ``pid`` is ready; takes two seconds at most."""
    if ready.kind == "alive":
        return True
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, ready.port)
            try:
                if ready.kind == "tcp":
                    return True
                if ready.kind == "redis":
                    writer.write(b"PING\r\n")
                    return await reader.readline() == b"+PONG\r\n"
                if ready.kind == "worker":
                    writer.write(f"GET {WORKER_KEY}\r\n".encode())
                    await reader.readline()  # the length of what follows
                    return await reader.readline() == f"{pid}\r\n".encode()
                if ready.kind == "zookeeper":
                    writer.write(b"srvr")  # ruok says yes before there is a database
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


class Running:
    """A child and its present process.

    One task makes the processes, one after the other; everyone else says what is wanted. An order holds for the
    process that is there and for the one that is being made, so it is told at once or right after the spawn.
    """

    def __init__(
        self,
        spec: Child,
        log_dir: Path,
        say: Callable[[str], None],
        host: str,
        listener: socket.socket | None = None,
    ) -> None:
        self.spec = spec
        self._listener = listener
        self.state = State.DOWN
        self.restarts = 0
        self.process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()
        self.wanted = False
        self.refused = asyncio.Event()
        self.log = LogFile(log_dir / f"{spec.name}.log")
        self._say = say
        self._host = host
        self._keeper: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._gone = asyncio.Event()
        self._gone.set()
        self._doomed = False
        self._stop_asked = False
        self._hurried = False
        self._patience: asyncio.TimerHandle | None = None
        self._ready_at = 0.0

    def start(self) -> None:
        """Want it running; what is running stays, and what waits for its next try starts at once.

        After ``stop``, even one that is under way, a new process comes.
        """
        self.wanted = True
        self._again.set()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL after the child's own time-out; returns when it is gone. It stays down until
        ``start``. Cancelled: it is stopped all the same."""
        self._ask_to_end()
        await self._gone.wait()

    def end_now(self) -> None:
        """As ``stop``, by SIGKILL and without waiting. A ``stop`` that comes later has no patience either."""
        self._hurried = True
        self._ask_to_end()

    def _ask_to_end(self) -> None:
        self.wanted = False
        self._stop_asked = True
        self._again.set()
        if self._gone.is_set():
            self.state = State.STOPPED
        else:
            self._terminate()

    def kill(self) -> None:
        """SIGKILL to the whole process group, as a crash would; the child is started again by itself."""
        if self._alive():
            self._doom(signal.SIGKILL)

    def work(self) -> tuple[int, int, int]:
        """Return what grows while the child is at work: starts, its processor time in ticks, bytes of its log."""
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
            "pid": self.process.pid if self.process is not None and self._alive() else None,
            "ports": dict(self.spec.ports),
            "state": self.state.value,
            "restarts": self.restarts,
        }

    def _alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def _doom(self, number: int) -> None:
        """Signal the present process; it is ready for nobody any more."""
        self._doomed = True
        self.ready.clear()
        self._signal(number)

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def _terminate(self) -> None:
        if not self._alive():
            return  # the spawn under way looks when it is done
        if self._hurried:
            self._doom(signal.SIGKILL)
        elif self._patience is None:
            self._doom(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(self.spec.stop_timeout_s, self._out_of_patience)

    def _out_of_patience(self) -> None:
        self._say(f"{self.spec.name} did not stop in {self.spec.stop_timeout_s:.0f} s: killed")
        self._signal(signal.SIGKILL)

    async def _keep(self) -> None:
        """Run the child again and again until it is no longer wanted."""
        delay_s = DELAY_S
        while self.wanted:
            began = time.monotonic()
            code, words = await self._run_once()
            if self._stop_asked:
                delay_s = DELAY_S  # who wants it again after a stop wants it now
                continue
            self.restarts += 1
            if self._ready_at > began and time.monotonic() - self._ready_at > STEADY_S:
                delay_s = DELAY_S  # it served: whatever ended it is no reason to hesitate
            cause = f"signal {-code}" if code < 0 else f"exit {code}: {words}"
            if code == os.EX_CONFIG:
                without = f": {self.spec.serves} cannot run" if self.spec.serves else ""
                self._say(f"{self.spec.name} refuses its settings ({cause}){without}")
                self.refused.set()
                break
            self.state = State.BACKOFF
            without = f" {self.spec.serves} cannot run meanwhile;" if self.spec.serves else ""
            self._say(
                f"{self.spec.name} ended ({cause});{without} again in {delay_s:.1f} s; log: {self.log.path}"
            )
            self._again.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), delay_s)
            delay_s = min(delay_s * 2, DELAY_MAX_S)
        self.state = State.STOPPED

    async def _run_once(self) -> tuple[int, str]:
        """One process from its spawn to its end: exit code and last words."""
        self._gone.clear()
        self._stop_asked = self._doomed = False
        self.state = State.STARTING
        try:
            if problem := await self._spawn():
                return 127, problem
            if self._stop_asked:
                self._terminate()
            return await self._until_end(), self.log.last_words()
        finally:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
            self.ready.clear()
            self._gone.set()

    async def _spawn(self) -> str:
        """Make the process; what is wrong when that cannot be done."""
        try:
            log = self.log.path.open("ab")  # appending, so that it may be cut below its writer
        except OSError as error:
            return f"cannot open its log: {error.strerror}"
        passed = () if self._listener is None else (self._listener.fileno(),)
        with log:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *(word if word != LISTENER else str(*passed) for word in self.spec.argv),
                    pass_fds=passed,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.spec.env},
                    start_new_session=True,
                    preexec_fn=partial(_die_with_parent, os.getpid()),
                )
            except OSError as error:
                return f"cannot run {self.spec.argv[0]}: {error.strerror}"
        return ""

    async def _until_end(self) -> int:
        """Look until the process is ready, wait until it ends; its exit code."""
        assert self.process is not None
        ended = asyncio.get_running_loop().create_task(self.process.wait())
        pause_s = POLL_S
        while not (ended.done() or self._doomed or self.ready.is_set()):
            if not await is_ready(self.spec.ready, self._host, self.process.pid):
                await asyncio.wait([ended], timeout=pause_s)
                pause_s = min(pause_s * 1.1, POLL_MAX_S)
            elif not (ended.done() or self._doomed):
                self.state = State.RUNNING
                self._ready_at = time.monotonic()
                self.ready.set()
        code = await ended
        self._signal(signal.SIGKILL)  # what the dead child left behind, pool children for one
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
        say: Callable[[str], None] = say,
    ) -> None:
        self._say = say
        self._children: Mapping[str, Running] = {
            spec.name: Running(spec, log_dir, self._say, host, listeners.get(spec.listener))
            for spec in specs
        }
        self._socket_path = control_socket
        self._stopping = asyncio.Event()
        self.closing = False
        self._serving = False
        self._exit_code = 0

    async def run(self, banner: Callable[[float], str]) -> int:
        """Start everything and serve until SIGINT or SIGTERM; the exit code.

        1 when a child says on its first start that its settings are wrong.
        """
        # for all that time: Python 3.13 looks at the name again when the server ends
        with reachable(self._socket_path) as name:
            return await self._run(banner, name)

    async def _run(self, banner: Callable[[float], str], socket_name: str) -> int:
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        server = await asyncio.start_unix_server(self._serve, socket_name)
        os.chmod(self._socket_path, 0o600)
        work = [
            loop.create_task(self._start_all(began, banner)),
            loop.create_task(self._turn_logs()),
            *(
                loop.create_task(self._stop_when_refused(child))
                for child in self._children.values()
            ),
        ]
        await self._stopping.wait()
        self.closing = True
        self._say("stopping; Ctrl-C kills what is left")
        for task in work:
            task.cancel()
        await asyncio.wait(work)  # nobody starts a child from here on
        server.close()
        await self._stop_all()
        self._socket_path.unlink(missing_ok=True)
        return self._exit_code

    def _on_signal(self, number: int) -> None:
        # Some who end a program send SIGTERM to it and to its parent, which passes it on: two of them mean no hurry.
        if self._stopping.is_set() and number == signal.SIGINT:
            self._say("killing what is left")
            for child in self._children.values():
                child.end_now()
        self._stopping.set()

    async def _stop_when_refused(self, child: Running) -> None:
        await child.refused.wait()
        if not self._serving and not child.spec.serves:
            self._exit_code = 1
            self._stopping.set()

    async def _turn_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_LOOK_S)
            for child in self._children.values():
                try:
                    child.log.turn()
                except OSError as error:  # a full disk, for one
                    self._say(f"cannot shorten {child.log.path}: {error.strerror}")

    async def _start_all(self, began: float, banner: Callable[[float], str]) -> None:
        waiting = [child for child in self._children.values() if not child.spec.on_demand]
        async with asyncio.TaskGroup() as group:
            for child in waiting:
                group.create_task(self._start_when_due(child))
            group.create_task(self._report_progress(waiting, began, banner))

    async def _start_when_due(self, child: Running) -> None:
        for need in child.spec.needs:
            await self._children[need].ready.wait()
        if (
            child.state is not State.STOPPED
        ):  # somebody stopped it meanwhile: then it waits for whoever starts it
            child.start()
        await child.ready.wait()

    async def _report_progress(
        self, waiting: Sequence[Running], began: float, banner: Callable[[float], str]
    ) -> None:
        """Say when a child becomes ready, and when the instance is; while nothing moves whom that waits for, after ten
        seconds and then ever more rarely."""
        left = list(waiting)
        quiet_since, quiet_s = time.monotonic(), QUIET_S
        while left:
            done = [child for child in left if child.ready.is_set()]
            for child in done:
                took = time.monotonic() - began
                ports = ", ".join(f"{label} {port}" for label, port in child.spec.ports.items())
                self._say(
                    f"{child.spec.name} is ready after {took:.1f} s{': ' if ports else ''}{ports}"
                )
                quiet_since, quiet_s = time.monotonic(), QUIET_S
            left = [child for child in left if child not in done]
            if not self._serving and all(child.spec.serves for child in left):
                self._serving = True
                self._say(banner(time.monotonic() - began))
            if left and time.monotonic() - quiet_since > quiet_s:
                self._say(f"still waiting for {', '.join(child.spec.name for child in left)}")
                quiet_since, quiet_s = time.monotonic(), quiet_s * 1.5
            await asyncio.sleep(POLL_S)

    async def _stop_all(self) -> None:
        """From the outside in: nobody loses the server it needs to finish properly."""
        order = ("worker", "gateway", "spark", "broker", "bookie", "redis", "zookeeper")
        for kind in order:
            some = [c for name, c in self._children.items() if name.split("-")[0] == kind]
            await asyncio.gather(*(child.stop() for child in some))

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
            # The loop ends under a client that said nothing; asyncio's streams would report a cancelled handler.
        except (OSError, TimeoutError, ValueError) as error:
            self._say(f"a control request failed: {error}")
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
        if verb not in ("stop", "kill", "start"):
            return {"error": f"unknown verb {verb!r}; known: status, stop, kill, start"}
        child = self._find(name)
        if child is None:
            return {"error": f"no child named {name!r}; there are: {', '.join(self._children)}"}
        if self.closing:
            return {"error": "the instance is stopping"}
        if verb == "stop":
            await child.stop()
        elif verb == "kill":
            if child.describe()["pid"] is None:
                return {"error": f"{name} is not running (state {child.state.value})"}
            child.kill()
        else:
            child.start()
            if problem := await self._until_ready(child):
                return {"error": problem, "children": [child.describe()]}
        return {"children": [child.describe()]}

    def _find(self, name: str) -> Running | None:
        """Return the child of this name; a broker also by the id it registers with, ``host:HTTP port``, which is all
        that a console knows of it. The host may be any that it advertises: ports are unique within an instance."""
        named = self._children.get(name)
        port = name.rpartition(":")[2]
        if named is not None or not port.isdecimal():
            return named
        brokers = (one for one in self._children.values() if "pulsar" in one.spec.ports)
        return next((one for one in brokers if one.spec.ports.get("http") == int(port)), None)

    async def _until_ready(self, child: Running) -> str:
        """Wait for the child for as long as it is at work, but not while the instance ends; what is in the way when it
        is not ready."""
        loop = asyncio.get_running_loop()
        waits = [loop.create_task(one.wait()) for one in (child.ready, self._stopping)]
        began = moved = time.monotonic()
        work = child.work()
        while not (child.ready.is_set() or self._stopping.is_set()):
            await asyncio.wait(waits, timeout=POLL_MAX_S, return_when=asyncio.FIRST_COMPLETED)
            now = time.monotonic()
            if (latest := child.work()) != work:
                work, moved = latest, now
            if now - moved > READY_S or now - began > READY_MAX_S:
                break
        for wait in waits:
            wait.cancel()
        if child.ready.is_set():
            return ""
        if self._stopping.is_set():
            return "the instance is stopping"
        words = child.log.last_words()
        took_s = time.monotonic() - began
        return f"{child.spec.name} was started but is not ready after {took_s:.0f} s; its log ends: {words}"
