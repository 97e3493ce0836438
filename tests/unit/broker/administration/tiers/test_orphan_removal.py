"""A leading broker removes orphans at the interval of its settings, and no broker does without one."""

import uuid
from dataclasses import replace

import pytest

from engine.base.clock import LoopClock
from engine.broker.administration.tiers.orphan_removal import OrphanRemoval
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.offload.bucket import S3, Bucket
from engine.offload.object_names import ObjectName, attributes_of
from engine.offload.object_store import StoredObject
from engine.offload.settings import OffloadSettings
from engine.offload.tiered_storage import TieredStorage
from tests.support.stores.memory_objects import MemoryObjectStores

pytestmark = pytest.mark.virtual_time

NAME = ObjectName(uuid.UUID(int=1), 9)
BUCKET = Bucket(S3, "cold")
SETTINGS = OffloadSettings(
    managed_ledger_offload_driver=S3,
    managed_ledger_offload_bucket="cold",
    managed_ledger_offload_orphan_scan_interval_s=100,
)


class EndOfTestError(Exception):
    """End of an endless loop."""


class Removals:
    """A removal whose bucket has one orphan; ``pauses`` are those of its loop."""

    def __init__(self, settings: OffloadSettings, *, leads: bool) -> None:
        self.stores = MemoryObjectStores()
        self.bucket = self.stores.open(BUCKET)
        self.bucket.objects[NAME.data_key] = StoredObject(b"12345", attributes_of("c", "0"))
        self.pauses: list[float] = []
        self.store = MemoryServer(LoopClock()).session(10.0)

        async def is_leader() -> bool:
            return leads

        self.removal = OrphanRemoval(
            self.store, TieredStorage(self.stores, {}), settings, "c", LoopClock(), is_leader
        )

    async def run(self, rounds: int) -> None:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            if len(self.pauses) > rounds:
                raise EndOfTestError

        with pytest.raises(EndOfTestError):
            await self.removal.run(sleep)


async def test_a_leader_removes_orphans_at_the_interval() -> None:
    removals = Removals(SETTINGS, leads=True)
    await removals.run(1)
    assert removals.pauses[0] == 100
    assert removals.bucket.objects == {}
    assert removals.removal.removed == 1


@pytest.mark.parametrize(("interval_s", "leads"), [(0, True), (100, False)])
async def test_nothing_is_removed_without_an_interval_or_by_another_broker(
    interval_s: int, leads: bool
) -> None:
    settings = replace(SETTINGS, managed_ledger_offload_orphan_scan_interval_s=interval_s)
    removals = Removals(settings, leads=leads)
    await removals.run(2)
    assert set(removals.bucket.objects) == {NAME.data_key}


async def test_a_failure_of_one_bucket_is_in_its_row_and_an_unreadable_record_ends_the_scan() -> (
    None
):
    removals = Removals(SETTINGS, leads=True)
    removals.bucket.fail = lambda method, _key: method == "listed"
    [row] = await removals.removal.scan(3600, remove=True)
    assert row["error"] == "failed: listed of  failed"
    removals.bucket.fail = lambda _method, _key: False
    path = paths.managed_ledger("t/n/persistent/a")
    await removals.store.create(path, b"\xff", make_parents=True)
    await removals.run(2)
    assert set(removals.bucket.objects) == {NAME.data_key}
