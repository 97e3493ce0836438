"""A sync that fails once: the next one would succeed and vouch for bytes that the first one lost (B8)."""

import pytest

from bookie.storage.errors import StorageError
from bookie.storage.journal.journal_format import Record, RecordKind
from tests.sim.kit.disk import FaultDisk
from tests.support.storages import JOURNAL, frame, fresh, opened


class FailsOnce:
    """A disk plan: the next sync of the journal fails, and the bytes that it should write are lost."""

    def __init__(self, disk: FaultDisk) -> None:
        self._disk = disk
        self.syncs = 0

    def __call__(self, op: str, path: str) -> None:
        if op == "fdatasync" and path.startswith(JOURNAL):
            self.syncs += 1
            if self.syncs == 1:
                self._disk.drop_dirty(path)
                raise OSError(5, "Input/output error")


def test_a_sync_that_fails_once_is_never_tried_again() -> None:
    disk = fresh()
    storage = opened(disk)
    plan = disk.plan = FailsOnce(disk)
    group = [Record(RecordKind.ADDS, frame(1, 0, b"x"), 1)]
    with pytest.raises(OSError, match="Input/output"):
        storage.journal.write_group(group)
    for _ in range(2):
        with pytest.raises(StorageError, match="failed earlier"):
            storage.journal.write_group(group)
    assert plan.syncs == 1


def test_a_file_whose_first_sync_fails_ends_the_journal() -> None:
    disk = fresh()
    storage = opened(disk)
    storage.journal.prepare()
    plan = disk.plan = FailsOnce(disk)
    with pytest.raises(OSError, match="Input/output"):
        storage.journal.begin_file()
    with pytest.raises(StorageError, match="could not begin"):
        storage.journal.write_group([Record(RecordKind.ADDS, frame(1, 0, b"x"), 1)])
    assert plan.syncs == 1
