"""Selections of topics against a metadata store: by name, list, pattern, namespace, tenant, cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base.clock import SystemClock
from engine.metadata import paths
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.memory import MemoryServer
from engine.metadata.records import encode_json
from engine.metadata.store import MetadataStore
from spark_jobs.analysis import AnalysisTarget
from spark_jobs.pulsar_source import topics
from spark_jobs.pulsar_source.options import OptionError, TopicChoice, parse
from spark_jobs.pulsar_source.topics import find_topics, topics_of

EU = [f"persistent://shop/eu/orders-partition-{i}" for i in (0, 1, 10)]
ALL = [*EU, "persistent://shop/eu/returns", "persistent://shop/us/orders", "persistent://x/y/z"]


async def filled(store: MetadataStore) -> MetadataStore:
    """Return the store with the topics ALL, a system topic, and a topic with 12 partitions, of which three exist."""
    for namespace in ("shop/eu", "shop/us", "x/y"):
        await store.create(paths.namespace_policies(namespace), b"{}", make_parents=True)
    for name in (*ALL, "persistent://shop/eu/__change_events"):
        _, _, path = name.partition("://")
        namespace, _, local = path.rpartition("/")
        await store.create(f"{paths.managed_ledgers(namespace)}/{local}", make_parents=True)
    record = encode_json({"partitions": 12})
    await store.create(paths.partitioned_topic("shop/eu", "orders"), record, make_parents=True)
    return store


@pytest.fixture
async def store() -> MetadataStore:
    return await filled(MemoryServer(SystemClock()).session(10.0))


async def found(store: MetadataStore, **options: str) -> list[str]:
    selection = parse({**options, "metadataUrl": "zk:a:1"}).selection
    return [str(topic) for topic in await find_topics(store, selection)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"topic": "shop/eu/returns"}, ["persistent://shop/eu/returns"]),
        ({"topic": EU[2]}, [EU[2]]),
        ({"topics": f"x/y/z,shop/us/orders, {EU[0]}, x/y/z"}, [ALL[5], ALL[4], EU[0]]),
        ({"topicsPattern": "shop/eu/.*"}, ALL[:4]),
        ({"topicsPattern": "shop/eu/order."}, EU),
        ({"topicsPattern": "persistent://[^/]+/.*/orders"}, [*EU, ALL[4]]),
        ({"topicsPattern": "persistent://shop/eu/returns|persistent://x/y/z"}, [ALL[3], ALL[5]]),
        ({"topicsPattern": "shop/eu/nothing"}, []),
        ({"namespace": "shop/eu"}, ALL[:4]),
        ({"tenant": "shop"}, ALL[:5]),
        ({"topic": "shop/eu/__change_events"}, ["persistent://shop/eu/__change_events"]),
    ],
)
async def test_options_select_topics_in_order_and_partitions_one_by_one(
    store: MetadataStore, options: dict[str, str], names: list[str]
) -> None:
    assert await found(store, **options) == names


async def test_all_partitions_of_a_named_topic_are_selected_also_those_never_used(
    store: MetadataStore,
) -> None:
    names = await found(store, topic="shop/eu/orders")
    assert names == [f"persistent://shop/eu/orders-partition-{i}" for i in range(12)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "shop/eu/none"}, "option topic: there is no topic persistent://shop/eu/none"),
        ({"namespace": "shop/none"}, "option namespace: there is no namespace shop/none"),
        ({"tenant": "none"}, "option tenant: there are no namespaces of tenant none"),
    ],
)
async def test_a_named_topic_namespace_or_tenant_must_exist(
    store: MetadataStore, options: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        await found(store, **options)


def test_topics_of_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connected(stores: StoreUrls) -> AsyncIterator[MetadataStore]:
        yield await filled(MemoryServer(SystemClock()).session(10.0))

    monkeypatch.setattr(topics, "connected_store", connected)
    stores = StoreUrls("zk:a:1")
    assert topics_of(stores, AnalysisTarget.CLUSTER) == ALL
    assert topics_of(stores, AnalysisTarget.TENANT, "x") == ["persistent://x/y/z"]
    assert topics_of(stores, AnalysisTarget.NAMESPACE, "shop/us") == [ALL[4]]
    assert topics_of(stores, AnalysisTarget.TOPIC, "x/y/z") == [ALL[5]]
    with pytest.raises(OptionError, match="option topic: Invalid short topic name"):
        TopicChoice.of(AnalysisTarget.TOPIC, "a/b")
