"""Instances as processes: trouble with its own process group, environment, limits and log, and a socket to the worker.

The socket's end is the end of the instance: an instance does not outlive its worker.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.functions.instance.control import LINE_BYTES_MAX, packed, unpacked
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.instance.process_lease import LEASE_OVER
from engine.functions.runtime.bounded_log import BoundedLog
from engine.functions.runtime.cpu_groups import NO_GROUPS, CpuGroup, CpuGroups
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.instance_users import end_processes, give_to, identity_of
from engine.functions.runtime.plans import plan_of, with_token
from engine.functions.runtime.ports import (
    ExitReason,
    InstanceSpec,
    InstanceStats,
    InstanceStatus,
    InstanceTrouble,
    InstanceUser,
    IntervalStats,
)
from engine.functions.runtime.unpacking import ENVIRONMENT, Unpacker

log = logging.getLogger(__name__)

ROOT = str(Path(engine.__file__).parents[1])
"""The folder that ``engine`` is imported from."""
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from engine.functions.instance.__main__ import main; main(int(sys.argv[1]), sys.argv[2])"
)
ANSWER_S = 5.0
TRIGGER_S = 30.0
KILLED_S = 5.0
LOG_CHUNK = 64 * 1024
LOG = "log"
"""Folder of the log of an instance that has another user, in its folder."""
THROUGH = 0o711
"""Mode of folders that lead to the home of such an instance."""


class InstanceProcess:
    """One instance in a process; made by ``ProcessRuntime``."""

    def __init__(
        self,
        spec: InstanceSpec,
        process: asyncio.subprocess.Process,
        link: socket.socket,
        output: int,
        group: CpuGroup | None,
        cpu_limit: str,
    ) -> None:
        """``group``: its control group, if it has one; ``cpu_limit``: as of InstanceStatus."""
        self._folder = folder = spec.folder.absolute()
        self._user = spec.user
        self._group = group
        self._cpu_limit = cpu_limit
        self._process = process
        self._link = link
        self._output = output
        """Read end of the pipe that it writes its log to."""
        # Not where the instance's user could put another file in its place.
        self._log = BoundedLog(folder if spec.user is None else folder / LOG)
        self._scope = TaskScope(f"instance {process.pid}")
        self._writer: asyncio.StreamWriter | None = None
        self._brokers = spec.brokers
        self._naming: asyncio.Task[None] | None = None
        self._send_plan: Callable[[], None] | None = None
        """Sends the plan, until that was done."""
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._questions = 0
        self._reason = ""
        self._stopping = False
        self._ended: asyncio.Future[ExitReason] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, plan: InstancePlan, lease_end: Callable[[], float] | None) -> None:
        """Watch the process in the background, and send it its plan as soon as it can read it.

        A lease from before could be over by then: on a busy machine a process needs seconds to start, and each of many
        would end itself, again and again.
        """

        def send() -> None:
            end_s = None if lease_end is None else lease_end()
            sent = replace(plan, lease_end_s=end_s, cpu_limit=self._cpu_limit)
            assert self._writer is not None
            self._writer.write(sent.to_json().encode() + b"\n")

        self._send_plan = send
        self._scope.spawn("watch", self._watch())

    async def _watch(self) -> None:
        """Follow the instance's answers and log until its process has ended."""
        loop, lines_of = asyncio.get_running_loop(), asyncio.StreamReader()
        reader, self._writer = await asyncio.open_unix_connection(
            sock=self._link, limit=LINE_BYTES_MAX
        )
        # A pipe of asyncio's would keep wait() waiting for as long as anything that the instance started has it.
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines_of),
            os.fdopen(self._output, "rb", buffering=0),
        )
        async with asyncio.TaskGroup() as group:
            answers = group.create_task(self._follow(reader))
            lines = group.create_task(self._record(lines_of))
            status = await self._process.wait()
            # What it started keeps neither its log open nor runs on.
            self._kill_group()
            _, late = await asyncio.wait([answers, lines], timeout=1.0)
            for task in late:
                task.cancel()
        pipe.close()
        text = "" if self._stopping else self._reason or self._unexplained(status)
        self._log.close()
        self._ended.set_result(ExitReason(self._stopping, text, status))
        error = InstanceError(f"the instance has ended: {self._reason or _meaning(status)}")
        for question in self._waiting.values():
            if not question.done():
                question.set_exception(error)
        if self._writer is not None:
            self._writer.close()

    def _unexplained(self, status: int) -> str:
        tail = self._log.tail(20)
        return f"{_meaning(status)}\n{tail}" if tail else _meaning(status)

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                message = json.loads(line)
                if "ready" in message:
                    send, self._send_plan = self._send_plan, None
                    if send is not None:
                        send()
                    continue
                if "brokers" in message:
                    self._begin_naming_brokers()
                    continue
                if "end" in message:
                    self._reason = message["end"]
                    continue
                question = self._waiting.pop(message["id"], None)
                if question is None or question.done():
                    continue
                if "error" in message:
                    question.set_exception(InstanceError(message["error"]))
                else:
                    question.set_result(message["result"])

    def _begin_naming_brokers(self) -> None:
        """Answer beside other answers, which a metadata store that is slow must not hold up; once at a time."""
        if (self._naming is None or self._naming.done()) and not self._scope.closed:
            self._naming = self._scope.spawn("name brokers", self._name_brokers())

    async def _name_brokers(self) -> None:
        """Answer the instance's question for the brokers that there are now; empty while that is not known."""
        url = ""
        if self._brokers is not None:
            try:
                url = await self._brokers()
            except MagnetarError as error:
                log.info("the brokers are not known now: %s", error)
        if self._writer is not None:
            self._writer.write(json.dumps({"brokers": url}).encode() + b"\n")

    async def _record(self, lines: asyncio.StreamReader) -> None:
        while data := await lines.read(LOG_CHUNK):
            self._log.write(data)

    async def _ask(self, ask: str, timeout_s: float = ANSWER_S, **fields: Any) -> Any:
        """Return the instance's answer. Raises InstanceError; cancel-safe."""
        if self._ended.done():
            raise InstanceError(f"the instance has ended: {self._reason}")
        if self._send_plan is not None or self._writer is None:
            raise InstanceError("the process of the instance is starting")
        self._questions += 1
        number = self._questions
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"id": number, "ask": ask, **fields}).encode() + b"\n")
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise InstanceError(f"the instance gives no answer within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(number, None)

    def lease_until(self, end_s: float) -> None:
        if self._send_plan is None and not self._ended.done() and self._writer is not None:
            self._writer.write(json.dumps({"lease": end_s}).encode() + b"\n")

    async def status(self) -> InstanceStatus:
        if self._send_plan is not None and not self._ended.done():
            return InstanceStatus(False)
        if not self._ended.done():
            try:
                return replace(status_of(await self._ask("status")), cpu_limit=self._cpu_limit)
            except InstanceError:
                if not self._ended.done():
                    raise
        return InstanceStatus(False, self._ended.result().text)

    async def stats(self) -> InstanceStats:
        return stats_of(await self._ask("stats"))

    async def metrics(self) -> str:
        return str(await self._ask("metrics"))

    async def trigger(self, topic: str, data: bytes) -> bytes:
        answer = await self._ask("trigger", TRIGGER_S, topic=topic, data=packed(data))
        return unpacked(answer) or b""

    async def state_get(self, key: str) -> Mapping[str, Any] | None:
        entry = await self._ask("state_get", TRIGGER_S, key=key)
        return None if entry is None else {**entry, "value": unpacked(entry["value"])}

    async def state_put(self, key: str, value: bytes | None, number: int | None) -> None:
        await self._ask("state_put", TRIGGER_S, key=key, value=packed(value), number=number)

    async def log_tail(self, lines: int) -> str:
        return self._log.tail(lines)

    async def stop(self, grace_s: float) -> None:
        """End it and remove its folder. Cancel-safe: it is killed then."""
        self._stopping = True
        try:
            # One that has no plan yet has done nothing.
            if not self._ended.done() and self._send_plan is None:
                with suppress(InstanceError):
                    await self._ask("stop", grace_s=grace_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace_s):
                        await asyncio.shield(self._ended)
        finally:
            self._kill_group()
        with suppress(TimeoutError):
            async with asyncio.timeout(KILLED_S):
                await asyncio.shield(self._ended)
        await self._scope.close()
        # What has left the instance's process group is found by its control group, or by its user.
        group, self._group = self._group, None
        if group is not None:
            try:
                await group.end()
            except OSError as error:
                log.warning("control group of an instance: %s", error)
        if self._user is not None:
            await asyncio.to_thread(end_processes, self._user)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _kill_group(self) -> None:
        """Kill all of the instance's process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> ExitReason:
        return await asyncio.shield(self._ended)


class ProcessRuntime:
    """Starts instances as processes of this Python, and limits their processors by ``groups``."""

    def __init__(self, unpacker: Unpacker, groups: CpuGroups = NO_GROUPS) -> None:
        self._unpacker = unpacker
        self._groups = groups

    async def start(self, spec: InstanceSpec) -> InstanceProcess:
        """Start an instance. Raises InstanceError; cancel-safe."""
        user = spec.user
        code: list[str] = []
        try:
            home = await asyncio.to_thread(_made, spec.folder.absolute(), user)
            # Before the user's code can be run, which could put a link in the place of its token.
            placed = with_token(replace(spec, folder=home))
            if spec.package is not None:
                target = home / "code"
                code = await asyncio.to_thread(self._unpacker.unpack, spec.package, target, user)
            elif user is not None:
                await asyncio.to_thread(give_to, home, user)
            plan = plan_of(placed, code)
            process, link, output = await self._spawn(spec, home)
            group, cpu_limit = self._limited(process.pid, plan.cpu)
        except OSError as error:
            raise InstanceError(f"the instance cannot be started: {error}") from error
        instance = InstanceProcess(spec, process, link, output, group, cpu_limit)
        instance.begin(plan, spec.lease_end)
        return instance

    def _limited(self, pid: int, cores: float) -> tuple[CpuGroup | None, str]:
        """Limit a process that has no plan yet; return its group, and the limit in words or why there is none."""
        reason = self._groups.reason
        if not cores:
            return None, ""
        if not reason:
            try:
                return self._groups.limit(pid, cores), f"{cores:g} cores"
            except OSError as error:
                reason = f"control group: {error}"
        return None, f"{cores:g} cores are not enforced: {reason}"

    async def _spawn(
        self, spec: InstanceSpec, folder: Path
    ) -> tuple[asyncio.subprocess.Process, socket.socket, int]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output, written = os.pipe()
        environment = {
            **ENVIRONMENT,
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "TZ": os.environ.get("TZ", "UTC"),
            **spec.environment,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", PROGRAM, str(theirs.fileno()), ROOT),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=written,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=folder,
                start_new_session=True,
                **identity_of(spec.user),
            )
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            theirs.close()
            os.close(written)
        return process, ours, output


def status_of(shown: Mapping[str, Any]) -> InstanceStatus:
    """Return the status that an instance answered."""
    lists = {
        name: tuple(InstanceTrouble(**trouble) for trouble in value)
        for name, value in shown.items()
        if name.startswith("latest_")
    }
    return InstanceStatus(**{**shown, **lists})


def stats_of(shown: Mapping[str, Any]) -> InstanceStats:
    """Return the statistics that an instance answered."""
    return InstanceStats(
        IntervalStats(**shown["total"]),
        IntervalStats(**shown["last_minute"]),
        shown["last_invocation_ms"],
        shown["user_metrics"],
        shown["latency_buckets"],
    )


def _meaning(status: int) -> str:
    if status == -signal.SIGALRM:
        return LEASE_OVER
    if status < 0:
        with suppress(ValueError):
            return f"the process was ended by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"


def _made(folder: Path, user: InstanceUser | None) -> Path:
    """Make the folder of an instance and return the part that is its home: for the worker alone until it is given to
    the instance's user."""
    folder.mkdir(parents=True, exist_ok=True)
    if user is None:
        folder.chmod(0o700)
        home = folder
    else:
        folder.chmod(THROUGH)
        home = folder / "home"
        for made in (home, folder / LOG):
            made.mkdir(mode=0o700, exist_ok=True)
    (home / "tmp").mkdir(exist_ok=True)
    return home
