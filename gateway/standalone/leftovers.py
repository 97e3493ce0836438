"""What a supervisor that was killed left behind: its children are told to end by the kernel; some may not listen."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.1
KILLED_S = 5.0


def leftovers(log_dir: Path) -> list[int]:
    """Processes of this user whose standard output is a log in ``log_dir``: children of an instance, and theirs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended, or another user's
            if (folder / "fd" / "1").readlink().parent == log_dir:
                found.append(int(folder.name))
    return sorted(found)


def end_leftovers(log_dir: Path, patience_s: float, say: Callable[[str], None]) -> None:
    """Wait until the children of an earlier instance have ended; kill those that take longer than ``patience_s``.

    They would hold ports and the locks of their data. Call it with the instance's lock held. Blocks.
    """
    began = time.monotonic()
    killed: set[int] = set()
    while left := leftovers(log_dir):
        names = ", ".join(map(str, left))
        waited_s = time.monotonic() - began
        if waited_s > patience_s + KILLED_S:
            say(f"processes of an earlier instance do not end: {names}")
            return
        if waited_s >= patience_s and not killed.issuperset(left):
            say(f"killing what an earlier instance left behind: process {names}")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(left)
        time.sleep(LOOK_S)
