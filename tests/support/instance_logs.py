"""What the logs of an instance complain of: a healthy run ends with nothing of that.

A part of ours that warns, fails or prints a stack though nobody did it any harm has a fault that no other test need
see. Tests that do harm name the complaints that they provoke.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

PYTHON_PARTS = ("bookie", "broker", "gateway", "worker")
RECORD = re.compile(r"\S+Z (WARNING|ERROR|CRITICAL) (\S+) .*")
NOT_OURS = ("kazoo",)
"""Loggers whose complaints a part of ours handles and tells of itself where they last."""
STACK = "Traceback (most recent call last)"
SUPERVISOR = re.compile(
    r"magnetar: .*( ended \(| refuses its settings|did not stop in|: killed|cannot )"
)
STARVED = (
    # A machine that gives a process no time for seconds: whoever waited for it says so, and goes on.
    r"WARNING engine\.\S+ (not followed yet|cannot register yet|bundle lost|fenced|not trimmed) ",
    r"WARNING engine\.\S+ (topic not loaded|cursor is not persisted|ledger failed) .*(timed|no answer|lost|expired)",
    r"WARNING bookie\.\S+ registration failed, trying again ",
    r"WARNING gateway\.\S+ (no fresh numbers for the console|figures of before are not known) ",
    r"WARNING gateway\.jobs\.tasks (gateways cannot hear this worker|heartbeat of run) ",
    r"WARNING gateway\.jobs\.services Celery's broker could not be told of .*Timeout",
    r"WARNING asyncio Executing .* took ",
)
"""Complaints of a busy machine, never counted: a healthy run must not fail by them."""


def complaints(data_dir: Path, allowed: Sequence[str] = ()) -> list[str]:
    """Return the lines by which parts of the instance in ``data_dir`` complain, each after the name of its log.

    ``allowed``: regular expressions of what the test provoked, searched in the line; of a stack in the line before it.
    """
    known = [re.compile(pattern) for pattern in (*STARVED, *allowed)]
    logs = sorted((data_dir / "logs").glob("*.log*"))
    return [
        f"{log.name}: {line}"
        for log in (data_dir / "supervisor.log", *logs)
        if log.exists()
        for line in _of_log(log)
        if not any(pattern.search(line) for pattern in known)
    ]


def _of_log(log: Path) -> Iterator[str]:
    python = log.name.startswith(PYTHON_PARTS)
    before = ""
    for line in log.read_text(errors="replace").splitlines():
        if STACK in line:
            if not (python and RECORD.match(before)):  # the record above it counts already
                yield f"{before} {line.strip()}"
        elif log.name == "supervisor.log":
            if SUPERVISOR.match(line):
                yield line
        elif python and (found := RECORD.match(line)) and not found[2].startswith(NOT_OURS):
            yield line
        if line and not line[0].isspace():
            before = line
