"""Control groups of instances: where they can be made, why not elsewhere, and that they limit a real process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.functions.runtime import cpu_groups
from engine.functions.runtime.cpu_groups import CpuGroup, CpuGroups, own_group
from tests.support.instance import ROOT

REAL = """
import asyncio, subprocess, sys, time
from engine.functions.runtime.cpu_groups import CpuGroups

async def main():
    groups = CpuGroups.of_this_process()
    if groups.reason:
        print("none", groups.reason)
        return
    child = subprocess.Popen([sys.executable, "-c", "input()\\nwhile True: pass"], stdin=subprocess.PIPE)
    group = groups.limit(child.pid, 0.2)
    child.stdin.write(b"\\n")
    child.stdin.flush()
    time.sleep(3)
    used = sum(map(int, open(f"/proc/{child.pid}/stat").read().rpartition(")")[2].split()[11:13]))
    await group.end()
    print("used", used, child.wait())

asyncio.run(main())
"""


class Machine:
    """Files as the kernel shows them to a process in the group ``/system.slice/worker.service``."""

    def __init__(self, folder: Path, controllers: str = "cpu memory", root: str = "/") -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        mounted = folder / "cgroup"
        inside = "/system.slice/worker.service"
        self.group = mounted / inside.removeprefix(root).lstrip("/")
        self.group.mkdir(parents=True)
        (self.proc / "cgroup").write_text(f"1:name=systemd:/\n0::{inside}\n")
        (self.proc / "stat").write_text("4711 (python) S 1")
        (self.proc / "mountinfo").write_text(
            f"25 1 8:1 / / rw - ext4 /dev/sda rw\n30 25 0:26 {root} {mounted} rw,nosuid shared:4 - cgroup2 cgroup rw\n"
        )
        (self.group / "cgroup.controllers").write_text(controllers + "\n")

    def groups(self) -> CpuGroups:
        return CpuGroups.of_this_process(self.proc)


@pytest.fixture
def delegated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_groups, "_is_delegated", lambda folder: True)


@pytest.mark.parametrize("root", ["/", "/system.slice"])
def test_the_own_group_is_found_below_the_mount(tmp_path: Path, root: str) -> None:
    machine = Machine(tmp_path, root=root)
    assert own_group(machine.proc) == machine.group


@pytest.mark.usefixtures("delegated")
def test_the_worker_moves_aside_and_an_instance_gets_its_cores(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    groups = machine.groups()
    assert groups.reason == ""
    assert (machine.group / "worker" / "cgroup.procs").read_text() == "4711"
    assert (machine.group / "cgroup.subtree_control").read_text() == "+cpu"
    for pid, cores, quota in ((1, 0.5, "50000 100000"), (2, 3, "300000 100000"), (3, 1e-6, "1000")):
        group = groups.limit(pid, cores)
        assert (group.path / "cpu.max").read_text().startswith(quota)
        assert (group.path / "cgroup.procs").read_text() == str(pid)


async def test_a_group_ends_with_all_that_is_in_it(tmp_path: Path) -> None:
    group = CpuGroup(tmp_path / "instance-1")
    group.path.mkdir()
    await group.end()
    assert not group.path.exists()
    await group.end()


def test_without_delegation_the_reason_names_the_group(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    if os.geteuid():
        machine.group.chmod(0o500)
    assert f"{machine.group} is not delegated to the worker" in machine.groups().reason
    assert sorted(path.name for path in machine.group.iterdir()) == ["cgroup.controllers"]


@pytest.mark.usefixtures("delegated")
def test_a_group_with_other_processes_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, write = Machine(tmp_path), Path.write_text

    def refuse(path: Path, text: str) -> int:
        if path.name == "cgroup.subtree_control":
            raise OSError(16, "Device or resource busy")
        if path.parent.name == "worker":
            return 0  # a file of the kernel's, which goes with its group
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    assert machine.groups().reason == f"control group {machine.group}: Device or resource busy"
    assert not (machine.group / "worker").exists()
    assert (machine.group / "cgroup.procs").read_text() == "4711"


def test_a_machine_without_the_controller_or_cgroup_v2_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, controllers="memory pids")
    assert machine.groups().reason == f"control group {machine.group} has no controller cpu"
    (machine.proc / "cgroup").write_text("1:cpu:/\n")
    assert machine.groups().reason == "this machine has no cgroup v2"


def test_a_real_group_limits_a_process_that_never_rests() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAL], cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, *rest = done.stdout.split()
    if first == "none":
        pytest.skip(" ".join(rest))
    used, status = map(int, rest)
    assert used <= 0.3 * 3 * os.sysconf("SC_CLK_TCK")
    assert status == -9
