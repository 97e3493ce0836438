"""Children that outlive their supervisor, and the start after it."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.standalone.leftovers import PART_LOG, end_leftovers, leftovers
from gateway.standalone.plan import InstanceOptions, children
from gateway.standalone.settings import PROGRAM

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def test_a_child_that_does_not_end_is_killed_and_no_other_process(tmp_path: Path) -> None:
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
        assert child.wait(60) == -9
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
        assert child.wait(60) == 0
        assert lines == []
    finally:
        child.kill()
        child.wait()


def test_an_ordinary_start_finds_nothing(tmp_path: Path) -> None:
    end_leftovers(tmp_path, 60.0, lambda text: None)


def test_a_program_that_writes_into_the_logs_folder_is_no_leftover(tmp_path: Path) -> None:
    with (tmp_path / "mine.log").open("wb") as mine:
        tool = subprocess.Popen(["sleep", "600"], stdout=mine)
    try:
        end_leftovers(tmp_path, 0.0, lambda text: None)
        assert tool.poll() is None
    finally:
        tool.kill()
        tool.wait()


@pytest.mark.parametrize("shell", ["", "sh -c '{}; true'"])
@pytest.mark.parametrize("name", ["run.log", "broker-1.log"])
def test_a_supervisor_whose_output_goes_to_the_logs_folder_does_not_end_itself(
    tmp_path: Path, name: str, shell: str
) -> None:
    """Spare the shell or make above it as well."""
    code = (
        "from pathlib import Path; from gateway.standalone.leftovers import end_leftovers;"
        f" end_leftovers(Path({str(tmp_path)!r}), 0.0, print)"
    )
    command = f'{sys.executable} -c "{code}"'
    with (tmp_path / name).open("wb") as log:
        started = subprocess.run(
            shell.format(command.replace("'", "'\\''")) if shell else command,
            shell=True,
            stdout=log,
            check=False,
        )
    assert started.returncode == 0
    assert (tmp_path / name).read_bytes() == b""


def test_every_part_of_an_instance_has_a_log_by_which_it_is_found() -> None:
    here = Path("/nowhere")
    settings = PROGRAM.load({"MAGNETAR_GATEWAYS": "2"}, here)
    for clusters in ((), ("us-east", "eu_west")):
        made = children(
            InstanceOptions(here, settings, bookies=2, brokers=2, proxy=True, clusters=clusters),
            java_home=here,
            classpath="",
            redis="redis-server",
        )
        assert len(made) > 9
        assert all(PART_LOG.fullmatch(f"{child.name}.log") for child in made)
