"""Namespaces of tenants with very many: what was read before is not read again, and every change shows."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.cached import CachedStore
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.tenancy import listing
from engine.tenancy.listing import BATCH, REMEMBERED_S, all_namespaces, namespaces_of
from engine.tenancy.namespaces import create_namespace, delete_namespace
from engine.tenancy.tenants import create_tenant

pytestmark = pytest.mark.virtual_time

COUNT = 1_000
SETTLE_S = 0.01


class Bench:
    """A gateway's store, whose requests are counted, and another client's."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        server = MemoryServer(on_call=self._count)
        self.other: MemoryStore = server.session()
        self.cached = CachedStore(server.session())

    def _count(self, session: int, op: str, path: str) -> Fault | None:
        if session != self.other.session_id:
            self.requests[op] += 1
        return None

    async def list(self) -> list[str]:
        await asyncio.sleep(SETTLE_S)
        self.requests.clear()
        return await namespaces_of(self.cached, "t")


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(listing, "CACHED_MAX", 100)
    bench = Bench()
    await bench.other.create(paths.cluster("c"), b"{}", make_parents=True)
    await create_tenant(bench.other, "t", {"allowedClusters": ["c"]})
    for number in range(COUNT):
        await bench.other.create(paths.namespace_policies(f"t/n{number:04}"), b"{}")
    yield bench
    await bench.cached.close()
    await bench.other.close()


def names(*numbers: int) -> list[str]:
    return [f"t/n{number:04}" for number in numbers]


async def test_all_are_read_by_few_requests_and_then_none(bench: Bench) -> None:
    assert await bench.list() == names(*range(COUNT))
    assert bench.requests.total() <= COUNT // BATCH + 2
    assert await bench.list() == names(*range(COUNT))
    assert not bench.requests
    assert len(bench.cached._entries) < 10


async def test_a_new_namespace_is_read_alone_and_a_deleted_one_is_gone(bench: Bench) -> None:
    await bench.list()
    await bench.other.create(paths.namespace_policies("t/new"), b"{}")
    await bench.other.delete(paths.namespace_policies("t/n0007"))
    assert await bench.list() == [*(n for n in names(*range(COUNT)) if n != "t/n0007"), "t/new"]
    assert bench.requests.total() <= 2


async def test_own_changes_show_at_once(bench: Bench) -> None:
    await bench.list()
    created = NamespaceName.parse("t/own")
    await create_namespace(bench.cached, created, None, cluster="c")
    assert "t/own" in await namespaces_of(bench.cached, "t")
    await delete_namespace(bench.cached, created)
    assert "t/own" not in await namespaces_of(bench.cached, "t")
    legacy = NamespaceName.parse("t/n0005/below")
    await create_namespace(bench.cached, legacy, None, cluster="c")
    assert str(legacy) in await namespaces_of(bench.cached, "t")


async def test_nodes_that_hold_legacy_namespaces_are_followed(bench: Bench) -> None:
    await bench.other.create(paths.namespace_policies("t/c/old"), b"{}", make_parents=True)
    listed = await bench.list()
    assert "t/c/old" in listed
    assert "t/c" not in listed
    await bench.other.create(paths.namespace_policies("t/c/older"), b"{}")
    assert "t/c/older" in await bench.list()
    await bench.other.put(paths.namespace_policies("t/c"), b"{}")
    assert {"t/c", "t/c/old"} < set(await bench.list())
    assert bench.requests.total() <= 3


async def test_a_legacy_namespace_below_another_shows_in_time_and_at_once_anew(
    bench: Bench,
) -> None:
    await bench.list()
    await bench.other.create(paths.namespace_policies("t/n0003/below"), b"{}")
    await asyncio.sleep(SETTLE_S)
    assert "t/n0003/below" in await namespaces_of(bench.cached, "t", anew=True)
    await asyncio.sleep(REMEMBERED_S)
    assert "t/n0003/below" in await bench.list()


async def test_nothing_is_remembered_over_a_lost_connection(bench: Bench) -> None:
    await bench.list()
    await bench.other.create(paths.namespace_policies("t/n0004/below"), b"{}")
    bench.cached._drop_all()
    assert "t/n0004/below" in await bench.list()


async def test_lists_at_the_same_time_read_once(bench: Bench) -> None:
    lists = await asyncio.gather(*(namespaces_of(bench.cached, "t") for _ in range(5)))
    assert lists == [names(*range(COUNT))] * 5
    assert bench.requests.total() <= COUNT // BATCH + 2


async def test_the_list_is_that_of_a_store_without_a_cache(bench: Bench) -> None:
    await bench.other.create(paths.namespace_policies("t/c/old"), b"{}", make_parents=True)
    await bench.other.create(paths.namespace_policies("t/empty"))
    listed = await bench.list()
    assert listed == await namespaces_of(bench.other, "t")
    assert listed == await all_namespaces(bench.cached)
