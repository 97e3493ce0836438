"""Tools for a stopped bookie on a real disk: reports for operators, and a rebuild of the index."""

from pathlib import Path

import pytest

from bookie.storage.codes import Code
from bookie.storage.errors import DamagedError, StorageError
from bookie.storage.gc import forget_ledgers
from bookie.storage.recover import Storage, format_storage, open_storage
from bookie.tools import inspect, rebuild_index
from engine.base.disk.index_disk import SystemIndexDisk
from tests.support.storages import IDENTITY, LIMITS, add, fence, flush, frame, read

DISK = SystemIndexDisk()


class Place:
    """A bookie's directories below ``tmp_path``."""

    def __init__(self, root: Path) -> None:
        self.journal = f"{root}/journal/current"
        self.ledgers = [f"{root}/one/current", f"{root}/two/current"]
        for directory in (self.journal, *self.ledgers):
            DISK.makedirs(directory)
        format_storage(DISK, self.journal, self.ledgers, IDENTITY)

    def open(self) -> Storage:
        return open_storage(DISK, self.journal, self.ledgers, IDENTITY, LIMITS, lambda: 7)

    def fill(self) -> None:
        storage = self.open()
        for entry in range(5):
            assert add(storage, frame(1, entry, b"%d" % entry + bytes(15_000))) == Code.OK
            assert add(storage, frame(3, entry, bytes(15_000))) == Code.OK
            flush(storage)
        fence(storage, 2)
        tombstone = storage.ledgers.delete(3, 1000)
        assert tombstone is not None
        flush(storage)
        forget_ledgers(storage.entries, storage.flusher, [tombstone], [])
        storage.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.fill()
    return place


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    status = inspect.main(words)
    out, error = capsys.readouterr()
    assert status == bool(error), error
    return out + error


def test_a_bookie_is_shown_with_its_journals_logs_and_ledgers(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "bookie", place.journal, *place.ledgers)
    assert "mark file=" in text
    assert "needed" in text
    assert "to be used again" in text
    assert all(f"{directory} bytes=" in text for directory in place.ledgers)
    assert "share=0.5" in text or "share=0.4" in text
    assert "ledgers 3 fenced=1 limbo=0 deleted=1" in text
    assert f"disk {place.journal} free=" in text
    manifest = shown(capsys, "manifest", place.ledgers[0])
    assert "ledger 2 last=-1 fenced" in manifest
    index = shown(capsys, "index", place.ledgers[0])
    assert "ledger 1 last=4" in index
    assert "  0..0 log=00000001" in index
    [log, *_] = [name for name in DISK.listdir(place.ledgers[0]) if name.endswith(".log")]
    assert "1:0..0 bytes=" in shown(capsys, "log", f"{place.ledgers[0]}/{log}")
    assert "group" in shown(capsys, "mark", place.ledgers[0])


def test_nonsense_is_refused_with_its_reason(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = Path(place.journal) / "noise"
    noise.write_bytes(b"noise" * 2000)
    assert "does not verify" in shown(capsys, "journal", str(noise))
    assert "DAMAGED" in shown(capsys, "log", str(noise))
    assert "missing" in shown(capsys, "mark", place.journal)
    with pytest.raises(SystemExit):
        shown(capsys, "bookie", place.journal)


def test_an_index_that_cannot_be_opened_is_set_aside_and_rebuilt(place: Place) -> None:
    index = Path(place.ledgers[0]) / "index"
    for path in index.glob("MANIFEST-*"):
        path.write_bytes(b"noise" * 100)
    with pytest.raises(DamagedError, match="rebuild_index"):
        place.open()
    aside = rebuild_index.set_aside(DISK, place.ledgers[0], accept_limbo=False)
    assert Path(aside).is_dir()
    storage = place.open()
    assert storage.rebuilt
    assert [read(storage, 1, entry) for entry in range(6)] == [
        *(b"%d" % entry + bytes(15_000) for entry in range(5)),
        Code.NO_ENTRY,
    ]
    assert add(storage, frame(2, 0, b"late")) == Code.FENCED
    assert read(storage, 3, 0) == Code.NO_LEDGER
    storage.close()


def test_an_index_in_use_or_without_a_manifest_is_left_alone(place: Place) -> None:
    storage = place.open()
    with pytest.raises(StorageError, match="in use"):
        rebuild_index.set_aside(DISK, place.ledgers[0], accept_limbo=False)
    manifest = Path(place.ledgers[0]) / f"manifest-{storage.manifest.number:08x}"
    storage.close()
    manifest.write_bytes(b"")
    with pytest.raises(StorageError, match="accept-limbo"):
        rebuild_index.set_aside(DISK, place.ledgers[0], accept_limbo=False)
    rebuild_index.set_aside(DISK, place.ledgers[0], accept_limbo=True)
    storage = place.open()
    assert read(storage, 1, 4) == b"4" + bytes(15_000)
    assert read(storage, 1, 5) == Code.LIMBO
    storage.close()
