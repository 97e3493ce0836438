"""Reads of stored entries: a job that stays in one block gives what asking the index for each entry would."""

import random

from bookie.storage.codes import Code
from bookie.storage.entry_log import EntryLogReader, EntryLogWriter
from bookie.storage.entry_log_format import blocks_of
from bookie.storage.index import BookieIndex, Placed
from bookie.storage.log_files import LogFiles
from bookie.storage.reads import Request, StoredEntries
from bookie.storage.runs import cut_frames
from tests.sim.disk import FaultDisk
from tests.unit.bookie.bookies import add


class Store:
    """Index and entry log without journal and cache."""

    def __init__(self) -> None:
        disk = FaultDisk()
        disk.makedirs("/l")
        self.index = BookieIndex(disk.open_index("/l/index"))
        logs = LogFiles(disk, ["/l"])
        self.log = EntryLogWriter(logs, 1 << 20, direct=False)
        self.reader = EntryLogReader(disk, logs, 1 << 20)
        self.entries = StoredEntries(self.index, self.reader, lambda error: None)

    def write(self, ledger: int, first: int, payloads: list[bytes]) -> None:
        frames = b"".join(add(ledger, first + i, payload) for i, payload in enumerate(payloads))
        blocks = list(blocks_of(cut_frames(frames), 400))
        placed = zip(blocks, self.log.append(blocks), strict=True)
        self.index.put((Placed(b.ledger_id, b.first, place) for b, place in placed), [])


def asked(ledger: int, first: int, count: int = 1) -> Request:
    return Request(ledger, first, count, 1 << 20, lambda *_: None, None)


def test_a_job_answers_as_single_reads_do() -> None:
    draw = random.Random(3)
    store = Store()
    for ledger, first, count in ((1, 0, 30), (2, 5, 9), (1, 12, 7), (1, 40, 3), (2, 0, 2)):
        store.write(ledger, first, [draw.randbytes(draw.randrange(150)) for _ in range(count)])
    requests = [asked(draw.choice((1, 2, 3)), draw.randrange(45)) for _ in range(300)]
    requests += [asked(1, i) for i in range(45)] + [asked(1, 0, 100), asked(2, 3, 4)]
    for request, (code, entries) in zip(requests, store.entries.answer(requests), strict=True):
        alone = [
            store.entries.read(request.ledger_id, request.first + i)
            for i in range(request.entries_max)
        ]
        good = next((i for i, one in enumerate(alone) if one[0] != Code.OK), len(alone))
        assert code == (alone[0][0] if not good else Code.OK)
        assert entries == [entry for _, entry in alone[:good]]


def test_what_was_written_anew_between_two_jobs_is_seen() -> None:
    store = Store()
    store.write(1, 0, [b"old"] * 4)
    [(_, [before])] = store.entries.answer([asked(1, 1)])
    store.write(1, 1, [b"new"])
    [(_, [after])] = store.entries.answer([asked(1, 1)])
    assert before.endswith(b"old")
    assert after.endswith(b"new")
