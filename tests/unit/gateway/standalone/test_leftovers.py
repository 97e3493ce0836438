"""Children that outlive their supervisor, and the start after it."""

import subprocess
import sys
from pathlib import Path

from gateway.standalone.leftovers import end_leftovers, leftovers

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def test_a_child_that_would_not_end_is_killed_and_nobody_else(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    lines: list[str] = []
    with (logs / "broker-1.log").open("wb") as log, (tmp_path / "mine.txt").open("wb") as mine:
        child = subprocess.Popen([sys.executable, "-c", DEAF], stdout=log)
        other = subprocess.Popen([sys.executable, "-c", DEAF], stdout=mine)
    reader = subprocess.Popen(["tail", "-f", logs / "broker-1.log"], stdout=subprocess.DEVNULL)
    try:
        assert leftovers(logs) == [child.pid]
        end_leftovers(logs, 0.0, lines.append)
        assert child.wait(10) == -9
        assert lines == [f"killing what an earlier instance left behind: process {child.pid}"]
        assert leftovers(logs) == []
        assert (other.poll(), reader.poll()) == (None, None)
    finally:
        for process in (child, other, reader):
            process.kill()
            process.wait()


def test_a_child_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    lines: list[str] = []
    with (tmp_path / "redis.log").open("wb") as log:
        child = subprocess.Popen(["sleep", "0.3"], stdout=log)
    try:
        end_leftovers(tmp_path, 60.0, lines.append)
        assert child.wait(10) == 0
        assert lines == []
    finally:
        child.kill()
        child.wait()


def test_an_ordinary_start_finds_nothing(tmp_path: Path) -> None:
    end_leftovers(tmp_path, 60.0, lambda text: None)
