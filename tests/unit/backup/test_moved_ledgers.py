"""A backup names the objects of ledgers that are only in tiered storage, and a restore checks that they are there."""

from dataclasses import replace

import pytest

from engine.backup.errors import RestoreError
from engine.backup.moved_ledgers import check_moved
from engine.managed.cursors.cursor_set import InitialPosition
from engine.managed.stored.offloads import offload_of
from engine.offload.bucket import S3, Bucket
from engine.offload.object_names import attributes_of
from engine.offload.object_store import StoredObject
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.tiered_storage import TieredStorage
from tests.sim.kit.disk import FaultDisk
from tests.support.managed_cluster import NAME, Brokers, drain, numbered, publish, rolling
from tests.support.stores.backups import checked, restore, save
from tests.support.stores.memory_objects import MemoryObjects, MemoryObjectStores
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

BUCKET = Bucket(S3, "cold", "eu", "http://s3")
POLICY = OffloadPolicy(BUCKET, threshold_bytes=0, deletion_lag_s=0.0)
CONFIG = replace(rolling(10), offload=POLICY)


class Moved:
    """A saved topic of which three ledgers are only in a bucket, and one only on bookies."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.stores = MemoryObjectStores()
        self.disk = FaultDisk()

    @property
    def bucket(self) -> MemoryObjects:
        return self.stores.open(BUCKET)

    def tiered(self) -> TieredStorage:
        return TieredStorage(self.stores, attributes_of("c", "0"))

    async def save(self) -> dict[str, int]:
        ledger = await self.brokers.broker(tiered=self.tiered()).open(NAME, CONFIG)
        await ledger.open_cursor("s", InitialPosition.EARLIEST)
        await publish(ledger, 0, 35)
        await until(
            lambda: all(offload_of(span).deleted_from_bookies for span in ledger.line.ledgers[:3])
        )
        return dict((await save(self.brokers, self.disk)).moved)


@pytest.fixture
async def moved(brokers: Brokers) -> Moved:
    return Moved(brokers)


async def test_the_manifest_counts_moved_ledgers_and_they_are_read_after_a_restore(
    moved: Moved, empty: Brokers
) -> None:
    assert await moved.save() == {"aws-s3 cold": 3}
    assert await check_moved(await checked(moved.disk), moved.stores) == 3
    await restore(empty, moved.disk)
    ledger = await empty.broker(tiered=moved.tiered()).open(NAME, CONFIG)
    assert await drain(ledger.cursors["s"]) == numbered(0, 35)


@pytest.mark.parametrize("damage", ["no index", "no data", "short data", "other index", "away"])
async def test_a_copy_that_cannot_be_read_is_named_before_anything_is_written(
    moved: Moved, damage: str
) -> None:
    await moved.save()
    bucket = moved.bucket
    indexes = sorted(key for key in bucket.objects if key.endswith("-index"))
    data = indexes[0].removesuffix("-index")
    if damage == "no index":
        del bucket.objects[indexes[0]]
    elif damage == "no data":
        del bucket.objects[data]
    elif damage == "short data":
        stored = bucket.objects[data]
        bucket.objects[data] = StoredObject(stored.data[:-1], stored.attributes)
    elif damage == "other index":
        stored = bucket.objects[indexes[0]]
        bucket.objects[indexes[0]] = StoredObject(b"x" * 50, stored.attributes)
    else:
        bucket.fail = lambda _method, key: key in (data, indexes[0])
    with pytest.raises(RestoreError, match=r"1 of 3 ledgers .* ledger \d+ \(aws-s3 cold\): "):
        await check_moved(await checked(moved.disk), moved.stores)
