"""Control groups that limit the processors of instances (cgroup v2), where the worker's own one is delegated to it."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

PERIOD_US = 100_000
QUOTA_US_MIN = 1_000
"""The least time of a period that the kernel accepts."""
ATTEMPTS, ATTEMPT_EVERY_S = 200, 0.01
"""Attempts to remove a group, which the last process that was killed in it leaves soon."""


class CpuGroups:
    """Groups below the worker's own one. ``reason``: why there are none; empty where there are."""

    def __init__(self, folder: Path | None, reason: str = "") -> None:
        self._folder = folder
        self.reason = reason

    @classmethod
    def of_this_process(cls, proc: Path = Path("/proc/self")) -> "CpuGroups":
        """Return the groups of this process, which moves into one of its own; without any if that is not possible."""
        folder = own_group(proc)
        if folder is None:
            return cls(None, "this machine has no cgroup v2")
        try:
            reason = _reason_against(folder)
            if not reason:
                _split(folder, proc)
        except OSError as error:
            reason = f"control group {folder}: {error.strerror}"
        return cls(None, reason) if reason else cls(folder)

    def limit(self, pid: int, cores: float) -> "CpuGroup":
        """Limit a process and all that it will start. Raises OSError."""
        assert self._folder is not None
        group = CpuGroup(self._folder / f"instance-{pid}")
        group.path.mkdir()
        try:
            quota_us = max(QUOTA_US_MIN, round(cores * PERIOD_US))
            (group.path / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            (group.path / "cgroup.procs").write_text(str(pid))
        except OSError:
            group.path.rmdir()
            raise
        return group


NO_GROUPS = CpuGroups(None, "this worker makes no control groups")
"""Stands for groups where processors are not limited."""


class CpuGroup:
    """The group of one instance."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def end(self) -> None:
        """Kill all of its processes, and remove it. Raises OSError."""
        kill = self.path / "cgroup.kill"
        if kill.exists():
            kill.write_text("1")
        attempts = 0
        while self.path.exists():
            attempts += 1
            try:
                self.path.rmdir()
            except OSError:
                if attempts == ATTEMPTS:
                    raise
                await asyncio.sleep(ATTEMPT_EVERY_S)


def own_group(proc: Path = Path("/proc/self")) -> Path | None:
    """Return the folder of this process's group of cgroup v2; None without one."""
    groups = (proc / "cgroup").read_text().splitlines()
    path = next((line[3:] for line in groups if line.startswith("0::")), None)
    if path is None:
        return None
    for line in (proc / "mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        if tail.startswith("cgroup2 "):
            root, at = head.split()[3:5]
            inside = path.removeprefix(root) if root != "/" else path
            return Path(at, inside.lstrip("/"))
    return None


def _reason_against(folder: Path) -> str:
    """Return why a group cannot have groups of instances; empty where it can. Raises OSError."""
    if "cpu" not in (folder / "cgroup.controllers").read_text().split():
        return f"control group {folder} has no controller cpu"
    if not os.access(folder, os.W_OK) or not _is_delegated(folder):
        return f"control group {folder} is not delegated to the worker (systemd: Delegate=cpu)"
    return ""


def _is_delegated(folder: Path) -> bool:
    """Return whether the group was given to this process by its maker. Root may write it in any case."""
    if os.geteuid() and folder.stat().st_uid == os.geteuid():
        return True
    for name in ("trusted.delegate", "user.delegate"):
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def _split(folder: Path, proc: Path) -> None:
    """Move this process to a group of its own: one that has groups below it must not have processes. Raises OSError."""
    leaf = folder / "worker"
    leaf.mkdir(exist_ok=True)
    own = (proc / "stat").read_text().split()[0]
    (leaf / "cgroup.procs").write_text(own)
    try:
        (folder / "cgroup.subtree_control").write_text("+cpu")
    except OSError:
        (folder / "cgroup.procs").write_text(own)
        leaf.rmdir()
        raise
