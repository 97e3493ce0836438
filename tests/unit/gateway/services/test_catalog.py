"""The catalog of topics, kept up with a cached store while another client changes the tree."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from engine.base.errors import Conflict
from engine.base.names import NamespaceName, TopicName
from engine.metadata.cached import CachedStore
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import StoreUnavailableError
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import bootstrap, create_namespace, delete_namespace
from engine.tenancy.nodes import delete_tree, find_node
from gateway.services import catalog
from gateway.services.catalog import TopicCatalog

pytestmark = pytest.mark.virtual_time

NS = NamespaceName.parse("public/default")


@dataclass
class Bench:
    server: MemoryServer
    other: MemoryStore
    cached: CachedStore
    asked: Counter[str]
    failing: bool = False


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    asked: Counter[str] = Counter()

    def on_call(session: int, op: str, path: str) -> Fault | None:
        if session == bench.other.session_id:
            return None
        asked[op] += 1
        return Fault(lose_reply=True) if bench.failing else None

    server = MemoryServer(on_call=on_call)
    other = server.session()
    bench = Bench(server, other, CachedStore(server.session()), asked)
    await bootstrap(
        other, cluster="standalone", broker_url="pulsar://a:6650", web_url="http://a:8080"
    )
    yield bench
    await bench.cached.close()
    await other.close()


async def test_plain_topics_parents_and_orphans_are_distinguished(bench: Bench) -> None:
    for local in ("plain", "a b", "__system", "gone-partition-0", "x-partition-"):
        await metadata.create_missing(bench.other, NS.topic(local))
    await metadata.create_partitioned(bench.other, NS.topic("p%q"), 3)
    await metadata.create_partitioned(bench.other, NS.topic("n", "non-persistent"), 2)
    partitions = {
        "persistent://public/default/plain": 0,
        "persistent://public/default/a b": 0,
        "persistent://public/default/gone-partition-0": 0,
        "persistent://public/default/x-partition-": 0,
        "persistent://public/default/p%q": 3,
        "non-persistent://public/default/n": 2,
    }
    assert await catalog.topics(bench.cached) == partitions
    followed = TopicCatalog(bench.cached)
    assert (await followed.refresh()) == (partitions, set())
    assert followed.known == partitions


async def test_a_round_without_changes_reads_nothing(bench: Bench) -> None:
    for number in range(20):
        name = NamespaceName.of("public", f"n{number}")
        await create_namespace(bench.other, name, None, cluster="standalone")
        await metadata.create_partitioned(bench.other, name.topic("p"), 2)
    await metadata.create_missing(bench.other, NS.topic("old"))
    followed = TopicCatalog(bench.cached)
    await followed.refresh()
    bench.asked.clear()
    assert await followed.refresh() == ({}, set())
    assert not bench.asked
    await metadata.create_missing(bench.other, NS.topic("new"))
    await asyncio.sleep(0.01)
    assert await followed.refresh() == ({str(NS.topic("new")): 0}, set())
    assert bench.asked.total() <= 2
    await bench.other.delete(metadata.ledger_path(NS.topic("new")))
    await asyncio.sleep(0.01)
    assert await followed.refresh() == ({}, {str(NS.topic("new"))})


async def test_namespaces_without_topics_are_not_read(bench: Bench) -> None:
    for number in range(200):
        path = f"/admin/policies/public/empty-{number}"
        await bench.other.create(path, b"{}")
    await metadata.create_missing(bench.other, NS.topic("t"))
    followed = TopicCatalog(bench.cached)
    await followed.refresh()
    assert bench.asked.total() <= 20
    first = NamespaceName.parse("public/empty-7")
    await metadata.create_missing(bench.other, first.topic("first"))
    await metadata.create_partitioned(
        bench.other, NamespaceName.parse("public/empty-8").topic("p"), 2
    )
    await asyncio.sleep(0.01)
    bench.asked.clear()
    changed = await followed.refresh()
    assert changed.known == {
        "persistent://public/empty-7/first": 0,
        "persistent://public/empty-8/p": 2,
    }
    assert bench.asked.total() <= 20


async def test_topics_of_legacy_namespaces_are_listed_before_they_are_loaded(
    bench: Bench,
) -> None:
    local, legacy = NS, NamespaceName.parse("public/default/orders")
    await create_namespace(bench.other, legacy, None, cluster="standalone")
    await metadata.create_missing(bench.other, local.topic("payments"))
    followed = TopicCatalog(bench.cached)
    await followed.refresh()
    await metadata.create_missing(bench.other, legacy.topic("payments"))
    await metadata.create_partitioned(bench.other, legacy.topic("p"), 2)
    await metadata.create_partitioned(bench.other, legacy.topic("n", "non-persistent"), 1)
    await metadata.create_missing(bench.other, local.topic("a/b"))
    await metadata.create_missing(bench.other, TopicName.parse("persistent://public/c/n/x"))
    await asyncio.sleep(0.01)
    await followed.refresh()
    assert followed.known == {
        "persistent://public/default/payments": 0,
        "persistent://public/default/orders/payments": 0,
        "persistent://public/default/orders/p": 2,
        "non-persistent://public/default/orders/n": 1,
        "persistent://public/default/a/b": 0,
        "persistent://public/c/n/x": 0,
    }
    await delete_tree(bench.other, f"/managed-ledgers/{legacy}")
    await asyncio.sleep(0.01)
    changed = await followed.refresh()
    assert changed.gone == {"persistent://public/default/orders/payments"}
    assert followed.known == await catalog.topics(bench.other)


@pytest.mark.parametrize("name", ["persistent", "non-persistent"])
async def test_a_legacy_namespace_called_as_a_domain_is_no_topic(bench: Bench, name: str) -> None:
    legacy = NamespaceName.parse(f"public/standalone/{name}")
    await create_namespace(bench.other, legacy, None, cluster="standalone")
    await metadata.create_partitioned(bench.other, legacy.topic("x"), 2)
    await metadata.create_missing(bench.other, legacy.topic("y"))
    assert await catalog.topics(bench.cached) == {
        f"persistent://public/standalone/{name}/x": 2,
        f"persistent://public/standalone/{name}/y": 0,
    }


async def test_a_topic_called_as_a_domain_is_one(bench: Bench) -> None:
    await create_namespace(
        bench.other, NamespaceName.parse("public/default/persistent"), None, cluster="standalone"
    )
    await metadata.create_topic(bench.other, NS.topic("persistent"), b"opened once")
    await metadata.create_missing(bench.other, NS.topic("non-persistent"))
    assert await catalog.topics(bench.cached) == {
        "persistent://public/default/persistent": 0,
        "persistent://public/default/non-persistent": 0,
    }


@pytest.mark.parametrize(
    "record",
    [b'{"properties":{}}', b'{"partitions":"2"}', b'{"partitions":-1}', b"[]", b"\xff", b""],
)
async def test_a_record_that_cannot_be_read_costs_its_own_topic_only(
    bench: Bench, record: bytes
) -> None:
    followed = TopicCatalog(bench.cached)
    await metadata.create_partitioned(bench.other, NS.topic("bad"), 1)
    await bench.other.put(metadata.partitioned_path(NS.topic("bad")), record)
    await metadata.create_partitioned(bench.other, NS.topic("good"), 2)
    await followed.refresh()
    assert followed.known == {
        "persistent://public/default/bad-partition-0": 0,
        "persistent://public/default/good": 2,
    }
    repaired = b'{"partitions":1,"deleted":false}'
    await bench.other.put(metadata.partitioned_path(NS.topic("bad")), repaired)
    await asyncio.sleep(0.01)
    await followed.refresh()
    assert followed.known == {
        "persistent://public/default/bad": 1,
        "persistent://public/default/good": 2,
    }


async def test_a_failed_round_is_made_up_for(bench: Bench) -> None:
    followed = TopicCatalog(bench.cached)
    await followed.refresh()
    await metadata.create_missing(bench.other, NS.topic("new"))
    await asyncio.sleep(0.01)
    bench.failing = True
    with pytest.raises(StoreUnavailableError):
        await followed.refresh()
    bench.failing = False
    await asyncio.sleep(1)
    assert await followed.refresh() == ({str(NS.topic("new")): 0}, set())


async def test_without_a_cache_everything_is_read(bench: Bench) -> None:
    followed = TopicCatalog(bench.other)
    await followed.refresh()
    await metadata.create_missing(bench.other, NS.topic("new"))
    assert await followed.refresh() == ({str(NS.topic("new")): 0}, set())


@pytest.mark.parametrize("seed", range(20))
async def test_the_followed_catalog_equals_the_stored_topics(bench: Bench, seed: int) -> None:
    chance = Random(seed)
    small = CachedStore(bench.server.session(), entries_max=chance.choice([3, 12, 1000]))
    followed, seen = TopicCatalog(small), dict[str, int]()
    names = [NamespaceName.parse(f"public/{name}") for name in ("n0", "n1", "n0/legacy")]
    for _ in range(60):
        name = chance.choice(names)
        topic = name.topic(chance.choice("abc"))
        made = await find_node(bench.other, f"/admin/policies/{name}") is not None
        match chance.randrange(8):
            case 0 if not made:
                await create_namespace(bench.other, name, None, cluster="standalone")
            case 1 if made:
                with suppress(Conflict):
                    await delete_namespace(bench.other, name)
            case 2 if made:
                await metadata.create_missing(bench.other, topic)
            case 3:
                await delete_tree(bench.other, metadata.ledger_path(topic))
            case 4 if made and not await metadata.topic_exists(bench.other, topic):
                if await metadata.find_partitions(bench.other, topic) is None:
                    await metadata.create_partitioned(bench.other, topic, chance.randint(1, 3))
            case 5:
                await delete_tree(bench.other, metadata.partitioned_path(topic))
            case 6:
                bench.server.break_connection(small.session_id)
                await asyncio.sleep(1)
        if chance.random() < 0.4:
            await asyncio.sleep(0.01)
            changed = await followed.refresh()
            assert not changed.known.keys() & changed.gone
            seen |= changed.known
            seen = {topic: count for topic, count in seen.items() if topic not in changed.gone}
            assert seen == followed.known == await catalog.topics(bench.other)
    await small.close()
