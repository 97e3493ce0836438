"""Ledgers are moved to tiered storage and read from there; nothing is lost or left over whatever ends at any step."""

import asyncio
from dataclasses import replace

import pytest

from engine.base.ids import EARLIEST, LATEST, Position
from engine.managed.cursors.cursor_set import InitialPosition
from engine.managed.errors import ManagedLedgerError, OffloadRunningError, UnreadableLedgerError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import ManagedLedger
from engine.managed.settings import LedgerConfig
from engine.managed.stats import OffloadPhase
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import LogRecord
from engine.managed.writing.rolling import UNDELETED_MAX
from engine.metadata import paths
from engine.offload.bucket import S3, Bucket
from engine.offload.errors import DamagedObjectError, OffloadError, StoreTrouble
from engine.offload.index_object import decode_index, encode_index
from engine.offload.object_names import attributes_of, object_name_of
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.tiered_storage import TieredStorage
from engine.wire import mledger_pb2 as pb
from tests.support.ledger_cluster import PATIENT
from tests.support.managed_cluster import NAME, Brokers, drain, numbered, publish, rolling
from tests.support.stores.memory_objects import MemoryObjects, MemoryObjectStores
from tests.support.waiting import stays, until

pytestmark = pytest.mark.virtual_time

BUCKET = Bucket(S3, "cold", "eu", "http://s3")
MANUAL = OffloadPolicy(BUCKET)
ALL = OffloadPolicy(BUCKET, threshold_bytes=0)
AT_ONCE = replace(ALL, deletion_lag_s=0.0)
ENTRIES = 35


class Tiers:
    """A topic of ENTRIES entries in ledgers of ten, a bucket, and brokers that may move the one to the other."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.stores = MemoryObjectStores()
        self.factory = self.broker()

    def broker(self) -> ManagedLedgerFactory:
        tiered = TieredStorage(self.stores, attributes_of("c", "0"))
        return self.brokers.broker(tiered=tiered)

    @property
    def bucket(self) -> MemoryObjects:
        return self.stores.open(BUCKET)

    async def fill(self, policy: OffloadPolicy | None) -> ManagedLedger:
        """Open the topic with a subscription that has read nothing, and publish."""
        ledger = await self.open(policy)
        await ledger.open_cursor("s", InitialPosition.EARLIEST)
        await publish(ledger, 0, ENTRIES)
        return ledger

    async def open(self, policy: OffloadPolicy | None) -> ManagedLedger:
        return await self.factory.open(NAME, replace(rolling(10), offload=policy))

    async def take_over(self, policy: OffloadPolicy | None) -> ManagedLedger:
        """Open the topic on another broker, as after the death of the first."""
        Brokers.crash(self.factory)
        self.factory = self.broker()
        return await self.open(policy)

    def stored(self) -> LogRecord:
        tree = self.brokers.cluster.server.tree
        return LogRecord.decode(tree.get(paths.managed_ledger(NAME))[0])

    async def settled(self, ledger: ManagedLedger) -> None:
        """Wait until nothing is being moved."""
        await until(lambda: ledger.offload_status.phase is not OffloadPhase.RUNNING)

    def orphans(self) -> set[str]:
        """Return the objects that the stored list does not name."""
        named = {(offload_of(span).attempt, span.ledger_id) for span in self.stored().ledgers} | {
            (doomed.attempt, doomed.ledger_id) for doomed in self.stored().doomed_objects
        }
        return {key for key in self.bucket.objects if object_name_of(key) not in named}


@pytest.fixture
async def tiers(brokers: Brokers) -> Tiers:
    return Tiers(brokers)


def ledger_of(key: str) -> int:
    name = object_name_of(key)
    assert name is not None
    return name.ledger_id


def places(ledger: ManagedLedger) -> list[tuple[bool, bool]]:
    """Return for each ledger whether it is in the bucket and whether the bookies lack it."""
    offloads = map(offload_of, ledger.line.ledgers)
    return [(offload.complete, offload.deleted_from_bookies) for offload in offloads]


async def test_closed_ledgers_are_moved_deleted_from_bookies_and_read_back(tiers: Tiers) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    assert places(ledger) == [(True, True)] * 3 + [(False, False)]
    moved = {span.ledger_id for span in ledger.line.ledgers[:3]}
    await until(lambda: not moved & set(tiers.brokers.ledgers()))
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)
    assert ledger.offload_status.phase is OffloadPhase.SUCCESS
    assert len(tiers.bucket.objects) == 6


async def test_a_ledger_stays_on_bookies_until_the_deletion_lag_has_passed(tiers: Tiers) -> None:
    ledger = await tiers.fill(replace(ALL, deletion_lag_s=100.0))
    await until(lambda: places(ledger)[:3] == [(True, False)] * 3)
    await asyncio.sleep(99)
    ledger.trim_soon()
    await tiers.settled(ledger)
    assert places(ledger)[:3] == [(True, False)] * 3
    await asyncio.sleep(2)
    ledger.trim_soon()
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)


async def test_nothing_is_moved_without_a_threshold_until_it_is_asked_for(tiers: Tiers) -> None:
    ledger = await tiers.fill(MANUAL)
    await asyncio.sleep(100)
    assert tiers.bucket.objects == {}
    third = ledger.line.ledgers[2].ledger_id
    ledger.offload(Position(third, 3))
    with pytest.raises(OffloadRunningError):
        ledger.offload(Position(third, 3))
    await tiers.settled(ledger)
    assert places(ledger) == [(True, False)] * 2 + [(False, False)] * 2
    assert ledger.offload_status.first_unmoved == Position(third, 3)


async def test_without_a_policy_nothing_can_be_moved_and_copies_are_read(tiers: Tiers) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    ledger = await tiers.take_over(None)
    with pytest.raises(OffloadError, match="no tiered storage is configured for the topic"):
        ledger.offload(Position(1 << 40, 0))
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)


@pytest.mark.parametrize("failing", ["put", "get", "get_ranges"])
async def test_a_store_that_fails_is_reported_and_tried_again_later(
    tiers: Tiers, failing: str
) -> None:
    tiers.bucket.fail = lambda method, _key: method == failing
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: ledger.offload_status.phase is OffloadPhase.ERROR)
    assert failing in ledger.offload_status.error
    assert places(ledger) == [(False, False)] * 4
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)
    tries = len(tiers.bucket.requests)
    ledger.trim_soon()
    await stays(lambda: len(tiers.bucket.requests) == tries, 0.01)
    tiers.bucket.fail = lambda _method, _key: False
    await asyncio.sleep(10)
    ledger.trim_soon()
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    assert tiers.orphans() == set()
    assert len(tiers.bucket.objects) == 6


async def test_a_store_that_fails_is_not_asked_for_every_ledger_and_its_trouble_is_shown(
    tiers: Tiers,
) -> None:
    tiers.bucket.fail = lambda method, _key: method == "put"
    ledger = await tiers.fill(MANUAL)
    ledger.offload(Position(ledger.line.ledgers[3].ledger_id, 0))
    assert ledger.offload_progress.ledgers == 3
    await tiers.settled(ledger)
    status = ledger.offload_status
    assert (status.phase, status.trouble) == (OffloadPhase.ERROR, StoreTrouble.FAILED)
    assert status.first_unmoved == Position(ledger.line.ledgers[0].ledger_id, 0)
    assert status.retry_ms > tiers.brokers.cluster.clock.wall_ms()
    assert [method for method, _key in tiers.bucket.requests].count("put") == 1
    tiers.bucket.fail = lambda _method, _key: False
    ledger.offload(Position(ledger.line.ledgers[3].ledger_id, 0))
    await tiers.settled(ledger)
    progress = ledger.offload_progress
    assert (progress.done_ledgers, progress.done_bytes) == (3, progress.bytes)
    assert progress.ledger_id == -1


async def test_with_bookies_first_a_ledger_that_they_lost_is_read_from_the_bucket(
    tiers: Tiers,
) -> None:
    policy = replace(ALL, bookies_first=True)
    ledger = await tiers.fill(policy)
    await until(lambda: places(ledger)[:3] == [(True, False)] * 3)
    ledger = await tiers.take_over(policy)
    client = tiers.brokers.cluster.client(PATIENT)
    for span in ledger.line.ledgers[:3]:
        await client.delete(span.ledger_id)
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)


async def test_cold_reads_are_read_ahead_and_their_failure_is_shown(tiers: Tiers) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    ledger = await tiers.take_over(AT_ONCE)
    tiers.bucket.fail = lambda method, _key: method == "get_ranges"
    with pytest.raises(OffloadError):
        await ledger.cursors["s"].read(10, 1 << 20)
    assert ledger.offload_read_error.startswith("failed: get_ranges")
    tiers.bucket.fail = lambda _method, _key: False
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)
    assert ledger.offload_read_error == ""


async def test_bytes_that_the_store_changed_are_never_taken_for_a_copy(tiers: Tiers) -> None:
    def damaging(method: str, key: str) -> bool:
        if method == "put" and key.endswith("-index"):
            tiers.bucket.damage(key.removesuffix("-index"), 200, b"?")
        return False

    tiers.bucket.fail = damaging
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: ledger.offload_status.phase is OffloadPhase.ERROR)
    assert "another checksum" in ledger.offload_status.error
    assert places(ledger) == [(False, False)] * 4
    assert tiers.bucket.objects == {}


async def test_an_object_that_is_gone_is_read_from_the_bookies_that_still_have_the_ledger(
    tiers: Tiers,
) -> None:
    ledger = await tiers.fill(ALL)
    await until(lambda: places(ledger)[:3] == [(True, False)] * 3)
    ledger = await tiers.take_over(ALL)
    first = ledger.cursors["s"]
    assert (await first.read(1, 1 << 20))[0].run.entry(0) == b"m0"
    tiers.bucket.objects.clear()
    assert await drain(first) == numbered(1, ENTRIES - 1)


async def test_bookies_first_reads_no_object_that_bookies_have(tiers: Tiers) -> None:
    ledger = await tiers.fill(replace(ALL, bookies_first=True))
    await until(lambda: places(ledger)[:3] == [(True, False)] * 3)
    ledger = await tiers.take_over(replace(ALL, bookies_first=True))
    moved = {span.ledger_id for span in ledger.line.ledgers[:3]}
    tiers.bucket.requests.clear()
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)
    assert moved.isdisjoint(ledger_of(key) for _method, key in tiers.bucket.requests)


async def test_the_only_copy_that_is_damaged_is_an_error_and_never_other_entries(
    tiers: Tiers,
) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    ledger = await tiers.take_over(AT_ONCE)
    for key in tiers.bucket.objects:
        if not key.endswith("-index"):
            tiers.bucket.damage(key, 150, b"?")
    with pytest.raises(DamagedObjectError, match="another checksum"):
        await ledger.cursors["s"].read(10, 1 << 20)


async def test_objects_are_deleted_with_the_ledgers_that_are_trimmed(tiers: Tiers) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    cursor = ledger.cursors["s"]
    cursor.acknowledge_cumulative(Position(ledger.line.ledgers[1].ledger_id, 9))
    await until(lambda: len(ledger.line.ledgers) == 2)
    await until(lambda: len(tiers.bucket.objects) == 2)
    assert await drain(cursor) == numbered(20, ENTRIES - 20)


async def test_objects_that_cannot_be_deleted_are_deleted_by_the_next_owner(tiers: Tiers) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    tiers.bucket.fail = lambda method, _key: method == "delete"
    ledger.cursors["s"].acknowledge_cumulative(Position(ledger.line.ledgers[2].ledger_id, 9))
    await until(lambda: len(tiers.stored().doomed_objects) == 3)
    tiers.bucket.fail = lambda _method, _key: False
    dropped = {doomed.ledger_id for doomed in tiers.stored().doomed_objects}
    await tiers.take_over(AT_ONCE)
    await until(lambda: dropped.isdisjoint(map(ledger_of, tiers.bucket.objects)))


async def test_a_topics_objects_are_deleted_with_it_or_it_stays_marked(tiers: Tiers) -> None:
    ledger = await tiers.fill(AT_ONCE)
    await until(lambda: places(ledger)[:3] == [(True, True)] * 3)
    tiers.bucket.fail = lambda method, _key: method == "delete"
    with pytest.raises(OffloadError):
        await tiers.factory.delete(NAME)
    tiers.bucket.fail = lambda _method, _key: False
    await tiers.factory.delete(NAME)
    assert tiers.bucket.objects == {}
    assert not tiers.brokers.cluster.server.tree.exists(paths.managed_ledger(NAME))


async def copied(tiers: Tiers) -> ManagedLedger:
    """Return the topic with three ledgers that are on both sides, and another broker as its owner."""
    ledger = await tiers.fill(replace(ALL, deletion_lag_s=100.0))
    await until(lambda: places(ledger)[:3] == [(True, False)] * 3)
    await tiers.settled(ledger)
    return await tiers.take_over(replace(ALL, deletion_lag_s=100.0))


async def all_are_released(tiers: Tiers, ledger: ManagedLedger) -> None:
    async def once() -> bool:
        await asyncio.sleep(30)
        ledger.trim_soon()
        await tiers.settled(ledger)
        return places(ledger)[:3] == [(True, True)] * 3

    for _ in range(40):
        if await once():
            break
    assert places(ledger)[:3] == [(True, True)] * 3
    assert await drain(ledger.cursors["s"]) == numbered(0, ENTRIES)
    assert tiers.orphans() == set()
    assert len(tiers.bucket.objects) == 2 * sum(moved for moved, _ in places(ledger))


@pytest.mark.parametrize("ending", ["", "-index"])
@pytest.mark.parametrize("how", ["gone", "damaged"])
async def test_a_copy_that_was_lost_after_it_was_complete_is_made_again_and_not_the_only_one(
    tiers: Tiers, ending: str, how: str
) -> None:
    ledger = await copied(tiers)
    attempts = {offload_of(span).attempt for span in ledger.line.ledgers[:3]}
    for key in [*tiers.bucket.objects]:
        if key.endswith("-index") == bool(ending):
            if how == "gone":
                del tiers.bucket.objects[key]
            else:
                tiers.bucket.damage(key, 0, b"?")
    await asyncio.sleep(101)
    ledger.trim_soon()
    await until(lambda: ledger.offload_status.phase is OffloadPhase.ERROR)
    trouble = StoreTrouble.MISSING if how == "gone" else StoreTrouble.DAMAGED
    assert ledger.offload_status.trouble is trouble
    assert places(ledger)[:3] == [(True, False)] * 3
    assert attempts.isdisjoint(offload_of(span).attempt for span in ledger.line.ledgers[:3])
    await all_are_released(tiers, ledger)


async def test_a_ledger_stays_on_bookies_while_the_store_cannot_say_that_it_has_the_copy(
    tiers: Tiers,
) -> None:
    ledger = await copied(tiers)
    tiers.bucket.fail = lambda method, _key: method == "get"
    await asyncio.sleep(101)
    ledger.trim_soon()
    await until(lambda: ledger.offload_status.phase is OffloadPhase.ERROR)
    assert places(ledger)[:3] == [(True, False)] * 3
    assert [method for method, _key in tiers.bucket.requests][-1] == "get"
    tiers.bucket.fail = lambda _method, _key: False
    await all_are_released(tiers, ledger)


async def test_attempts_that_fail_and_cannot_be_deleted_do_not_fill_the_record(
    tiers: Tiers,
) -> None:
    tiers.bucket.fail = lambda method, _key: method in ("get_ranges", "delete")
    ledger = await tiers.fill(ALL)
    for _ in range(60):
        await asyncio.sleep(4000)
        ledger.trim_soon()
        await tiers.settled(ledger)
    assert len(tiers.stored().doomed_objects) == UNDELETED_MAX
    assert len(tiers.bucket.objects) <= 2 * UNDELETED_MAX + 2
    assert "16 copies that are not needed any more cannot be deleted" in ledger.offload_status.error
    tiers.bucket.fail = lambda _method, _key: False
    await asyncio.sleep(4000)
    ledger.trim_soon()
    await until(lambda: places(ledger)[:3] == [(True, False)] * 3)
    await tiers.settled(ledger)
    assert tiers.orphans() == set()
    assert len(tiers.bucket.objects) == 2 * sum(moved for moved, _ in places(ledger))


async def test_a_bucket_that_is_away_holds_up_no_deletions_in_another(tiers: Tiers) -> None:
    ledger = await copied(tiers)
    other = Bucket(S3, "colder", "eu", "http://s3")
    tiers.bucket.fail = lambda _method, _key: True
    ledger = await tiers.take_over(replace(ALL, bucket=other))
    ledger.trim_soon()
    await until(lambda: places(ledger)[3] == (True, False))
    last = ledger.line.ledgers[3].ledger_id
    assert len(tiers.stores.open(other).objects) == 2
    ledger.cursors["s"].acknowledge_cumulative(Position(last, 4))
    await publish(ledger, ENTRIES, 1)
    await until(lambda: tiers.stores.open(other).objects == {})
    assert len(tiers.bucket.objects) >= 6
    tiers.bucket.fail = lambda _method, _key: False
    await tiers.take_over(replace(ALL, bucket=other))
    await until(lambda: tiers.bucket.objects == {})


def without_checksums(tiers: Tiers) -> None:
    """Make the indexes those of another implementation."""
    for key, stored in tiers.bucket.objects.items():
        if key.endswith("-index"):
            index = replace(decode_index(stored.data), checksums=())
            tiers.bucket.objects[key] = stored._replace(data=encode_index(index))


async def test_a_copy_without_checksums_is_compared_with_the_bookies_before_it_is_the_only_one(
    tiers: Tiers,
) -> None:
    ledger = await copied(tiers)
    without_checksums(tiers)
    damaged = ledger.line.ledgers[1]
    attempts = [offload_of(span).attempt for span in ledger.line.ledgers[:3]]
    key = f"{attempts[1]}-ledger-{damaged.ledger_id}"
    last = len(tiers.bucket.objects[key].data) - 1
    tiers.bucket.damage(key, last, b"?")
    await asyncio.sleep(101)
    ledger.trim_soon()
    await until(lambda: ledger.offload_status.phase is OffloadPhase.ERROR)
    assert "entry 9 of the copy is not that on the bookies" in ledger.offload_status.error
    assert places(ledger)[:3] == [(True, True), (True, False), (True, True)]
    present = [offload_of(span).attempt for span in ledger.line.ledgers[:3]]
    assert [now == before for now, before in zip(present, attempts, strict=True)] == [
        True,
        False,
        True,
    ]
    await all_are_released(tiers, ledger)


async def streamed(tiers: Tiers, *, deleted: bool) -> ManagedLedger:
    """Return the topic with a record as of Apache's streaming offload: its ledgers lie in objects of several."""
    await tiers.fill(None)
    Brokers.crash(tiers.factory)
    record = tiers.stored()
    for span in record.ledgers[:3]:
        info = pb.ManagedLedgerInfo.LedgerInfo()
        info.offloadContext.complete = True
        info.offloadContext.bookkeeperDeleted = deleted
        info.offloadContext.timestamp = 1
        info.offloadContext.offloadSegment.add(uidMsb=1, uidLsb=2, complete=True, endEntryId=9)
        span.extra = info.SerializePartialToString()
    tiers.brokers.cluster.server.tree.put(paths.managed_ledger(NAME), record.encode(), -1, 0)
    tiers.factory = tiers.broker()
    return await tiers.open(AT_ONCE)


async def test_a_ledger_in_a_streamed_object_is_copied_again_while_bookies_have_it(
    tiers: Tiers,
) -> None:
    ledger = await streamed(tiers, deleted=False)
    ledger.trim_soon()
    await all_are_released(tiers, ledger)


async def test_a_ledger_that_is_only_in_a_streamed_object_is_an_error_and_no_hole(
    tiers: Tiers,
) -> None:
    ledger = await streamed(tiers, deleted=True)
    ledger.trim_soon()
    await tiers.settled(ledger)
    named = f"ledger {ledger.line.ledgers[0].ledger_id}: only in objects of several ledgers"
    with pytest.raises(UnreadableLedgerError, match=named) as unreadable:
        await ledger.cursors["s"].read(10, 1 << 20)
    assert unreadable.value.trouble is StoreTrouble.UNREADABLE
    ledger.offload(LATEST)
    await tiers.settled(ledger)
    assert ledger.offload_status.phase is OffloadPhase.SUCCESS
    kept = tiers.stored().ledgers
    assert [offload_of(span).is_unreadable for span in kept] == [True] * 3 + [False] * (
        len(kept) - 3
    )
    assert ledger.offloaded_bytes == sum(span.size for span in ledger.line.ledgers[3:-1])


@pytest.mark.parametrize("step", range(40))
async def test_a_broker_that_dies_at_any_request_loses_nothing_and_leaves_no_object_behind(
    tiers: Tiers, step: int
) -> None:
    def killing(_method: str, _key: str) -> bool:
        dies = len(tiers.bucket.requests) == step + 1
        if dies:
            Brokers.crash(tiers.factory)
        return dies

    tiers.bucket.fail = killing
    try:
        await tiers.fill(AT_ONCE)
        await asyncio.sleep(5)
    except (AssertionError, ManagedLedgerError):
        pass
    tiers.bucket.fail = lambda _method, _key: False
    ledger = await tiers.take_over(AT_ONCE)
    published = ledger.line.durable_to
    assert await drain(ledger.cursors["s"]) == numbered(0, published)
    closed = [span for span in ledger.line.ledgers if span.timestamp_ms]
    await until(lambda: places(ledger)[: len(closed)] == [(True, True)] * len(closed))
    await until(lambda: len(tiers.bucket.objects) == 2 * len(closed))
    assert tiers.orphans() == set()
    ledger = await tiers.take_over(AT_ONCE)
    assert [run.entry(i) async for run, i in ledger.oldest_first(EARLIEST)] == numbered(
        0, published
    )


def test_a_configuration_has_no_tiered_storage_by_itself() -> None:
    assert LedgerConfig().offload is None
