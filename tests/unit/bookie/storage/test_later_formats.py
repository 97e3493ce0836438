"""Files that a later release wrote, after a roll-back: they are recognised, and neither damage nor removed."""

import pytest

from bookie.storage.errors import LaterFormatError
from bookie.storage.journal.journal import journal_names
from bookie.storage.logs.entry_log_format import FILE_MAGIC as LOG_MAGIC
from bookie.storage.logs.entry_log_format import encode_file_header
from engine.base.crc32c import crc32c
from engine.base.disk.later_formats import later_version
from engine.metadata.server.storage.metadata_log import DamagedStoreError, segment_name
from engine.metadata.server.storage.snapshot_files import snapshot_name
from tests.sim.kit.disk import FaultDisk
from tests.support.storages import JOURNAL, add, frame, fresh, opened
from tests.unit.metadata.server.storage.test_metadata_log import (
    FOLDER,
    snapshots,
    state_of,
    three_groups,
)


def of_version(header: bytes, version: int, more: bytes = b"") -> bytes:
    """Return a header as a later release may write it: with further fields, and its checksum at its end."""
    head = header[:8] + version.to_bytes(4, "big") + header[12:] + more
    return head + crc32c(head).to_bytes(4, "big")


def rewrite(disk: FaultDisk, path: str, size: int, version: int) -> bytes:
    """Replace a file's header of ``size`` bytes without its checksum; return the file."""
    file = disk.open(path)
    file.pwritev([of_version(file.pread(size, 0), version, b"more")], 0)
    return file.pread(file.size(), 0)


@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_journal_of_a_later_release_refuses_the_start(accept_loss: bool) -> None:
    disk = fresh()
    add(opened(disk), frame(1, 0, b"a message"))
    disk.crash()
    path = f"{JOURNAL}/{journal_names(disk, JOURNAL)[-1]}"
    before = rewrite(disk, path, 48, 3)
    with pytest.raises(
        LaterFormatError, match=r"has format 3, and this release reads 2: .*remove no"
    ):
        opened(disk, accept_loss=accept_loss)
    file = disk.open(path)
    assert file.pread(file.size(), 0) == before


def test_metadata_of_a_later_release_refuses_the_start_without_advice_to_remove_it() -> None:
    disk = FaultDisk()
    three_groups(disk)
    rewrite(disk, f"{FOLDER}/{segment_name(1)}", 60, 2)
    with pytest.raises(DamagedStoreError, match=r"has format 2.*remove no file"):
        state_of(disk)


def test_a_snapshot_of_a_later_release_refuses_the_start() -> None:
    disk = FaultDisk()
    snapshots(disk, 1)
    name = next(name for name in disk.listdir(FOLDER) if name.startswith("snapshot-"))
    assert name == snapshot_name(int(name.rpartition("-")[2]))
    rewrite(disk, f"{FOLDER}/{name}", 60, 2)
    with pytest.raises(DamagedStoreError, match=r"has format 2.*remove no file"):
        state_of(disk)


def test_a_damaged_version_is_not_taken_for_a_later_one() -> None:
    header = encode_file_header(7)
    for bit in range(32):
        damaged = bytearray(header)
        damaged[8 + bit // 8] ^= 1 << bit % 8
        assert later_version(bytes(damaged), LOG_MAGIC, 1) == 0
    assert later_version(header, LOG_MAGIC, 1) == 0
    assert later_version(of_version(header[:20], 2), LOG_MAGIC, 1) == 2
    assert later_version(header[:10], LOG_MAGIC, 1) == 0
