"""Trials of functions: a process with limits that runs one on given messages, and is killed at its bounds."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.functions.definitions.functions_pb2 import FunctionMetaData
from engine.functions.instance.trial import TRIAL_S
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.instance_users import InstanceUsers, end_processes, identity_of
from engine.functions.runtime.plans import plan_of
from engine.functions.runtime.ports import InstanceSpec, InstanceUser
from engine.functions.runtime.processes import ROOT
from engine.functions.runtime.unpacking import ENVIRONMENT, Unpacker

PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from engine.functions.instance.trial import main; main()"
)
OUTPUT_BYTES_MAX = 1 << 20
"""Bytes of all rows at most; a trial is ended there."""
START_S = 10
"""Seconds for the start of the process, beyond those of the trial."""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A function to try: its record, the file of its code, a folder of its own, and stored entries of its inputs.

    ``entries``: ``{"topic", "ledger", "entry", "stored": base64}`` each. ``limit``: messages of them, the last ones.
    """

    function: FunctionMetaData
    package: Path
    folder: Path
    entries: Sequence[Mapping[str, Any]]
    limit: int


class TrialRunner:
    """Runs trials, as one of ``users`` each; None: as this process's own user of the operating system."""

    def __init__(self, unpacker: Unpacker, users: InstanceUsers | None = None) -> None:
        self._unpacker = unpacker
        self._users = users

    async def run(self, trial: TrialRequest) -> dict[str, Any]:
        """Return ``{"messages": rows, "ended": why it ended early, "network", "unreadable", "secrets"}``.

        Raises InstanceError for code that cannot be unpacked or loaded. Cancel-safe: the process is killed."""
        user = None if self._users is None else self._users.take()
        folder = trial.folder.absolute()
        try:
            await asyncio.to_thread((folder / "tmp").mkdir, parents=True, exist_ok=True)
            await asyncio.to_thread(folder.chmod, 0o700)
            target = folder / "code"
            code = await asyncio.to_thread(self._unpacker.unpack, trial.package, target, user)
            # No address, token or secret: nothing that a trial could act with.
            spec = InstanceSpec(trial.function, 0, trial.package, folder, "")
            plan = json.loads(plan_of(spec, code).to_json())
            given = {"plan": plan, "entries": list(trial.entries), "limit": trial.limit}
            lines, ended = await self._lines(folder, json.dumps(given).encode(), user)
        except OSError as error:
            raise InstanceError(f"the trial cannot be started: {error}") from error
        finally:
            if user is not None and self._users is not None:
                await asyncio.to_thread(end_processes, user)
                self._users.give(user)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return _answer(lines, ended)

    async def _lines(
        self, folder: Path, given: bytes, user: InstanceUser | None
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the rows of the process, and why it was ended."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", PROGRAM, ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**ENVIRONMENT, "HOME": str(folder), "TMPDIR": str(folder / "tmp")},
            cwd=folder,
            start_new_session=True,
            **identity_of(user),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        data, ended = bytearray(), ""
        try:
            async with asyncio.timeout(TRIAL_S + START_S):
                with suppress(ConnectionError):
                    process.stdin.write(given)
                    await process.stdin.drain()
                    process.stdin.close()
                while piece := await process.stdout.read(1 << 16):
                    data += piece
                    if len(data) > OUTPUT_BYTES_MAX:
                        ended = f"it wrote more than {OUTPUT_BYTES_MAX} bytes"
                        break
                else:
                    status = await process.wait()
                    ended = _meaning(status)
        except TimeoutError:
            ended = f"it took more than {TRIAL_S} seconds"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        try:
            return [json.loads(line) for line in bytes(data).split(b"\n")[:-1]], ended
        except ValueError as error:
            raise InstanceError("the function wrote into the answer of the trial") from error


def _meaning(status: int) -> str:
    if status == -signal.SIGXCPU:
        return f"it took more than {TRIAL_S} seconds of a processor"
    if status:
        return f"its process ended with status {status}"
    return ""


def _answer(lines: Sequence[Mapping[str, Any]], ended: str) -> dict[str, Any]:
    """Return the answer of a trial from the rows of its process. Raises InstanceError for code that does not load."""
    messages: list[Any] = []
    answer: dict[str, Any] = {"network": True, "unreadable": 0, "secrets": []}
    begun: Any = None
    done = False
    for line in lines:
        if "failed" in line:
            raise InstanceError(line["failed"])
        if "begun" in line:
            begun = line["begun"]
        elif "message" in line:
            messages.append(line["message"])
            begun = None
        elif "done" in line:
            done, answer["secrets"] = True, line["secrets"]
        else:
            answer |= line
    if not done and not ended:
        ended = "its process ended early"
    if begun is not None:
        # The message that the function was at has no row of its own.
        messages.append(
            begun
            | {"output": None, "publications": [], "logs": [], "state": [], "metrics": {}}
            | {"acknowledged": 0, "dropped": 0, "error": f"The trial was ended: {ended}"}
            | {"took_ms": None}
        )
    return {"messages": messages, "ended": "" if done else ended, **answer}
