"""Processes that a killed supervisor left behind. The kernel sends them SIGTERM, which some may ignore."""

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHECK_INTERVAL_S = 0.1
PART_LOG = re.compile(
    r"(zookeeper|redis|([\w-]+\.)?((bookie|broker)-\d+|functions-worker)|proxy|gateway(-\d+)?|worker|spark|spark-setup"
    r"|takeover)\.log"
)
"""Names of the logs of ``plan.children`` and of a takeover. Processes are detected by them and not by their
environment, which Redis overwrites."""
KILLED_S = 5.0
PR_SET_PDEATHSIG = 1


def die_with_parent(supervisor: int) -> None:
    """Make this process end when the supervisor ends in any way, even before this call.

    Called in the child between fork and exec.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        os._exit(1)


def leftovers(log_dir: Path) -> list[int]:
    """Return the ids of this user's processes whose standard output is the log of a part in ``log_dir``.

    They are children of an instance, and their descendants. Other processes that write into the folder are not
    returned, such as a supervisor with redirected output; nor are this process and its ancestors.
    """
    own = _lineage()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # The process has ended, or is another user's.
            output = (folder / "fd" / "1").readlink()
            is_part = output.parent == log_dir and PART_LOG.fullmatch(output.name)
            if is_part and int(folder.name) not in own:
                pids.append(int(folder.name))
    return sorted(pids)


def _lineage() -> set[int]:
    """Return the ids of this process and its ancestors."""
    lineage: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in lineage:
        lineage.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:  # It has ended meanwhile, so the process below it is now a child of init.
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return lineage


def end_leftovers(log_dir: Path, patience_s: float, report: Callable[[str], None]) -> None:
    """Wait until the children of an earlier instance have ended; kill those that take longer than ``patience_s``.

    They would hold ports and the locks of their data. The caller must hold the instance's lock. Blocks.
    """
    began = time.monotonic()
    killed: set[int] = set()
    while pids := leftovers(log_dir):
        names = ", ".join(map(str, pids))
        waited_s = time.monotonic() - began
        if waited_s > patience_s + KILLED_S:
            report(f"processes of an earlier instance do not end: {names}")
            return
        if waited_s >= patience_s and not killed.issuperset(pids):
            report(f"killing what an earlier instance left behind: process {names}")
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(pids)
        time.sleep(CHECK_INTERVAL_S)
