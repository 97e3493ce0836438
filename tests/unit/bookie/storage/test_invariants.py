"""Invariants I19 to I32 of a bookie, as far as no other test holds them: see docs/invariants.md."""

import asyncio
import random
import struct

import pytest

from bookie.storage.codes import Code
from bookie.storage.gc import find_deleted, forget_ledgers, remove_logs, retire_logs
from bookie.storage.index.manifest import REWRITE_BYTES, encode_end
from bookie.storage.journal.journal_format import BLOCK, decode_file_header, lac_record
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES
from bookie.storage.mark import read_mark
from bookie.storage.recover import Storage
from engine.metadata import paths
from engine.metadata.memory import Fault
from engine.metadata.store import SessionExpiredError, SessionState, StoreUnavailableError
from engine.wire import bookie_v3 as v3
from tests.sim.kit.disk import FaultDisk
from tests.support import storages
from tests.support.bookies import KEY, OTHER_KEY, Client, Machine, add, code, read
from tests.support.storages import JOURNAL, LEDGER, fence, flush, frame, fresh, opened
from tests.unit.bookie.requests.test_v3 import lac_body, put

RECOVERY = 2
"""Flag of an add."""


async def test_i23_a_fence_divides_the_adds_of_one_buffer_into_seen_and_refused() -> None:
    machine = Machine()
    async with machine:
        client = await machine.client()
        client.writer.write(
            add(1, 0, b"a") + add(1, 1, b"b") + read(1, 1, fence=KEY) + add(1, 2, b"late")
        )
        answers = [await client.answer() for _ in range(4)]
        adds = {answer[12:28]: code(answer) for answer in answers if len(answer) == 28}
        assert adds == {
            struct.pack(">qq", 1, entry): want
            for entry, want in ((0, Code.OK), (1, Code.OK), (2, Code.FENCED))
        }
        [seen] = [answer for answer in answers if len(answer) > 28]
        assert (code(seen), seen[60:]) == (Code.OK, b"b")
        assert await client.read(1, -1) == b"b"
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        assert [await client.read(1, i) for i in range(3)] == [b"a", b"b", Code.NO_ENTRY]
        await client.close()


@pytest.mark.parametrize("flushed", [False, True])
async def test_i24_what_recovery_writes_again_is_taken_and_read_as_it_came(flushed: bool) -> None:
    """Write a copy with another last add confirmed: only that may differ, never its payload or ids."""
    machine = Machine()
    again = struct.pack(">I20sqqqq", 0x02010000 | RECOVERY, KEY, 1, 5, 2, 7) + b"\x00payload\xff"
    again = struct.pack(">I", len(again)) + again
    async with machine:
        client = await machine.client()
        for entry in range(8):
            assert await client.add(1, entry, b"\x00payload\xff") == Code.OK
        if flushed:
            await machine.bookie.serving.checkpointer.step(checkpoint=True)
        first = await client.ask(read(1, 5, fence=KEY))
        assert first[28:] == add(1, 5, b"\x00payload\xff")[28:]
        for _ in range(2):
            assert code(await client.ask(again)) == Code.OK
            assert (await client.ask(read(1, 5)))[28:] == again[28:]
        assert [await client.read(1, i) for i in range(9)] == [
            *([b"\x00payload\xff"] * 8),
            Code.NO_ENTRY,
        ]
        await client.close()
        await machine.kill()
    async with machine:
        client = await machine.client()
        assert (await client.ask(read(1, 5)))[28:] == again[28:]
        await client.close()


async def test_i25_a_wrong_key_adds_fences_and_confirms_nothing() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"a") == Code.OK
        for key in (OTHER_KEY, bytes(20)):
            assert await client.add(1, 1, b"x", key=key) == Code.UNAUTHORIZED
            assert await client.add(1, 1, b"x", key=key, flags=RECOVERY) == Code.UNAUTHORIZED
            assert await put(client, 1, 1, b"x", key=key) == Code.UNAUTHORIZED
            assert await client.read(1, 0, fence=key) == Code.UNAUTHORIZED
            request = v3.write_lac_request(1, 1, 0, key, lac_body(1, 0))
            assert await status(client, request) == Code.UNAUTHORIZED
        assert await client.read(1, 1) == Code.NO_ENTRY
        assert await client.add(1, 1, b"b") == Code.OK
        await client.close()


async def status(client: Client, request: bytes) -> int:
    answer = await client.ask(request)
    return v3.code(v3.parse_response(answer, 0, len(answer)).status)


def test_i26_what_is_before_the_mark_is_known_without_the_journal() -> None:
    disk = fresh()
    storage = opened(disk)
    for ledger in (1, 2):
        assert storages.add(storage, frame(ledger, 0, b"%d" % ledger)) == Code.OK
    fence(storage, 2)
    fence(storage, 3)  # nothing else is known of it
    body = lac_body(1, 0)
    assert storage.ledgers.write_lac(1, storages.KEY, body) == Code.OK
    storage.journal.write_group([lac_record(1, storages.KEY, body)])
    flush(storage)
    disk.crash()
    storage = opened(disk, seed=2)
    assert storage.replayed == 0
    assert [storages.read(storage, ledger, 0) for ledger in (1, 2)] == [b"1", b"2"]
    for ledger in (2, 3):
        assert storages.add(storage, frame(ledger, 1, b"late")) == Code.FENCED
    assert storages.add(storage, frame(1, 1, b"", key=OTHER_KEY)) == Code.UNAUTHORIZED
    known = storage.ledgers.get(1)
    assert known is not None
    assert known.explicit_lac == body


class JournalWatch:
    """A disk plan: the mark never decreases, and only journal files before it are removed or reused."""

    def __init__(self, disk: FaultDisk) -> None:
        self._disk = disk
        self._looking = False
        self._begun: dict[str, None] = {}
        self.marks = [read_mark(disk, LEDGER).mark]
        self.removed = self.reused = 0

    def __call__(self, op: str, path: str) -> None:
        if self._looking:
            return
        self._looking = True
        mark = read_mark(self._disk, LEDGER).mark
        assert mark >= self.marks[-1]
        if mark != self.marks[-1]:
            self.marks.append(mark)
        if path.startswith(f"{JOURNAL}/journal-") and op in ("pwritev", "remove"):
            file = self._disk.open(path)
            header = decode_file_header(file.pread(BLOCK, 0))
            if op == "remove":
                assert header is None or header.file_id < mark.file_id
                self.removed += 1
            elif path in self._begun:
                del self._begun[path]  # its header is written over now
                if header is not None:
                    assert header.file_id < mark.file_id
                    self.reused += 1
        elif path.startswith(f"{JOURNAL}/journal-") and op == "open":
            self._begun[path] = None
        self._looking = False


def test_i26_i27_the_mark_only_rises_and_journal_files_are_given_up_only_behind_it() -> None:
    disk, draw = fresh(), random.Random(26)
    storage = opened(disk)
    watch = disk.plan = JournalWatch(disk)
    want: dict[int, bytes] = {}
    for entry in range(300):
        want[entry] = b"%d." % entry + bytes(draw.randrange(6000))
        assert storages.add(storage, frame(1, entry, want[entry])) == Code.OK
        if draw.random() < 0.2:
            flush(storage, checkpoint=draw.random() < 0.5)
        if draw.random() < 0.05 and storage.logs.ends:  # beside the marks: the manifest grows
            log, end = max(storage.logs.ends.items())
            storage.flusher.secure([encode_end(log, end)] * (REWRITE_BYTES // 60))
        if draw.random() < 0.02:
            disk.plan = lambda op, path: None
            disk.crash()
            storage = opened(disk, seed=entry + 2)
            disk.plan = watch
    assert len(watch.marks) > 10
    assert watch.removed > 0
    assert watch.reused > 10
    assert {entry: storages.read(storage, 1, entry) for entry in want} == want


async def connected(machine: Machine) -> None:
    async with asyncio.timeout(120):
        while machine.store.state is not SessionState.CONNECTED:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("how", ["request lost", "answer lost", "session expired"])
async def test_i28_a_round_that_cannot_check_every_ledger_deletes_nothing(how: str) -> None:
    async with Machine() as machine:
        client = await machine.client()
        for ledger in range(1, 7):
            assert await client.add(ledger, 0, b"%d" % ledger) == Code.OK
        for at in range(7):  # the last question is whose store this is
            asked = 0

            def failing(session: int, op: str, path: str, at: int = at) -> Fault | None:
                nonlocal asked
                about = op == "exists" and path.startswith(f"{paths.LEDGERS}/0")
                if asked > at or not (about or path == paths.INSTANCE_ID):
                    return None
                asked += 1
                if asked <= at:
                    return None
                if how == "session expired":
                    machine.metadata.expire(machine.store.session_id)
                return Fault(lose_request=how == "request lost", lose_reply=how == "answer lost")

            machine.metadata.on_call = failing
            with pytest.raises((StoreUnavailableError, SessionExpiredError)):
                await machine.bookie.serving.garbage.collect()
            assert asked == at + 1
            await connected(machine)
            assert [await client.read(ledger, 0) for ledger in range(1, 7)] == [
                b"%d" % ledger for ledger in range(1, 7)
            ]
        machine.metadata.on_call = None
        assert await machine.bookie.serving.garbage.collect() == 6
        await client.close()


async def test_i30_a_log_that_was_not_understood_in_full_outlives_all_its_known_ledgers() -> None:
    disk = fresh()
    storage = opened(disk)
    for ledger in (1, 2, 3):
        assert storages.add(storage, frame(ledger, 0, bytes(3000))) == Code.OK
    flush(storage)
    [log] = storage.logs.ids()
    disk.crash()
    disk.drop_index(f"{LEDGER}/index")
    disk.damage(f"{LEDGER}/{log:08x}.log", FILE_HEADER_BYTES + 8)  # a block's head: whose is it?
    storage = opened(disk, seed=2)
    assert storage.rebuilt
    assert await delete_all(storage) == []
    assert log in storage.logs
    disk.crash()
    storage = opened(disk, seed=3)
    assert await delete_all(storage) == []
    assert log in storage.logs


async def delete_all(storage: Storage) -> list[int]:
    """Delete all known ledgers; return the logs that were removed."""

    async def denied(ledger_id: int) -> bool:
        return True

    deleted = await find_deleted(storage.ledgers.live_ids(), denied)
    tombstones = [storage.ledgers.delete(ledger_id, 1) for ledger_id in deleted]
    kept = [tombstone for tombstone in tombstones if tombstone is not None]
    forget_ledgers(storage.entries, storage.flusher, kept, [])
    dead = retire_logs(storage.entries, storage.logs, storage.flusher)
    remove_logs(storage.logs, storage.reader, dead)
    return dead


async def test_i32_answers_of_one_connection_carry_the_bytes_of_their_own_entries() -> None:
    draw = random.Random(32)
    async with Machine(read_cache_bytes=0) as machine:
        client = await machine.client()
        places = [(ledger, entry) for ledger in range(1, 5) for entry in range(30)]
        for i, place in enumerate(places):
            assert await client.add(*place, b"%d:%d" % place) == Code.OK
            if i == len(places) // 2:
                await machine.bookie.serving.checkpointer.step(checkpoint=True)
        draw.shuffle(places)
        client.writer.write(b"".join(read(*place) for place in places))
        answered = []
        for _ in places:
            answer = await client.answer()
            ledger, entry = struct.unpack_from(">qq", answer, 12)
            assert struct.unpack_from(">qq", answer, 28) == (ledger, entry)
            assert answer[60:] == b"%d:%d" % (ledger, entry)
            answered.append((ledger, entry))
        assert sorted(answered) == sorted(places)
        await client.close()
