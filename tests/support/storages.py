"""Storage without a bookie around it, on a disk that can crash; and a bookie's background work without its sockets."""

import asyncio
import random
import struct
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from bookie.cookies import write_local_cookies
from bookie.disks import Disks
from bookie.garbage import GarbageCollector, Lanes
from bookie.settings import BookieSettings
from bookie.storage.checkpoint import Checkpointer, begin_flush
from bookie.storage.codes import Code
from bookie.storage.journal.journal import Journal
from bookie.storage.journal.journal_format import Record, RecordKind, fence_record
from bookie.storage.read_queue import StoredEntries
from bookie.storage.recover import Limits, Storage, format_storage, open_storage
from bookie.storage.runs import cut_frames
from engine.base.clock import SystemClock
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from tests.sim.kit.disk import FaultDisk, InlineLane

T = TypeVar("T")
JOURNAL, LEDGER, IDENTITY, KEY = "/j/current", "/l/current", b"bookie-1", b"k" * 20
COOKIE = b"cookie"
LIMITS = Limits(32 << 10, True, 8 << 10, 64 << 10, True, 4 << 10, 64 << 10)


def frame(ledger: int, entry: int, payload: bytes, key: bytes = KEY) -> bytes:
    body = struct.pack(">I20sqqqq", 0x02010000, key, ledger, entry, entry - 1, 0) + payload
    return struct.pack(">I", len(body)) + body


def fresh(directories: Sequence[str] = (LEDGER,)) -> FaultDisk:
    disk = FaultDisk()
    for directory in (JOURNAL, *directories):
        disk.makedirs(directory)
    write_local_cookies(disk, [JOURNAL, *directories], COOKIE)
    format_storage(disk, JOURNAL, list(directories), IDENTITY)
    return disk


def opened(
    disk: FaultDisk,
    *,
    accept_loss: bool = False,
    seed: int = 1,
    directories: Sequence[str] = (LEDGER,),
) -> Storage:
    draw = random.Random(seed)
    return open_storage(
        disk,
        JOURNAL,
        list(directories),
        IDENTITY,
        LIMITS,
        lambda: draw.getrandbits(64),
        accept_loss=accept_loss,
    )


def add(storage: Storage, data: bytes, *, recovery: bool = False) -> Code:
    """Add one buffer of frames; they are synced when OK is returned."""
    for run in cut_frames(data):
        code = storage.ledgers.add(run, recovery=recovery)
        if code != Code.OK:
            return code
    storage.journal.write_group([Record(RecordKind.ADDS, data, 0)])
    return Code.OK


def fence(storage: Storage, ledger: int) -> None:
    assert storage.ledgers.fence(ledger, KEY) == Code.OK
    storage.journal.write_group([fence_record(ledger, KEY)])
    fenced = storage.ledgers.get(ledger)
    assert fenced is not None
    fenced.fence_durable = True


def flush(storage: Storage, *, checkpoint: bool = True) -> None:
    work = begin_flush(storage.ledgers, storage.journal.mark)
    storage.flusher.flush(work)
    storage.ledgers.cache.flushed()
    if checkpoint:
        storage.journal.recycle(storage.flusher.checkpoint())


def read(storage: Storage, ledger: int, entry: int) -> bytes | Code:
    """Return the payload, or the code of the refusal."""
    known = storage.ledgers.get(ledger)
    if known is None or known.deleted_ms:
        return storage.ledgers.absent(ledger)
    cached = storage.ledgers.cache.find(ledger, entry)
    if cached is not None:
        run, i = cached
        return run.buf[run.offsets[i] + 32 : run.end(i)]
    code, data = StoredEntries(storage.entries, storage.reader, lambda *_: None).read(ledger, entry)
    if code == Code.NO_ENTRY:
        return storage.ledgers.absent(ledger)
    return data[32:] if code == Code.OK else code


class BackgroundWork:
    """Checkpoints, disk checks, garbage collection and compaction of an open storage, in inline lanes."""

    def __init__(self, disk: FaultDisk, storage: Storage, directories: Sequence[str]) -> None:
        self.metadata = MemoryServer().session()
        self.storage = storage
        self.lanes = [InlineLane() for _ in range(4)]
        flush, read, copy, journal = self.lanes
        settings = BookieSettings(
            data_dir="/d",
            entry_log_bytes_max=LIMITS.entry_log_bytes_max,
            entry_log_block_bytes_max=LIMITS.block_bytes_max,
            compaction_rate_by_bytes=1 << 50,
        )
        self.checkpointer = Checkpointer(
            ledgers=storage.ledgers,
            journal=Journal(storage.journal, journal, self._failed),
            writer=storage.journal,
            flusher=storage.flusher,
            lane=flush,
            interval_s=60,
            on_flushed=lambda: None,
            on_full=lambda error: None,
        )
        self.disks = Disks(
            disk,
            read,
            settings,
            JOURNAL,
            storage.logs,
            storage.ledgers.cache,
            COOKIE,
            lambda read_only, reason: None,
        )
        self.garbage = GarbageCollector(
            settings,
            storage,
            self.checkpointer,
            self.disks,
            Lanes(flush, read, copy),
            disk=disk,
            store=self.metadata,
            clock=SystemClock(),
            instance_id="cluster",
        )

    def _failed(self, error: BaseException) -> None:
        raise error

    async def begin(self, live: Sequence[int]) -> None:
        """Write the metadata of the ledgers ``live`` and check the disks."""
        await self.metadata.create(paths.INSTANCE_ID, b"cluster", make_parents=True)
        for ledger_id in live:
            await self.metadata.create(paths.ledger(ledger_id), b"", make_parents=True)
        await self.disks.check()

    async def until_crash(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of ``work``; None when the machine stopped before."""
        task = asyncio.get_running_loop().create_task(work)
        while not task.done():
            if any(lane.crashed for lane in self.lanes):
                task.cancel()
                await asyncio.wait([task])
                return None
            await asyncio.sleep(0)
        return await task
