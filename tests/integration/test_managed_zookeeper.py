"""A topic whose metadata is in a real ZooKeeper: when another broker takes it over, no confirmed entry is lost or
repeated."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bookie.server import Bookie
from bookie.settings import BookieSettings
from engine.base.clock import SystemClock
from engine.base.disk.files import ThreadLane
from engine.base.disk.index_disk import SystemIndexDisk
from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition
from engine.metadata import paths
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from tests.support.ledger_cluster import PATIENT, run_of
from tests.support.managed_cluster import EAGER, NAME, Sink, drain, numbered, publish, rolling


class World:
    """Sessions below a chroot of one test, and brokers that use them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stores: list[MetadataStore] = []
        self._clients: list[LedgerClient] = []
        self._factories: list[ManagedLedgerFactory] = []

    async def store(self) -> MetadataStore:
        store = await connect(self._url, session_timeout_s=4.0)
        self._stores.append(store)
        return store

    async def broker(self) -> ManagedLedgerFactory:
        store = await self.store()
        client = LedgerClient(
            store=store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=PATIENT,
        )
        self._clients.append(client)
        factory = ManagedLedgerFactory(
            store=store,
            ledgers=client,
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=EAGER,
        )
        self._factories.append(factory)
        return factory

    async def close(self) -> None:
        for factory in self._factories:
            await factory.close()
        for client in self._clients:
            await client.close()
        for store in self._stores:
            await store.close()


@pytest.fixture
async def world(zookeeper_hosts: str, tmp_path: Path) -> AsyncIterator[World]:
    new_world = World(f"zk:{zookeeper_hosts}/managed-{tmp_path.name}")
    bookie = Bookie(
        BookieSettings(data_dir=str(tmp_path / "b"), bookie_port=0, bookie_id="b0"),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        network=LoopNetwork(),
        store=await new_world.store(),
        disk=SystemIndexDisk(),
        lanes=ThreadLane,
    )
    await bookie.start()
    yield new_world
    for factory in new_world._factories:
        for ledger in factory.opened.values():
            ledger.abandon()
    await bookie.stop()
    await new_world.close()


async def test_a_topic_is_taken_over_with_its_cursor(world: World) -> None:
    first, second = await world.broker(), await world.broker()
    old = await first.open(NAME, rolling(10), {"k": "v"})
    cursor = await old.open_cursor("s/1", InitialPosition.EARLIEST)
    sink = await publish(old, 0, 35, batch=3)
    places = [Position(*place) for place in sink.positions]
    cursor.acknowledge(places[:5] + places[20:30])
    await cursor.persisted()
    cursor.acknowledge_batch(places[7], [0b10])
    await cursor.persisted()

    new = await second.open(NAME, rolling(10))
    refused = Sink()
    old.append(run_of(b"late"), refused)
    await refused.settle(1)
    assert isinstance(refused.failures[0][1], ManagedLedgerFencedError)

    cursor_after = new.cursors["s/1"]
    assert cursor_after.ack_set(places[7]) == [0b10]
    assert await drain(cursor_after) == numbered(5, 15) + numbered(30, 5)
    await publish(new, 35, 5)
    assert await drain(cursor_after) == numbered(35, 5)
    await cursor_after.clear()
    await new.trim()
    info = await second.info(NAME)
    assert len(info.ledgers) == 1
    assert info.properties == {"k": "v"}
    await second.delete(NAME)
    assert not await second.exists(NAME)
    with pytest.raises(ManagedLedgerFencedError):
        await old.trim()


async def test_nodes_are_stored_at_the_paths_of_apache_pulsar(world: World) -> None:
    broker = await world.broker()
    ledger = await broker.open("public/default/persistent/a%2Fb+c", rolling(10))
    await ledger.open_cursor("x y~", InitialPosition.LATEST)
    store = await world.store()
    assert await store.children(paths.managed_ledgers("public/default")) == ["a%2Fb+c"]
    assert await store.children(paths.managed_ledger("public/default/persistent/a%2Fb+c")) == [
        "x+y%7E"
    ]
    value, _ = await store.get("/managed-ledgers/public/default/persistent/a%2Fb+c")
    assert value.startswith(b"\x0a\x04\x08")
    assert value.endswith(b"\x20\x00")
