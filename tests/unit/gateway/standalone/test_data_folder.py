"""The data folder of an instance: what belongs to it, its lock, and marks of a part of an instance."""

from pathlib import Path

import pytest

from gateway.standalone.data_folder import (
    WIPING,
    DataFolderError,
    bookies,
    held,
    own_paths,
    refusal,
    stored_files,
    used_paths,
    write_mark,
)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with (
        held(tmp_path),
        pytest.raises(DataFolderError, match="an instance runs on"),
        held(tmp_path),
    ):
        pass
    with held(tmp_path):
        pass


def test_files_of_other_programs_do_not_belong_to_the_instance(tmp_path: Path) -> None:
    for name in ("metadata", "bookie-1", "bookie-2", "logs", "mine"):
        (tmp_path / name).mkdir()
    for name in ("console.sqlite3", "instance.lock", "notes.txt", "secret_key"):
        (tmp_path / name).touch()
    own = {path.name for path in own_paths(tmp_path)}
    assert own == {
        *("metadata", "bookie-1", "bookie-2", "logs", "console.sqlite3"),
        *("instance.lock", "secret_key"),
    }
    assert {path.name for path in used_paths(tmp_path)} == own - {"logs", "instance.lock"}
    assert bookies(tmp_path) == 2


def test_a_mark_is_a_reason_with_a_remedy(tmp_path: Path) -> None:
    assert refusal(tmp_path) == ""
    write_mark(tmp_path, "abc")
    assert "a part of backup abc: complete it with magnetar restore" in refusal(tmp_path)
    write_mark(tmp_path, WIPING)
    assert refusal(tmp_path).endswith("complete that with magnetar wipe")
    assert used_paths(tmp_path) == []


def test_files_of_databases_that_belong_to_others_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "ca.key").touch()
    (tmp_path / "secure" / "elsewhere").symlink_to("/etc/hostname")
    (tmp_path / "clusters" / "b").mkdir(parents=True)
    for name in ("history.sqlite3", "history.sqlite3-wal"):
        (tmp_path / "clusters" / "b" / name).touch()
    files = {file.path: file for file in stored_files(tmp_path)}
    assert files.keys() == {"secure/ca.key", "clusters/b/history.sqlite3"}
    assert files["secure/ca.key"].secret
    assert files["clusters/b/history.sqlite3"].sqlite


def test_the_data_of_the_bookies_of_several_clusters_is_no_file_of_a_backup(tmp_path: Path) -> None:
    for name in ("clusters/eu/history.sqlite3", "clusters/eu/bookie-1/current/1.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [file.path for file in stored_files(tmp_path)] == ["clusters/eu/history.sqlite3"]
