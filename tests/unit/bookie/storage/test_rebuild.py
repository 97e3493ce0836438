"""A lost index is rebuilt from manifest and entry logs; where that is incomplete, no entry is reported as absent."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.storage.codes import Code
from bookie.storage.errors import DamagedError
from bookie.storage.gc import forget_ledgers
from bookie.storage.index.index import DELETED, FENCED, LedgerRecord
from bookie.storage.index.manifest import (
    HEADER_BYTES,
    REWRITE_BYTES,
    Manifest,
    decode,
    encode_end,
    encode_forgotten,
    encode_header,
    encode_ledger,
    manifest_numbers,
)
from bookie.storage.logs.entry_log_format import FILE_HEADER_BYTES
from bookie.storage.mark import read_mark
from bookie.storage.recover import Storage
from tests.sim.kit.disk import Crashed, FaultDisk
from tests.support.storages import (
    LEDGER,
    add,
    fence,
    flush,
    frame,
    fresh,
    opened,
    read,
)

INDEX = f"{LEDGER}/index"


def filled(disk: FaultDisk, logs: int = 3) -> Storage:
    """Return a storage with ledger 1 in every log, 2 fenced and empty, 3 deleted, 4 fenced with an entry."""
    storage = opened(disk)
    for i in range(logs):
        assert add(storage, frame(1, i, b"%d" % i + bytes(2000))) == Code.OK
        assert add(storage, frame(3, i, bytes(2000))) == Code.OK
        flush(storage, checkpoint=i == 1)
        storage.log.leave()
        storage.log.release_left()
    assert add(storage, frame(4, 0, b"four")) == Code.OK
    fence(storage, 2)
    fence(storage, 4)
    tombstone = storage.ledgers.delete(3, 1000)
    assert tombstone is not None
    storage.entries.delete(tombstone)
    storage.flusher.secure([encode_ledger(tombstone)])
    flush(storage)
    return storage


def log_names(disk: FaultDisk) -> list[str]:
    return [f"{LEDGER}/{name}" for name in disk.listdir(LEDGER) if name.endswith(".log")]


def test_entries_fences_and_tombstones_outlive_the_index() -> None:
    disk = fresh()
    filled(disk)
    disk.crash()
    disk.drop_index(INDEX)
    for seed in (2, 3):  # again when it is there
        storage = opened(disk, seed=seed)
        assert storage.rebuilt == (seed == 2)
        assert [read(storage, 1, i) for i in range(3)] == [
            b"%d" % i + bytes(2000) for i in range(3)
        ]
        assert read(storage, 1, 3) == Code.NO_ENTRY
        assert read(storage, 99, 0) == Code.NO_LEDGER
        assert read(storage, 3, 0) == Code.NO_LEDGER
        assert add(storage, frame(3, 9, b"late")) == Code.FENCED
        assert add(storage, frame(2, 0, b"late")) == Code.FENCED
        assert add(storage, frame(4, 1, b"late")) == Code.FENCED
        assert add(storage, frame(4, 1, b"late", key=b"x" * 20)) == Code.UNAUTHORIZED
        disk.crash()


def test_an_index_older_than_the_last_checkpoint_counts_as_lost() -> None:
    disk = fresh()
    storage = opened(disk)
    assert add(storage, frame(1, 0, b"a")) == Code.OK
    flush(storage)
    storage.close()
    old = disk.copy_index(INDEX)
    storage = opened(disk, seed=2)
    assert add(storage, frame(1, 1, b"b")) == Code.OK
    flush(storage)
    disk.crash()
    disk.put_index(INDEX, old)
    storage = opened(disk, seed=3)
    assert storage.rebuilt
    assert [read(storage, 1, i) for i in range(2)] == [b"a", b"b"]


def test_another_bookies_index_is_refused() -> None:
    disk = fresh()
    storage = opened(disk)
    storage.entries.set_identity(b"somebody else")
    flush(storage)
    storage.entries.flush()
    disk.crash()
    with pytest.raises(DamagedError, match="another bookie"):
        opened(disk)


@pytest.mark.parametrize("loss", ["log", "head", "cut"])
def test_entries_that_cannot_be_rebuilt_are_never_denied(loss: str) -> None:
    disk = fresh()
    filled(disk)
    disk.crash()
    disk.drop_index(INDEX)
    [_, second, *_] = log_names(disk)
    if loss == "log":
        disk.remove(second)
        disk.sync_dir(LEDGER)
    elif loss == "head":
        disk.damage(second, FILE_HEADER_BYTES + 5)
    else:
        disk.open(second).truncate(FILE_HEADER_BYTES + 10)
    for seed in (2, 3):
        storage = opened(disk, seed=seed)
        assert read(storage, 1, 0) == b"0" + bytes(2000)
        assert read(storage, 1, 1) == Code.LIMBO
        assert read(storage, 99, 0) == Code.LIMBO
        assert read(storage, 3, 1) == Code.NO_LEDGER
        assert add(storage, frame(1, 9, b"late")) == Code.FENCED
        if loss != "log":
            assert second in log_names(disk)  # kept for an examination
        disk.crash()


def test_a_block_that_does_not_verify_is_indexed_and_unreadable() -> None:
    disk = fresh()
    filled(disk)
    disk.crash()
    disk.drop_index(INDEX)
    disk.damage(log_names(disk)[1], FILE_HEADER_BYTES + 100)
    storage = opened(disk, seed=2)
    assert read(storage, 1, 1) == Code.IO
    assert read(storage, 1, 2) == b"2" + bytes(2000)
    assert read(storage, 1, 3) == Code.NO_ENTRY


@pytest.mark.parametrize("offset", [3, HEADER_BYTES + 20])
def test_a_damaged_manifest_alone_costs_nothing(offset: int) -> None:
    disk = fresh()
    filled(disk)
    disk.crash()
    disk.damage(manifest_path(disk), offset)
    for seed in (2, 3):
        storage = opened(disk, seed=seed)
        assert not storage.rebuilt
        assert read(storage, 1, 3) == Code.NO_ENTRY
        assert add(storage, frame(2, 0, b"late")) == Code.FENCED
        disk.crash()
    disk.drop_index(INDEX)  # the manifest is whole again
    storage = opened(disk, seed=4)
    assert read(storage, 1, 3) == Code.NO_ENTRY
    assert add(storage, frame(2, 0, b"late")) == Code.FENCED


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_without_index_and_manifest_everything_is_fenced_and_nothing_denied(how: str) -> None:
    disk = fresh()
    filled(disk)
    disk.crash()
    disk.drop_index(INDEX)
    if how == "damaged":
        disk.damage(manifest_path(disk), HEADER_BYTES + 20)
    else:
        disk.remove(manifest_path(disk))
        disk.sync_dir(LEDGER)
    for seed in (2, 3):
        storage = opened(disk, seed=seed)
        assert read(storage, 1, 2) == b"2" + bytes(2000)
        assert read(storage, 1, 3) == read(storage, 2, 0) == read(storage, 99, 0) == Code.LIMBO
        assert add(storage, frame(1, 9, b"late")) == Code.FENCED
        assert add(storage, frame(1, 9, b"late", key=b"x" * 20)) == Code.UNAUTHORIZED
        disk.crash()


def test_limbo_outlives_the_index() -> None:
    disk = fresh()
    filled(disk)
    disk.crash()
    disk.drop_index(INDEX)
    disk.remove(log_names(disk)[1])
    disk.sync_dir(LEDGER)
    opened(disk, seed=2)
    for seed in (3, 4):
        disk.crash()
        disk.drop_index(INDEX)
        storage = opened(disk, seed=seed)
        assert read(storage, 1, 1) == read(storage, 99, 0) == Code.LIMBO
        assert read(storage, 1, 0) == b"0" + bytes(2000)
        assert add(storage, frame(1, 9, b"late")) == Code.FENCED


def test_a_ledger_whose_tombstone_was_forgotten_is_not_restored_with_the_index() -> None:
    disk = fresh()
    storage = filled(disk)
    live = storage.ledgers.live
    assert live == len(storage.ledgers.live_ids()) < len(storage.ledgers)
    assert storage.ledgers.forget_deleted(before_ms=2000) == [3]
    assert storage.ledgers.live == live == len(storage.ledgers)
    forget_ledgers(storage.entries, storage.flusher, [], [3])
    assert read(storage, 3, 0) == Code.NO_LEDGER
    disk.crash()
    disk.drop_index(INDEX)
    storage = opened(disk, seed=2)
    assert storage.rebuilt
    assert read(storage, 3, 0) == Code.NO_LEDGER
    assert 3 not in [ledger_id for used in storage.entries.usage.values() for ledger_id in used]
    assert read(storage, 1, 2) == b"2" + bytes(2000)


def test_an_interrupted_rebuild_starts_again() -> None:
    at = 0
    while True:
        at += 1
        disk = fresh()
        filled(disk)
        disk.crash()
        disk.drop_index(INDEX)
        stop, chance = disk.operations + at, random.Random(at)

        def plan(op: str, path: str, disk: FaultDisk = disk, stop: int = stop) -> None:
            if disk.operations > stop:
                raise Crashed(f"{op} {path}")

        disk.plan = plan
        try:
            opened(disk, seed=2)
            break
        except Crashed:
            disk.crash(lambda c=chance: c.random() < 0.5)  # type: ignore[misc]
        storage = opened(disk, seed=3)
        assert [read(storage, 1, i) for i in range(4)] == [
            *(b"%d" % i + bytes(2000) for i in range(3)),
            Code.NO_ENTRY,
        ]
        assert add(storage, frame(2, 0, b"late")) == Code.FENCED
        assert read(storage, 3, 0) == Code.NO_LEDGER
    assert at > 30


def manifest_path(disk: FaultDisk) -> str:
    [number] = manifest_numbers(disk, LEDGER)
    assert read_mark(disk, LEDGER).manifest.number == number
    return f"{LEDGER}/manifest-{number:08x}"


def test_a_manifest_is_rewritten_when_it_has_grown() -> None:
    disk = fresh()
    storage = opened(disk)
    assert add(storage, frame(1, 0, b"a")) == Code.OK
    flush(storage)
    before = storage.manifest.number
    storage.manifest.append([encode_end(7, 1)] * (REWRITE_BYTES // 15))
    storage.flusher.checkpoint()
    assert storage.manifest.number == before + 1
    assert manifest_numbers(disk, LEDGER) == [before + 1]
    assert storage.manifest.place.size < 1000


def test_a_manifest_that_could_not_be_written_is_not_trusted_again() -> None:
    disk = fresh()
    storage = opened(disk)
    fence(storage, 2)

    def plan(op: str, path: str) -> None:
        if "manifest" in path and op in ("pwritev", "fdatasync"):
            raise OSError(28, "No space left on device")

    disk.plan = plan
    with pytest.raises(OSError, match="No space"):
        flush(storage)
    disk.plan = None
    before = storage.manifest.number
    storage.flusher.checkpoint()
    assert storage.manifest.number > before
    disk.crash()
    disk.drop_index(INDEX)
    assert add(opened(disk, seed=2), frame(2, 0, b"late")) == Code.FENCED


RECORDS = [
    encode_ledger(LedgerRecord(5, FENCED, 7, 0, b"k" * 20)),
    encode_end(3, 4096),
    encode_ledger(LedgerRecord(6, DELETED, 1, 99, b"k" * 20, b"l" * 20)),
    encode_end(3, 8192),
    encode_forgotten(5),
]


@given(st.integers(0, 8 * 400), st.integers(0, 400))
def test_a_flipped_bit_ends_a_manifest_and_never_changes_its_records(bit: int, cut: int) -> None:
    whole = encode_header(2) + b"".join(RECORDS)
    prefixes = [decode(encode_header(2) + b"".join(RECORDS[:n]), 2) for n in range(6)]
    assert prefixes[5].ledgers[6].explicit_lac == b"l" * 20
    assert (prefixes[5].ends, 5 in prefixes[5].ledgers) == ({3: 8192}, False)
    assert decode(whole[: max(cut, HEADER_BYTES)], 2) in prefixes
    data = bytearray(whole)
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    if bit // 8 % len(data) < HEADER_BYTES:
        with pytest.raises(DamagedError, match="header"):
            decode(bytes(data), 2)
    else:
        assert decode(bytes(data), 2) in prefixes


@given(st.binary(max_size=200))
def test_noise_is_no_manifest(noise: bytes) -> None:
    assert decode(encode_header(1) + noise, 1).size >= HEADER_BYTES


def test_manifests_are_distinguished_by_number() -> None:
    disk = fresh()
    manifest = Manifest(disk, LEDGER)
    manifest.rewrite(RECORDS)
    first = manifest.place
    manifest.rewrite([])
    assert manifest.place.number == first.number + 1
    manifest.remove_old()
    assert manifest_numbers(disk, LEDGER) == [first.number + 1]
