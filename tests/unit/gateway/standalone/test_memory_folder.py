"""Data folders in memory: removed at the end, and those of killed instances at the next start."""

import fcntl
import os
from pathlib import Path

import pytest

from gateway.standalone.data_folder import LOCK
from gateway.standalone.memory_folder import NoMemoryFolderError, memory_folder


def test_the_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with memory_folder(tmp_path) as folder:
        (folder / "bookie-1").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_failure_removes_the_folder(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), memory_folder(tmp_path):
        raise SystemExit(1)
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_instances_that_do_not_run_are_removed(tmp_path: Path) -> None:
    prefix = f"magnetar-{os.getuid()}-"
    killed, running, starting, foreign = (
        tmp_path / name for name in (f"{prefix}k", f"{prefix}r", f"{prefix}s", "magnetar-x")
    )
    for folder in (killed, running, starting, foreign):
        folder.mkdir()
    for folder in (killed, running, foreign):
        (folder / LOCK).touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (tmp_path / f"{prefix}link").symlink_to(elsewhere)
    with (running / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with memory_folder(tmp_path):
            assert not killed.exists()
            assert all(folder.exists() for folder in (running, starting, foreign, elsewhere))


def test_a_machine_without_memory_for_files_gets_the_remedy(tmp_path: Path) -> None:
    with (
        pytest.raises(NoMemoryFolderError, match="Leave out --memory"),
        memory_folder(tmp_path / "missing"),
    ):
        pass
