"""What a supervisor that was killed left behind: its children are told to end by the kernel; some may not listen."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.1
PART_LOG = re.compile(r"(zookeeper|redis|bookie-\d+|broker-\d+|gateway(-\d+)?|worker|spark)\.log")
"""The logs that ``plan.children`` have; what ran as a process says nothing: Redis overwrites its environment."""
KILLED_S = 5.0


def leftovers(log_dir: Path) -> list[int]:
    """Return this user's processes whose standard output is the log of a part in ``log_dir``: children of an instance,
    and theirs.

    Whoever else writes into that folder, a supervisor with redirected output for one, is none; nor are this process
    and those above it, whatever they write to.
    """
    own = _lineage()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended, or another user's
            output = (folder / "fd" / "1").readlink()
            ours = output.parent == log_dir and PART_LOG.fullmatch(output.name)
            if ours and int(folder.name) not in own:
                found.append(int(folder.name))
    return sorted(found)


def _lineage() -> set[int]:
    """Return this process and all above it."""
    lineage: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in lineage:
        lineage.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:  # ended meanwhile: what is left of the line belongs to init
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return lineage


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
