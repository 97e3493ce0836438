"""Removals: refused while anything runs, named before they happen, and complete after an interruption."""

from pathlib import Path

import pytest

from bookie.settings import PROGRAM as BOOKIE
from bookie.settings import ProcessSettings
from engine.ledger.ledger_metadata import LedgerMetadata, Segment, encode
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from gateway.standalone.data_folder import DataFolderError, held, refusal
from magnetar.operate import wipe
from magnetar.operate.place import OperatedPlace
from magnetar.operate.wipe import (
    PlannedRemoval,
    WipeError,
    _wipe_bookie,
    losses,
    wipe_instance,
)


def instance(folder: Path) -> OperatedPlace:
    for name in ("metadata", "bookie-1", "logs"):
        (folder / name).mkdir()
        (folder / name / "file").touch()
    (folder / "console.sqlite3").touch()
    (folder / "mine").touch()
    return OperatedPlace.load({}, folder, folder)


def test_a_removal_is_listed_before_it_is_confirmed(tmp_path: Path) -> None:
    place = instance(tmp_path)
    asked: list[PlannedRemoval] = []

    def refuse(removal: PlannedRemoval) -> bool:
        asked.append(removal)
        return False

    assert wipe_instance(place, refuse) is None
    assert {path.name for path in asked[0].files} == {
        *("metadata", "bookie-1", "logs", "console.sqlite3"),
    }
    assert (tmp_path / "metadata" / "file").exists()


def test_only_the_instances_own_files_are_removed(tmp_path: Path) -> None:
    place = instance(tmp_path)
    assert wipe_instance(place, lambda removal: True) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_instance_in_use_is_not_removed(tmp_path: Path) -> None:
    place = instance(tmp_path)
    with held(tmp_path), pytest.raises(DataFolderError, match="stop it before"):
        wipe_instance(place, lambda removal: True)
    assert (tmp_path / "metadata" / "file").exists()


def test_a_removal_that_is_killed_is_marked_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = instance(tmp_path)
    real = wipe.remove
    removed: list[Path] = []

    def remove(path: Path) -> None:
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(path)
        real(path)

    monkeypatch.setattr(wipe, "remove", remove)
    with pytest.raises(KeyboardInterrupt):
        wipe_instance(place, lambda removal: True)
    assert "was removed in part" in refusal(tmp_path)
    monkeypatch.setattr(wipe, "remove", real)
    wipe_instance(place, lambda removal: True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_cluster_is_not_wiped_as_an_instance(tmp_path: Path) -> None:
    place = OperatedPlace.load({"MAGNETAR_METADATA_URL": "zk:h:2181"}, tmp_path, tmp_path)
    with pytest.raises(WipeError, match="--bookie"):
        wipe_instance(place, lambda removal: True)


async def test_ledgers_that_are_lost_with_a_bookie_are_counted() -> None:
    store = MemoryServer().session()
    for number, members in enumerate([("a",), ("a", "b"), ("b", "c")]):
        size = len(members)
        metadata = LedgerMetadata(size, size, size, (Segment(0, members),))
        await store.create(paths.ledger(number), encode(metadata), make_parents=True)
    assert await losses(store, "a") == [
        "2 ledgers have a copy of entries there",
        "1 of them have no other copy: their messages are lost",
    ]
    assert await losses(store, "c") == ["1 ledgers have a copy of entries there"]
    assert await losses(store, "d") == []


def bookie(folder: Path) -> ProcessSettings:
    """Return the settings of a bookie whose two directories have data."""
    for name in ("journal", "ledgers"):
        (folder / name / "current").mkdir(parents=True)
        (folder / name / "current" / "VERSION").touch()
    environ = {"MAGNETAR_BOOKIE_DATA_DIR": str(folder), "MAGNETAR_BOOKIE_BOOKIE_ID": "b1"}
    return BOOKIE.load(environ, folder)


async def test_a_bookies_directories_and_its_cookie_are_removed(tmp_path: Path) -> None:
    settings, store = bookie(tmp_path), MemoryServer().session()
    await store.create(paths.cookie("b1"), b"4", make_parents=True)
    assert await _wipe_bookie(store, settings, lambda removal: False) is None
    removal = await _wipe_bookie(store, settings, lambda removal: True)
    assert removal is not None
    assert len(removal.files) == 2
    assert removal.nodes == ["/ledgers/cookies/b1"]
    assert await store.exists(paths.cookie("b1")) is None
    assert not list(tmp_path.rglob("VERSION"))


@pytest.mark.parametrize("path", [paths.available_bookie("b1"), paths.read_only_bookie("b1")])
async def test_a_bookie_that_runs_is_not_removed(tmp_path: Path, path: str) -> None:
    settings, store = bookie(tmp_path), MemoryServer().session()
    await store.create(path, b"", ephemeral=True, make_parents=True)
    with pytest.raises(WipeError, match="bookie b1 runs"):
        await _wipe_bookie(store, settings, lambda removal: True)
    assert len(list(tmp_path.rglob("VERSION"))) == 2
