"""The takeover of metadata in ZooKeeper's format: once, from any interruption, with a backup."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.standalone import takeover
from gateway.standalone.leftovers import leftovers
from gateway.standalone.takeover import TakeoverError, refusal, take_over


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders that were copied to; a copy writes one file."""
    targets: list[Path] = []

    def copy(data_dir: Path, host: str, partial: Path) -> str:
        assert not partial.exists()
        partial.mkdir()
        (partial / "log").write_text("copied")
        targets.append(partial)
        return "5 nodes copied"

    monkeypatch.setattr(takeover, "_copy", copy)
    return targets


def old_instance(folder: Path) -> Path:
    (folder / "zookeeper" / "version-2").mkdir(parents=True)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_metadata_is_copied_once_and_the_old_stays_as_a_backup(
    tmp_path: Path, copies: list[Path]
) -> None:
    lines: list[str] = []
    for _ in range(2):
        take_over(old_instance(tmp_path) if not copies else tmp_path, "127.0.0.1", lines.append)
    assert len(copies) == 1
    assert names(tmp_path) == ["metadata", "zookeeper.backup"]
    assert (tmp_path / "metadata" / "log").read_text() == "copied"
    assert "5 nodes copied" in lines


@pytest.mark.parametrize("folders", [[], ["zookeeper"], ["metadata"]])
def test_a_new_or_moved_instance_has_nothing_to_take_over(
    tmp_path: Path, copies: list[Path], folders: list[str]
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir()
    take_over(tmp_path, "127.0.0.1", lambda line: None)
    assert (copies, names(tmp_path)) == ([], folders)


def test_a_takeover_that_was_killed_while_it_copied_begins_anew(
    tmp_path: Path, copies: list[Path]
) -> None:
    (old_instance(tmp_path) / "metadata.partial").mkdir()
    (tmp_path / "metadata.partial" / "torn").write_text("")
    take_over(tmp_path, "127.0.0.1", lambda line: None)
    assert names(tmp_path) == ["metadata", "zookeeper.backup"]
    assert names(tmp_path / "metadata") == ["log"]


def test_a_takeover_that_was_killed_after_the_copy_keeps_it(
    tmp_path: Path, copies: list[Path]
) -> None:
    (old_instance(tmp_path) / "metadata").mkdir()
    take_over(tmp_path, "127.0.0.1", lambda line: None)
    assert (copies, names(tmp_path)) == ([], ["metadata", "zookeeper.backup"])


def test_a_failed_copy_leaves_the_old_metadata_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(data_dir: Path, host: str, partial: Path) -> str:
        raise TakeoverError("no Java")

    monkeypatch.setattr(takeover, "_copy", copy)
    with pytest.raises(TakeoverError, match="no Java"):
        take_over(old_instance(tmp_path), "127.0.0.1", lambda line: None)
    assert names(tmp_path) == ["zookeeper"]


def test_a_backup_does_not_replace_an_earlier_one(tmp_path: Path, copies: list[Path]) -> None:
    (old_instance(tmp_path) / "zookeeper.backup").mkdir()
    take_over(tmp_path, "127.0.0.1", lambda line: None)
    assert names(tmp_path) == ["metadata", "zookeeper.backup", "zookeeper.backup-2"]


def test_zookeeper_is_refused_for_metadata_that_the_embedded_server_has(tmp_path: Path) -> None:
    assert refusal(old_instance(tmp_path)) == ""
    (tmp_path / "metadata").mkdir()
    assert "magnetar metadata copy" in refusal(tmp_path)


def test_servers_of_a_killed_takeover_end(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    program = f"""
import sys
from pathlib import Path
from gateway.standalone.takeover import _server
server = (sys.executable, "-c", "import time; time.sleep(600)")
with _server("ZooKeeper", server, {{}}, "127.0.0.1", 1, Path({str(tmp_path)!r})):
    pass
"""
    supervisor = subprocess.Popen([sys.executable, "-c", program])
    while not (left := leftovers(tmp_path / "logs")):
        assert supervisor.poll() is None
    supervisor.kill()
    supervisor.wait()
    until = time.monotonic() + 60
    while leftovers(tmp_path / "logs") and time.monotonic() < until:
        time.sleep(0.01)
    survivors = leftovers(tmp_path / "logs")
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert (len(left), survivors) == (1, [])
