"""The supervisor of an instance, which starts its children, restarts them, serves the control socket and stops them."""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from engine.base import log as logs
from engine.base.errors import MagnetarError
from gateway.standalone.children.child_process import (
    NO_LISTENERS,
    POLL_MAX_S,
    POLL_S,
    ChildProcess,
    ChildState,
)
from gateway.standalone.control import STOPPING, reachable
from gateway.standalone.on_demand.spark_setup import SparkSetup
from gateway.standalone.plan import Child

READY_S = 60.0
"""Time for which a starting child may be inactive: without processor time, log output or a restart."""
READY_MAX_S = 600.0
ENDS_MAX = 2
"""Number of times that a starting child may end before a request for it fails; it is started again nevertheless."""
QUIET_S = 10.0
REQUEST_MAX = 4096
REQUEST_S = 30.0
LOG_CHECK_S = 5.0
PREPARE_AGAIN_S = 0.5
STORE = "zookeeper"
"""Name of the metadata server."""
VERBS = ("stop", "kill", "start", "need")
"""Requests about a child. ``need`` starts one as ``start`` does, and what it will need, unless it was stopped by a
request."""
SETUP_VERBS = ("install-spark", "spark-setup")
"""Requests about the installation of Spark: to begin it, and for its state."""

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
                await asyncio.sleep(PREPARE_AGAIN_S)
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
