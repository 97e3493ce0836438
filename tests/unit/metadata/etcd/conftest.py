"""An etcd in memory, and sessions on it, in virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from engine.metadata.etcd.etcd_store import EtcdStore
from engine.metadata.etcd.gateway import EtcdUser
from tests.support.net.pipe_network import PipeNetwork
from tests.support.stores.fake_etcd import FakeEtcd

CHROOT = "/c"
SESSION_S = 6.0

OpenSession = Callable[..., Awaitable[EtcdStore]]


@pytest.fixture
async def fake() -> AsyncIterator[FakeEtcd]:
    """An etcd of two members."""
    etcd = FakeEtcd(PipeNetwork(), members=2)
    await etcd.start()
    yield etcd
    for member in etcd.members:
        await member.leave()


@pytest.fixture
async def opened(fake: FakeEtcd) -> AsyncIterator[OpenSession]:
    """Opens a session below CHROOT, at first with the first member."""
    stores: list[EtcdStore] = []

    async def open_session(user: EtcdUser | None = None) -> EtcdStore:
        urls = [member.url for member in fake.members]
        store = EtcdStore(urls, SESSION_S, CHROOT, network=PipeNetwork(), user=user)
        stores.append(store)
        await store.start(15.0)
        return store

    yield open_session
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opened: OpenSession) -> EtcdStore:
    return await opened()
