"""Limits of an instance's process, set in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from engine.functions.instance import process_limits

SHOW = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from engine.functions.instance.process_limits import set_limits
set_limits(int(sys.argv[2]), int(sys.argv[3]))
names = ("CORE", "NOFILE", "DATA", "FSIZE")
print(json.dumps({name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names}))
"""
ROOT = Path(process_limits.__file__).parents[3]


def limits(ram: int, disk: int) -> dict[str, list[int]]:
    command = [sys.executable, "-I", "-c", SHOW, str(ROOT), str(ram), str(disk)]
    shown: dict[str, list[int]] = json.loads(subprocess.check_output(command))
    return shown


def test_memory_files_and_cores_are_limited_for_good() -> None:
    shown = limits(100 << 20, 50 << 20)
    assert shown["CORE"] == [0, 0]
    assert shown["NOFILE"] == [process_limits.FILES_MAX] * 2
    assert shown["DATA"] == [(100 << 20) + process_limits.OWN_BYTES] * 2
    assert shown["FSIZE"] == [50 << 20] * 2


def test_a_resource_of_zero_has_no_limit() -> None:
    shown = limits(0, 0)
    assert shown["DATA"][0] == shown["FSIZE"][0] == -1
