"""Backups of clusters that run: what they hold, and what they keep together."""

from dataclasses import replace

import pytest

from engine.base.ids import Position
from engine.base.names import NamespaceName
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.stored.records import COMPACTED_LEDGER
from engine.metadata import paths
from engine.schema.locator import parse_entry, parse_locator
from tests.sim.kit.disk import FaultDisk
from tests.support.admin.later_release import register
from tests.support.ledger_cluster import Listener, run_of
from tests.support.managed_cluster import (
    EAGER,
    NAME,
    Brokers,
    Sink,
    drain,
    numbered,
    publish,
    rolling,
)
from tests.support.stores.backups import restore, save

pytestmark = pytest.mark.virtual_time


async def acknowledged(ledger: ManagedLedger, sink: Sink, numbers: list[int]) -> None:
    """Acknowledge messages of the subscription ``s`` by their numbers, and wait until that is stored."""
    cursor = ledger.cursors["s"]
    cursor.acknowledge([Position(*sink.positions[number]) for number in numbers])
    await cursor.persisted()


async def test_messages_positions_and_holes_are_restored(brokers: Brokers, empty: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(7))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await ledger.open_cursor("other", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 30, batch=3)
    await acknowledged(ledger, sink, [*range(10), 12, 17, 29])
    disk = FaultDisk()
    manifest = await save(brokers, disk)
    assert manifest.counts.topics == 1
    assert manifest.counts.cursors == 2
    assert manifest.missing == ()
    assert manifest.parts > 1
    await restore(empty, disk)
    restored = await empty.broker().open(NAME, rolling(7))
    assert await drain(restored.cursors["other"]) == numbered(0, 30)
    left = [number for number in range(30) if number not in {*range(10), 12, 17, 29}]
    assert await drain(restored.cursors["s"]) == [b"m%d" % number for number in left]
    assert (await publish(restored, 30, 1)).positions > sink.positions[-1:]


async def test_an_open_ledger_is_read_up_to_its_last_receipt_and_not_fenced(
    brokers: Brokers, empty: Brokers
) -> None:
    ledger = await brokers.broker().open(NAME, rolling(1000))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 5)
    disk = FaultDisk()
    await save(brokers, disk)
    await publish(ledger, 5, 5)  # the writer continues in the same ledger
    assert len(ledger.stats().ledgers) == 1
    await restore(empty, disk)
    restored = await empty.broker().open(NAME, rolling(1000))
    assert await drain(restored.cursors["s"]) == numbered(0, 5)


@pytest.mark.parametrize("entries", [3, 50])
async def test_a_backup_under_load_has_all_that_was_confirmed_before(
    brokers: Brokers, empty: Brokers, entries: int
) -> None:
    """Messages are published, acknowledged and trimmed at each step of the backup."""
    factory = brokers.broker(EAGER)
    ledger = await factory.open(NAME, rolling(entries))
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 40)
    await acknowledged(ledger, sink, [*range(5), 9])

    class Busy(FaultDisk):
        """A disk whose every operation makes the broker work."""

        number = 40

        def ask(self, operation: str, path: str) -> int | None:
            if self.number < 90:
                ledger.append(run_of(b"m%d" % self.number), sink)
                self.number += 1
                done = len(sink.positions)
                cursor.acknowledge([Position(*place) for place in sink.positions[20 : done // 2]])
                ledger.trim_soon()
            return super().ask(operation, path)

    disk = Busy()
    await save(brokers, disk, part_bytes=300)
    assert disk.number > 60
    await restore(empty, disk)
    restored = await empty.broker().open(NAME, rolling(entries))
    await restored.open_cursor("all", InitialPosition.EARLIEST)
    messages = await drain(restored.cursors["all"], 1000)
    first = int(messages[0][1:])
    assert messages == numbered(first, len(messages))  # in order, without a gap
    assert first + len(messages) >= 40
    unacknowledged = await drain(restored.cursors["s"], 1000)
    assert set(numbered(5, 4)) <= set(unacknowledged)
    assert b"m9" not in unacknowledged
    assert set(numbered(10, 10)) <= set(unacknowledged)


async def test_striped_ledgers_are_restored_to_fewer_bookies(empty: Brokers) -> None:
    source = Brokers()
    await source.start(3)
    striped = replace(rolling(20), ensemble=3, write_quorum=2, ack_quorum=2)
    ledger = await source.broker().open(NAME, striped)
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 30, batch=4)
    await source.cluster.stop("b1")  # one copy of each entry is left
    disk = FaultDisk()
    await save(source, disk)
    await source.close()
    await restore(empty, disk)
    client = empty.cluster.client()
    for ledger_id in empty.ledgers():
        metadata = await client.metadata(ledger_id)
        quorums = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        assert quorums == (2, 2, 2)
    await empty.cluster.stop("r1")  # each entry has a copy on either bookie
    restored = await empty.broker().open(NAME, rolling(20))
    assert await drain(restored.cursors["s"]) == numbered(0, 30)


async def test_the_ledger_of_compacted_entries_is_restored(
    brokers: Brokers, empty: Brokers
) -> None:
    ledger = await brokers.broker().open(NAME, rolling(20))
    sink = await publish(ledger, 0, 5)
    listener = Listener()
    writer = await ledger.new_ledger({}, listener)
    writer.append(run_of(b"compacted"))
    await listener.reach(1)
    await writer.close()
    cursor = await ledger.open_cursor("__compaction", InitialPosition.EARLIEST)
    cursor.acknowledge_cumulative(Position(*sink.positions[2]))
    cursor.set_property(COMPACTED_LEDGER, writer.ledger_id)
    await cursor.persisted()
    disk = FaultDisk()
    await save(brokers, disk)
    await restore(empty, disk)
    assert writer.ledger_id in empty.ledgers()
    restored = await empty.broker().open(NAME, rolling(20))
    assert restored.cursors["__compaction"].properties == {COMPACTED_LEDGER: writer.ledger_id}


async def test_versions_of_schemas_are_restored(brokers: Brokers, empty: Brokers) -> None:
    namespace = NamespaceName("public", "default")
    await register(brokers.cluster, namespace, "one", "two")
    disk = FaultDisk()
    manifest = await save(brokers, disk)
    assert (manifest.counts.schemas, manifest.counts.ledgers) == (1, 2)
    await restore(empty, disk)
    store, client = empty.cluster.store, empty.cluster.client()
    name = (await store.children(f"{paths.SCHEMAS}/{namespace}"))[0]
    _, versions = parse_locator((await store.get(f"{paths.SCHEMAS}/{namespace}/{name}"))[0])
    definitions = []
    for version in versions:
        reader = await client.open(version.ledger_id, recover=False)
        entries = await reader.read(0, 0, 1 << 20)
        definitions.append(parse_entry(entries[0].entry(0)).schema.data)
    assert definitions == [b"one", b"two"]


async def test_a_ledger_that_the_cluster_has_lost_is_named(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(5))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 23)
    lost = sink.positions[7][0]
    brokers.cluster.server.tree.delete(paths.ledger(lost), -1)
    manifest = await save(brokers, FaultDisk())
    assert manifest.missing == (f"/managed-ledgers/{NAME}: ledger {lost} does not exist",)


async def test_a_topic_without_an_owner_is_saved(brokers: Brokers, empty: Brokers) -> None:
    factory = brokers.broker()
    ledger = await factory.open(NAME, rolling(5))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 12)
    brokers.crash(factory)
    disk = FaultDisk()
    await save(brokers, disk)
    await restore(empty, disk)
    restored = await empty.broker().open(NAME, rolling(5))
    assert await drain(restored.cursors["s"]) == numbered(0, 12)


async def test_other_metadata_is_saved_and_what_belongs_to_bookies_and_sessions_is_not(
    brokers: Brokers, empty: Brokers
) -> None:
    store = brokers.cluster.server.session(10.0)
    await store.create("/admin/policies/t/ns", b"{}", make_parents=True)
    await store.create("/loadbalance/brokers/b", b"{}", ephemeral=True, make_parents=True)
    for _ in range(7):
        created = await store.create("/counters/producer-name/-", sequence=True, make_parents=True)
        await store.delete(created)
    disk = FaultDisk()
    await save(brokers, disk)
    await restore(empty, disk)
    restored = empty.cluster.server.session(10.0)
    assert (await restored.get("/admin/policies/t/ns"))[0] == b"{}"
    assert await restored.children("/loadbalance/brokers") == []
    assert await restored.children(paths.COOKIES) == ["r0", "r1"]
    name = await restored.create("/counters/producer-name/-", sequence=True)
    assert int(name[-10:]) >= 7


async def test_numbers_of_ledgers_are_not_given_again(brokers: Brokers, empty: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(2))
    sink = await publish(ledger, 0, 20)
    disk = FaultDisk()
    await save(brokers, disk)
    await restore(empty, disk)
    writer = await empty.cluster.client().create(1, 1, 1)
    assert writer.ledger_id > max(ledger_id for ledger_id, _ in sink.positions)
