"""Backups between kinds of metadata stores: that of the target need not be of the source's kind."""

from collections.abc import AsyncIterator

import pytest

from engine.managed.ledger import InitialPosition
from engine.metadata.etcd.etcd_store import EtcdStore
from engine.metadata.store import MetadataStore
from tests.sim.kit.disk import FaultDisk
from tests.support.managed_cluster import NAME, Brokers, drain, numbered, publish, rolling
from tests.support.net.pipe_network import PipeNetwork
from tests.support.stores.backups import restore, save
from tests.support.stores.fake_etcd import FakeEtcd

pytestmark = pytest.mark.virtual_time
SESSIONS = 12


class EtcdSessions:
    """Sessions on an etcd in memory, which are opened ahead; in the place of the server of a cluster in memory."""

    def __init__(self) -> None:
        self._etcd = FakeEtcd(PipeNetwork())
        self._ready: list[EtcdStore] = []
        self._used: list[EtcdStore] = []

    async def start(self) -> None:
        await self._etcd.start()
        for _ in range(SESSIONS):
            urls = [member.url for member in self._etcd.members]
            store = EtcdStore(urls, 60.0, "/c", network=PipeNetwork())
            await store.start(15.0)
            self._ready.append(store)

    def session(self, session_timeout_s: float) -> MetadataStore:
        self._used.append(self._ready.pop())
        return self._used[-1]

    async def close(self) -> None:
        for store in (*self._used, *self._ready):
            await store.close()
        for member in self._etcd.members:
            await member.leave()


@pytest.fixture
async def on_etcd() -> AsyncIterator[Brokers]:
    """An empty cluster of one bookie with its metadata on etcd."""
    sessions, made = EtcdSessions(), Brokers()
    await sessions.start()
    made.cluster.server = sessions  # type: ignore[assignment]
    await made.cluster.start("e0")
    yield made
    await made.close()
    await sessions.close()


async def test_a_backup_is_restored_on_etcd_and_back(
    brokers: Brokers, empty: Brokers, on_etcd: Brokers
) -> None:
    ledger = await brokers.broker().open(NAME, rolling(5))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 12)
    first, second = FaultDisk(), FaultDisk()
    await save(brokers, first)
    await restore(on_etcd, first)
    factory = on_etcd.broker()
    restored = await factory.open(NAME, rolling(5))
    more = await publish(restored, 12, 3)
    assert more.positions[0] > sink.positions[-1]
    await save(on_etcd, second)
    await restore(empty, second)
    back = await empty.broker().open(NAME, rolling(5))
    assert await drain(back.cursors["s"]) == numbered(0, 15)
    assert (await publish(back, 15, 1)).positions[0] > more.positions[-1]
