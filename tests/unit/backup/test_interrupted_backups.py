"""Backups that end before they are complete, and backups that are damaged: neither is believed."""

import errno

import pytest

from engine.backup.backup_manifest import decode, encode
from engine.backup.errors import BackupError, DamagedBackupError
from engine.backup.part_files import FileSum
from engine.managed.ledger import InitialPosition
from tests.sim.kit.disk import Crashed, FaultDisk
from tests.support.managed_cluster import NAME, Brokers, publish, rolling
from tests.support.stores.backups import FOLDER, DirectLane, checked, is_backup, save

pytestmark = pytest.mark.virtual_time


async def filled(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(5))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 12)


class Ending(FaultDisk):
    """A disk that stops at its operation number ``at``, or raises ``error`` there."""

    def __init__(self, at: int, error: OSError | None = None) -> None:
        super().__init__()
        self.at = at
        self.error = error
        self.asked = 0

    def ask(self, operation: str, path: str) -> int | None:
        self.asked += 1
        if self.asked == self.at:
            raise self.error or Crashed(f"{operation} {path}")
        return super().ask(operation, path)


async def test_a_backup_that_is_killed_at_any_step_is_none_or_complete(brokers: Brokers) -> None:
    await filled(brokers)
    at = complete = 0
    killed = True
    while killed:
        at += 1
        disk = Ending(at)
        try:
            await save(brokers, disk, part_bytes=200)
            killed = False
        except Crashed:
            disk.at = 0
            disk.crash()
            if is_backup(disk):
                complete += 1
                await checked(disk)
            else:
                with pytest.raises(BackupError, match="is no backup"):
                    await checked(disk)
    assert at > 20
    disk.at = 0
    disk.crash()
    await checked(disk)
    # Killed after the manifest's name is durable, before the command reports it.
    assert complete <= 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_a_full_or_failing_disk_leaves_no_backup(brokers: Brokers, code: int) -> None:
    await filled(brokers)
    at, failed = 0, True
    while failed:
        at += 1
        disk = Ending(at, OSError(code, "no"))
        try:
            await save(brokers, disk, part_bytes=200)
            failed = False
        except OSError:
            disk.crash()
            assert not is_backup(disk)
    assert at > 20


async def test_every_damaged_byte_is_detected(brokers: Brokers) -> None:
    await filled(brokers)
    disk = FaultDisk()
    await save(brokers, disk)
    await checked(disk)
    for name in disk.listdir(FOLDER):
        file = disk.open(f"{FOLDER}/{name}")
        for at in range(0, file.size(), 37):
            before = file.pread(1, at)
            file.pwritev([bytes([before[0] ^ 0x10])], at)
            with pytest.raises(DamagedBackupError):
                await checked(disk)
            file.pwritev([before], at)
        size = file.size()
        last = file.pread(1, size - 1)
        file.truncate(size - 1)
        if name != "manifest.json":  # whose last byte ends the line
            with pytest.raises(DamagedBackupError, match=name):
                await checked(disk)
        file.pwritev([last], size - 1)
    await checked(disk)


async def test_a_missing_file_is_named(brokers: Brokers) -> None:
    await filled(brokers)
    disk = FaultDisk()
    await save(brokers, disk, part_bytes=200)
    disk.remove(f"{FOLDER}/data-00001")
    with pytest.raises(DamagedBackupError, match="data-00001 cannot be read"):
        await checked(disk)


async def test_a_later_format_is_refused_by_its_release(brokers: Brokers) -> None:
    await filled(brokers)
    disk = FaultDisk()
    await save(brokers, disk)
    file = disk.open(f"{FOLDER}/manifest.json")
    text = file.pread(file.size(), 0).replace(b'"format": 1', b'"format": 9')
    file.pwritev([text], 0)
    with pytest.raises(DamagedBackupError, match="format 9, and this release reads 1"):
        await checked(disk)


@pytest.mark.parametrize("name", ["/etc/passwd", "../escaped", "secure/../../escaped"])
async def test_a_manifest_names_no_file_outside_of_the_backup(brokers: Brokers, name: str) -> None:
    await filled(brokers)
    manifest = await save(brokers, FaultDisk())
    changed = manifest.with_files({name: (FileSum(0, ""), "nothing", False)})
    with pytest.raises(DamagedBackupError, match="names a file outside of the backup"):
        decode(encode(changed))


async def test_an_unreadable_ledger_fails_the_backup(brokers: Brokers) -> None:
    await filled(brokers)
    await brokers.cluster.stop("b0")
    with pytest.raises(BackupError, match=r"ledger \d+ cannot be read"):
        await save(brokers, FaultDisk())


async def test_the_lane_passes_a_crash_on() -> None:
    def crash() -> None:
        raise Crashed("here")

    with pytest.raises(Crashed):
        await DirectLane().run(crash)
