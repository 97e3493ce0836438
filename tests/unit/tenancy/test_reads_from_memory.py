"""Metadata that requests read is cached: a repeated read costs no request and returns the stored values."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.topics import LOOKUP, TERMINATE
from engine.admin.client import AdminClient
from engine.base.errors import NotReady
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.cached import CachedStore
from engine.metadata.memory import Fault, MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.tenancy import topics
from engine.tenancy.clusters import get_cluster, list_clusters
from engine.tenancy.namespaces import bootstrap, get_bundles, get_policies, list_namespaces
from engine.tenancy.tenants import get_tenant, list_tenants

pytestmark = pytest.mark.virtual_time

NS = NamespaceName.parse("public/default")
PLAIN, PARENT = NS.topic("plain"), NS.topic("parent")


def brokers(store: MetadataStore) -> Awaitable[object]:
    return AdminClient(store, LoopNetwork(), "a-token-for-tests-only").brokers()


READS: dict[str, Callable[[MetadataStore], Awaitable[object]]] = {
    "clusters": list_clusters,
    "cluster": lambda store: get_cluster(store, "standalone"),
    "tenants": list_tenants,
    "tenant": lambda store: get_tenant(store, "public"),
    "namespaces": lambda store: list_namespaces(store, "public"),
    "policies": lambda store: get_policies(store, NS),
    "bundles": lambda store: get_bundles(store, NS),
    "topics": lambda store: topics.list_topics(store, NS),
    "partitioned topics": lambda store: topics.list_partitioned(store, NS),
    "partitions": lambda store: topics.get_partitions(store, PARENT),
    "plain topic": lambda store: topics.get_partitions(store, PLAIN),
    "brokers": brokers,
}


@pytest.fixture
def asked() -> Counter[str]:
    return Counter()


@pytest.fixture
async def store(asked: Counter[str]) -> AsyncIterator[CachedStore]:
    def on_call(session: int, op: str, path: str) -> Fault | None:
        asked[op] += 1
        return None

    cached = CachedStore(MemoryServer(on_call=on_call).session())
    await bootstrap(
        cached, cluster="standalone", broker_url="pulsar://a:6650", web_url="http://a:8080"
    )
    await topics.create_missing(cached, PLAIN)
    await topics.create_partitioned(cached, PARENT, 2)
    await cached.create(
        paths.broker("b:8081"), b'{"webServiceUrl":"http://b:8081/"}', make_parents=True
    )
    local = b'{"bundles":{"boundaries":["0x00000000","0xffffffff"],"numBundles":1}}'
    await cached.create(paths.local_policies(str(NS)), local, make_parents=True)
    yield cached
    await cached.close()


@pytest.mark.parametrize("name", READS)
async def test_a_repeated_request_reads_nothing_from_the_store(
    store: CachedStore, asked: Counter[str], name: str
) -> None:
    first = await READS[name](store)
    asked.clear()
    assert await READS[name](store) == first == await READS[name](store._store)
    asked.clear()
    assert await READS[name](store) == first
    assert not asked.total()


async def test_an_operation_that_failed_is_followed_by_fresh_reads(
    store: CachedStore, asked: Counter[str]
) -> None:
    await topics.get_partitions(store, PLAIN)
    client = AdminClient(store, LoopNetwork(), "a-token-for-tests-only", timeout_s=0.1)
    for operation, again in ((LOOKUP, 0), (TERMINATE, 1)):
        with pytest.raises(NotReady):
            await client.call(operation, OnTopic(PLAIN))
        await brokers(store)
        asked.clear()
        await topics.topic_exists(store, PLAIN)
        assert asked["exists"] == again
    client.close()
