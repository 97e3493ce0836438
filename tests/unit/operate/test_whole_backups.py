"""Backups of an instance as folders: whole or absent, and restored into an empty folder alone."""

import asyncio
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.backup.backup_manifest import BackupManifest, Counts
from engine.backup.errors import BackupError, DamagedBackupError, RestoreError
from engine.backup.part_files import PartWriter
from engine.base.disk.files import SystemDisk
from engine.programs import cluster_backups
from gateway.standalone.data_folder import refusal, write_mark
from magnetar.operate import backup
from magnetar.operate import restore as restoring
from magnetar.operate.backup import back_up
from magnetar.operate.place import OperatedPlace
from magnetar.operate.restore import restore
from tests.support.stores.backups import DirectLane


def ignore(text: str) -> None:
    """Accept a report."""


def saved(settings: object, folder: Path, *_: object) -> BackupManifest:
    """Write an empty cluster as ``cluster_backups.save`` writes one."""

    async def run() -> BackupManifest:
        writer = PartWriter(SystemDisk(), DirectLane(), str(folder))
        await writer.close()
        return BackupManifest("id", "1", 0, 0, "i", 1, Counts(), 0, dict(writer.sums))

    return asyncio.run(run())


@contextmanager
def no_storage(*_: object) -> Iterator[Mapping[str, str]]:
    yield {}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OperatedPlace:
    """An instance whose servers are not started."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "internal-token").write_text("a token")
    (data / "secure").mkdir()
    (data / "secure" / "ca.key").write_text("a key")
    monkeypatch.setattr(OperatedPlace, "readable", no_storage)
    monkeypatch.setattr(cluster_backups, "save", saved)
    monkeypatch.setattr(cluster_backups, "restore", lambda *_, **__: None)
    monkeypatch.setattr(restoring, "storage", no_storage)
    return OperatedPlace.load({}, data, data)


def empty_place(tmp_path: Path) -> OperatedPlace:
    return OperatedPlace.load({}, tmp_path, tmp_path / "empty")


def test_secrets_are_named_and_for_this_user_alone(place: OperatedPlace, tmp_path: Path) -> None:
    manifest = back_up(place, tmp_path / "b", ignore)
    assert set(manifest.secrets) == {"internal-token", "secure/ca.key"}
    for path in (tmp_path / "b", *(tmp_path / "b").rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize("step", ["save", "file_sum", "seal"])
def test_a_backup_that_fails_leaves_nothing(
    place: OperatedPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cluster_backups, step, fail)
    with pytest.raises(OSError, match="No space"):
        back_up(place, tmp_path / "b", ignore)
    assert not list(tmp_path.glob("b*"))


@pytest.mark.parametrize("step", ["save", "file_sum", "seal", "check"])
def test_a_backup_that_is_killed_is_not_believed_and_is_replaced(
    place: OperatedPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(cluster_backups, step, killed)
        patch.setattr(backup.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            back_up(place, tmp_path / "b", ignore)
    if step == "check":  # all of it is durable, and was not read again
        cluster_backups.check(tmp_path / "b")
        return
    assert not (tmp_path / "b").exists()
    with pytest.raises(BackupError, match="is no backup"):
        cluster_backups.check(tmp_path / "b.partial")
    back_up(place, tmp_path / "b", ignore)
    assert [path.name for path in tmp_path.glob("b*")] == ["b"]


def test_folders_of_others_are_not_replaced(place: OperatedPlace, tmp_path: Path) -> None:
    (tmp_path / "b.partial").mkdir()
    with pytest.raises(BackupError, match="is no incomplete backup"):
        back_up(place, tmp_path / "b", ignore)
    (tmp_path / "c").mkdir()
    with pytest.raises(BackupError, match="exists: choose another name"):
        back_up(place, tmp_path / "c", ignore)


def test_a_file_of_the_instance_that_was_changed_is_named(
    place: OperatedPlace, tmp_path: Path
) -> None:
    back_up(place, tmp_path / "b", ignore)
    (tmp_path / "b" / "secure" / "ca.key").write_text("b key")
    with pytest.raises(DamagedBackupError, match=r"secure/ca\.key is damaged"):
        restore(empty_place(tmp_path), tmp_path / "b", ignore)
    assert not (tmp_path / "empty").exists()


def test_an_instance_is_not_overwritten(place: OperatedPlace, tmp_path: Path) -> None:
    back_up(place, tmp_path / "b", ignore)
    with pytest.raises(RestoreError, match="is not empty: it has internal-token, secure"):
        restore(place, tmp_path / "b", ignore)
    assert refusal(place.data_dir) == ""


def test_an_interrupted_restore_is_marked_and_continued_by_the_same_backup(
    place: OperatedPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(place, tmp_path / "b", ignore)
    target = empty_place(tmp_path)

    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(cluster_backups, "restore", killed)
        with pytest.raises(SystemExit):
            restore(target, tmp_path / "b", ignore)
    assert "has a part of backup id" in refusal(target.data_dir)
    write_mark(target.data_dir, "other")
    with pytest.raises(RestoreError, match="a part of backup other"):
        restore(target, tmp_path / "b", ignore)
    write_mark(target.data_dir, "id")
    restore(target, tmp_path / "b", ignore)
    assert refusal(target.data_dir) == ""
    assert (target.data_dir / "secure" / "ca.key").read_text() == "a key"
    with pytest.raises(RestoreError, match="is not empty"):
        restore(target, tmp_path / "b", ignore)


def test_a_console_database_of_the_other_kind_is_refused_before_anything_is_written(
    place: OperatedPlace, tmp_path: Path
) -> None:
    import sqlite3

    sqlite3.connect(place.data_dir / "console.sqlite3").close()
    back_up(place, tmp_path / "b", ignore)
    url = {"MAGNETAR_DATABASE_URL": "postgresql://u@h/n"}
    target = OperatedPlace.load(url, tmp_path, tmp_path / "empty")
    with pytest.raises(RestoreError, match="from SQLite, and the settings name PostgreSQL"):
        restore(target, tmp_path / "b", ignore)
    assert not target.data_dir.exists()
    restore(target, tmp_path / "b", ignore, database=False)
    assert not (target.data_dir / "console.sqlite3").exists()
