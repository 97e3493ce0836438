"""The log and its snapshots: what was synced survives a crash at every disk operation; damage is never skipped."""

import errno
import itertools
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base.disk.files import SystemDisk
from engine.metadata.server.changes import Change, DataSet, NodeDeleted, NodePut, Transaction
from engine.metadata.server.protocol import OPEN_ACL
from engine.metadata.server.storage.change_format import HEADER_BYTES, encode_transactions
from engine.metadata.server.storage.metadata_log import (
    FILL_BYTES_MIN,
    DamagedStoreError,
    LogFullError,
    LogWriter,
    read_segment,
    segment_name,
)
from engine.metadata.server.storage.snapshot_files import (
    SnapshotWriter,
    Stored,
    load,
    snapshot_name,
)
from tests.sim.kit.disk import Crashed, FaultDisk, InlineLane

FOLDER = "/md"
State = dict[str, tuple[bytes | None, int]]


class AtOnce(InlineLane):
    """A lane that has made a call when it returns, and lets a crash pass."""

    def call(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)


class Store:
    """A store of a flat map, with the log and snapshots under test."""

    def __init__(self, disk: FaultDisk) -> None:
        self.disk = disk
        self.state: State = {}
        self._salts = itertools.count(1)
        self.stored = load(disk, FOLDER, self.apply, lambda: b"i" * 16)
        self.zxid = (self.stored.zxid >> 32) + 1 << 32
        self.writer = self.new_writer(self.stored)
        self.segment = self.writer.begin_segment(self.zxid)

    def new_writer(self, stored: Stored) -> LogWriter:
        return LogWriter(
            self.disk,
            FOLDER,
            instance=stored.instance,
            draw_salt=lambda: (stored.number << 32 | next(self._salts)).to_bytes(8, "big"),
            number=stored.number,
            sequence=stored.sequence,
            free_bytes_min=0,
        )

    def apply(self, change: Change) -> None:
        if isinstance(change, NodePut | DataSet):
            self.state[change.path] = (change.data, change.version)
        elif isinstance(change, NodeDeleted):
            self.state.pop(change.path, None)

    def change(self, *changes: Change) -> Transaction:
        """Make changes in memory and return them as a transaction."""
        self.zxid += 1
        for change in changes:
            self.apply(change)
        return Transaction(self.zxid, 0, changes)

    def write(self, *transactions: Transaction) -> bool:
        outcomes: list[tuple[bool | None, BaseException | None]] = []
        body = encode_transactions(transactions)
        self.writer.append_soon(AtOnce(), body, lambda room, error: outcomes.append((room, error)))
        ((room, error),) = outcomes
        if error is not None:
            raise error
        assert room is not None
        return room

    def nodes(self) -> list[Change]:
        return [put(path, *value) for path, value in self.state.items()]


def put(path: str, data: bytes | None, version: int = 0) -> NodePut:
    return NodePut(path, data, OPEN_ACL, 1, 1, 1, 1, version, 0, 0, 0, 1)


def set_data(path: str, version: int, size: int = 1) -> DataSet:
    return DataSet(path, b"x" * size, 1, 1, version)


def state_of(disk: FaultDisk) -> State:
    state: State = {}

    def apply(change: Change) -> None:
        if isinstance(change, NodePut | DataSet):
            state[change.path] = (change.data, change.version)
        elif isinstance(change, NodeDeleted):
            state.pop(change.path, None)

    load(disk, FOLDER, apply, lambda: b"n" * 16)
    return state


def test_a_store_is_loaded_as_it_was_written() -> None:
    disk = FaultDisk()
    store = Store(disk)
    store.write(store.change(put("/a", b"1")), store.change(put("/b", None)))
    store.write(store.change(set_data("/a", 1)), store.change(NodeDeleted("/b")))
    store.writer.close()
    again = Store(disk)
    assert again.state == {"/a": (b"x", 1)}
    assert again.stored.zxid == store.zxid
    assert again.stored.instance == b"i" * 16
    assert again.zxid >> 32 == (store.zxid >> 32) + 1


def test_groups_larger_than_what_is_filled_ahead_and_read_at_once() -> None:
    disk = FaultDisk()
    store = Store(disk)
    for version in range(8):
        store.write(store.change(set_data(f"/{version}", version, 700_000)))
    assert len(state_of(disk)) == 8


class Workload:
    """Groups of changes and snapshots, with every state that a crash may lead to."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.allowed: list[State] = [{}]
        """The durable state, and behind it the one that an interrupted group would make."""

    def run(self, disk: FaultDisk, steps: int) -> None:
        store = Store(disk)
        assert store.state in self.allowed
        self.allowed = [dict(store.state)]
        for _ in range(steps):
            if self.draw.random() < 0.2:
                self._snapshot(store)
            else:
                self._group(store)

    def _group(self, store: Store) -> None:
        transactions = [self._change(store) for _ in range(self.draw.randrange(1, 4))]
        self.allowed.append(dict(store.state))
        store.write(*transactions)
        self.allowed = [dict(store.state)]

    def _change(self, store: Store) -> Transaction:
        path = f"/{self.draw.randrange(6)}"
        if path not in store.state:
            return store.change(put(path, b"new"))
        if self.draw.random() < 0.3:
            return store.change(NodeDeleted(path))
        size = self.draw.choice((1, 600, 40_000))
        return store.change(set_data(path, store.state[path][1] + 1, size))

    def _snapshot(self, store: Store) -> None:
        header = store.writer.begin_segment(store.zxid)
        snapshot = SnapshotWriter(store.disk, FOLDER, header)
        existing = list(store.state)
        for path in existing:
            if self.draw.random() < 0.5:
                self._group(store)  # the snapshot is fuzzy
            if path in store.state:
                snapshot.write([put(path, *store.state[path])])
        snapshot.finish()


@pytest.mark.parametrize("seed", range(4))
def test_synced_groups_survive_a_crash_at_every_disk_operation(seed: int) -> None:
    counted = FaultDisk()
    Workload(seed).run(counted, 25)
    for stop in range(1, counted.operations + 1, 3):
        disk, workload = FaultDisk(), Workload(seed)
        draw = random.Random(seed * 1000 + stop)
        for point in (stop, draw.randrange(1, 40)):  # the second crash may meet the start
            crash_at(disk, point, draw)
            with pytest.raises(Crashed):
                workload.run(disk, 1000)
            disk.crash(partial(chance, draw))
            assert state_of(disk) in workload.allowed


def chance(draw: random.Random) -> bool:
    return draw.random() < 0.5


def crash_at(disk: FaultDisk, point: int, draw: random.Random) -> None:
    """Crash in the given operation from now on, in the middle of it if it is a write."""
    last = disk.operations + point

    def plan(operation: str, path: str) -> int | None:
        if disk.operations < last:
            return None
        if operation == "pwritev" and draw.random() < 0.7:
            return draw.randrange(2000)
        raise Crashed(f"{operation} {path}")

    disk.plan = plan


def test_a_torn_last_group_is_cut_and_never_appended_to(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    store = Store(disk)
    store.write(store.change(put("/a", b"1")))
    end = find(disk, store, 2)
    store.write(store.change(set_data("/a", 1)))
    disk.damage(f"{FOLDER}/{segment_name(1)}", end + 30)
    assert state_of(disk) == {"/a": (b"1", 0)}
    assert f"{segment_name(1)} offset={end}" in caplog.text
    again = Store(disk)
    again.write(again.change(set_data("/a", 7)))
    assert state_of(disk) == {"/a": (b"x", 7)}


def find(disk: FaultDisk, store: Store, sequence: int) -> int:
    """Return the offset at which the group of a sequence is, or will be, in the first segment."""
    data = disk.open(f"{FOLDER}/{segment_name(1)}").pread(1 << 20, 0)
    offset = HEADER_BYTES
    for _ in range(1, sequence):
        offset += 24 + int.from_bytes(data[offset + 16 : offset + 20], "big")
    return offset


def expect_room(room: bool | None, error: BaseException | None) -> None:
    assert room, error


def test_groups_are_written_in_whole_blocks_past_the_page_cache(tmp_path: Path) -> None:
    disk = SystemDisk()
    writer = LogWriter(
        disk,
        str(tmp_path),
        instance=b"i" * 16,
        draw_salt=lambda: b"s" * 8,
        number=1,
        sequence=1,
        free_bytes_min=0,
    )
    writer.begin_segment(0)
    bodies = [bytes([n]) * (n * 700) for n in range(1, 40)]
    for body in bodies:
        writer.append_soon(AtOnce(), body, expect_room)
    writer.close()
    seen: list[bytes] = []
    read_segment(disk, str(tmp_path), 1, seen.append, last=True)
    assert seen == bodies


def three_groups(disk: FaultDisk) -> Store:
    store = Store(disk)
    for version in range(3):
        store.write(store.change(put("/a", b"v", version)))
    return store


def test_damage_before_good_groups_refuses_the_start_and_says_what_to_do() -> None:
    disk = FaultDisk()
    store = three_groups(disk)
    at, later = find(disk, store, 2), find(disk, store, 3)
    disk.damage(f"{FOLDER}/{segment_name(1)}", at + 30)
    with pytest.raises(DamagedStoreError) as caught:
        state_of(disk)
    path = f"{FOLDER}/{segment_name(1)}"
    assert str(caught.value) == (
        f"{path} is damaged at byte {at}, byte {later} has a good group: restore {FOLDER} from a backup; or, to give up"
        f' every change from there on, cut it with "truncate -s {at} {path}" and remove the later log files'
    )
    disk.open(path).truncate(at)
    assert state_of(disk) == {"/a": (b"v", 0)}


def test_damage_at_the_end_of_a_segment_that_is_not_the_last_refuses_the_start() -> None:
    disk = FaultDisk()
    store = three_groups(disk)
    at = find(disk, store, 3)
    store.writer.close()
    Store(disk)
    disk.damage(f"{FOLDER}/{segment_name(1)}", at + 30)
    with pytest.raises(DamagedStoreError, match=f"damaged at byte {at}"):
        state_of(disk)
    disk.open(f"{FOLDER}/{segment_name(1)}").truncate(at)
    with pytest.raises(DamagedStoreError, match="lacks the groups 3 to 3"):
        state_of(disk)


@pytest.mark.parametrize("offset", [0, 9, 30, 62])
def test_a_damaged_header_refuses_the_start(offset: int) -> None:
    disk = FaultDisk()
    three_groups(disk)
    disk.damage(f"{FOLDER}/{segment_name(1)}", offset)
    with pytest.raises(DamagedStoreError, match="log-0000000001 is damaged at byte 0"):
        state_of(disk)


def snapshots(disk: FaultDisk, count: int) -> Store:
    store = three_groups(disk)
    for _ in range(count):
        writer = SnapshotWriter(disk, FOLDER, store.writer.begin_segment(store.zxid))
        writer.write(store.nodes())
        writer.finish()
        store.write(store.change(put("/a", b"v", store.state["/a"][1] + 1)))
    return store


def test_the_last_two_snapshots_are_kept_with_the_segments_they_need() -> None:
    disk = FaultDisk()
    store = snapshots(disk, 4)
    assert disk.listdir(FOLDER) == [
        *(segment_name(4), segment_name(5)),
        *(snapshot_name(4), snapshot_name(5)),
    ]
    assert state_of(disk) == store.state


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_damaged_snapshot_refuses_the_start_and_nothing_is_lost_without_it(count: int) -> None:
    disk = FaultDisk()
    store = snapshots(disk, count)
    path = f"{FOLDER}/{snapshot_name(count + 1)}"
    disk.damage(path, 100)
    with pytest.raises(DamagedStoreError, match="remove it, and nothing is lost"):
        state_of(disk)
    disk.remove(path)
    assert state_of(disk) == store.state


def test_a_snapshot_without_its_end_refuses_the_start() -> None:
    disk = FaultDisk()
    snapshots(disk, 1)
    path = f"{FOLDER}/{snapshot_name(2)}"
    file = disk.open(path)
    file.truncate(file.size() - 24)
    with pytest.raises(DamagedStoreError, match=f"{snapshot_name(2)} is damaged"):
        state_of(disk)


def test_a_missing_segment_refuses_the_start() -> None:
    disk = FaultDisk()
    snapshots(disk, 2)
    disk.remove(f"{FOLDER}/{segment_name(3)}")
    with pytest.raises(DamagedStoreError, match=f"{segment_name(3)} is missing"):
        state_of(disk)


def test_a_segment_of_another_store_refuses_the_start() -> None:
    disk = FaultDisk()
    three_groups(disk).writer.close()
    writer = LogWriter(
        disk,
        FOLDER,
        instance=b"o" * 16,
        draw_salt=lambda: b"o" * 8,
        number=2,
        sequence=4,
        free_bytes_min=0,
    )
    writer.begin_segment(9)
    with pytest.raises(DamagedStoreError, match="belongs to another store"):
        state_of(disk)


def test_the_folder_of_another_zookeeper_is_refused() -> None:
    disk = FaultDisk()
    disk.makedirs(f"{FOLDER}/version-2")
    with pytest.raises(DamagedStoreError, match="data of another ZooKeeper"):
        state_of(disk)


def failing(operation: str, number: int) -> Callable[[str, str], None]:
    def plan(asked: str, path: str) -> None:
        if asked == operation:
            raise OSError(number, "failure", path)

    return plan


@pytest.mark.parametrize("operation", ["fdatasync", "pwritev"])
def test_after_a_failed_sync_or_write_nothing_is_written_any_more(operation: str) -> None:
    disk = FaultDisk()
    store = Store(disk)
    disk.plan = failing(operation, errno.EIO)
    with pytest.raises(OSError, match="failure"):
        store.write(store.change(put("/a", b"1")))
    disk.plan = None
    operations = disk.operations
    with pytest.raises(OSError, match="failed earlier"):
        store.write(store.change(put("/b", b"1")))
    with pytest.raises(OSError, match="failed earlier"):
        store.writer.begin_segment(store.zxid)
    assert disk.operations == operations


def test_a_full_disk_is_noticed_while_there_is_room_for_what_is_due() -> None:
    disk = FaultDisk()
    store = Store(disk)
    disk.capacity_bytes = FILL_BYTES_MIN  # nothing but what is filled already
    versions = 0
    while store.write(store.change(set_data("/a", versions, 1000))):
        versions += 1
    for _ in range(20):  # sessions still end, from the reserve
        assert not store.write(store.change(set_data("/a", versions, 1000)))
    assert not store.writer.has_room()
    with pytest.raises(LogFullError):
        store.writer.begin_segment(store.zxid)
    assert state_of(disk) == store.state
    disk.capacity_bytes = 1 << 20
    assert store.writer.has_room()
    assert store.write(store.change(set_data("/a", 99)))
    assert state_of(disk) == store.state


def test_a_group_that_found_the_disk_full_is_written_again_later() -> None:
    disk = FaultDisk()
    store = Store(disk)
    disk.capacity_bytes = FILL_BYTES_MIN
    group = store.change(set_data("/a", 1, 100_000))
    with pytest.raises(LogFullError):
        store.write(group)
    assert state_of(disk) == {}
    disk.capacity_bytes = 1 << 20
    assert store.write(group)
    assert state_of(disk) == store.state
