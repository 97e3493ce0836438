"""Policies of a namespace are cached until they change; each change is reported to the callback."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.base.names import NamespaceName, TopicName
from engine.broker.control.catalog import Catalog
from engine.broker.errors import MetadataError, ServiceNotReady
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import Document, encode_json
from engine.metadata.store import SessionState
from engine.tenancy.settings import PolicySettings
from tests.support.stores.apart import ApartStores
from tests.support.waiting import until

NAME = NamespaceName.parse("public/default")
TOPIC = TopicName.parse("persistent://public/default/t")
PATH = paths.namespace_policies(str(NAME))


def with_ttl(seconds: int) -> bytes:
    return encode_json({"message_ttl_in_seconds": seconds})


class NoneOfTheirOwn:
    """Topic policies that are always empty."""

    async def get(self, topic: TopicName, *, everywhere: bool = False) -> Document:
        return {}

    async def every(
        self, namespace: NamespaceName, *, everywhere: bool = False
    ) -> dict[TopicName, Document]:
        return {}

    async def change(
        self, topic: TopicName, change: Callable[[Document], None], *, everywhere: bool = False
    ) -> None:
        raise NotImplementedError

    async def forget(self, topic: TopicName) -> None:
        raise NotImplementedError


async def made(
    on_change: Callable[[NamespaceName], None] = lambda name: None, store: Any = None
) -> tuple[Any, Catalog]:
    """Return a store with policies, and a catalog over it."""
    store = store or MemoryServer().session()
    await store.create(PATH, with_ttl(1), make_parents=True)
    return store, Catalog(
        store, PolicySettings(), NoneOfTheirOwn(), "standalone", on_change=on_change
    )


async def seen(catalog: Catalog, seconds: int) -> None:
    async with asyncio.timeout(60):
        while (await catalog.policies(TOPIC)).backlog.message_ttl_s != seconds:
            await asyncio.sleep(0)


async def test_changed_policies_are_read_again_and_reported() -> None:
    reported: list[NamespaceName] = []
    store, catalog = await made(reported.append)
    await seen(catalog, 1)
    assert len(catalog._known) == 1
    await store.put(PATH, with_ttl(2))
    await seen(catalog, 2)
    assert reported == [NAME]
    await store.put(PATH, with_ttl(3))
    await seen(catalog, 3)
    assert reported == [NAME, NAME]


async def test_policies_that_change_while_they_are_read_are_not_kept() -> None:
    reported: list[NamespaceName] = []
    store, catalog = await made(reported.append)
    get = store.get

    async def slow(path: str) -> Any:
        answer = await get(path)
        store.get = get
        await store.put(PATH, with_ttl(2))
        for _ in range(50):
            await asyncio.sleep(0)
        return answer

    store.get = slow
    await catalog.policies(TOPIC)
    assert reported == [NAME]
    assert (await catalog.policies(TOPIC)).backlog.message_ttl_s == 2


@pytest.mark.virtual_time
async def test_policies_serve_while_the_configuration_store_is_away_and_are_read_again_then() -> (
    None
):
    reported: list[NamespaceName] = []
    apart = ApartStores()
    store, other = apart.session(), apart.session()
    _, catalog = await made(reported.append, store)
    await seen(catalog, 1)
    store.cut()
    await other.put(PATH, with_ttl(2))
    await until(lambda: store.configuration.state is SessionState.EXPIRED)
    assert (await catalog.policies(TOPIC)).backlog.message_ttl_s == 1
    assert reported == []
    text = r"^The configuration store \(zk:configuration\) does not answer: "
    unknown = TopicName.parse("persistent://public/other/t")
    for call in (
        catalog.policies(unknown),
        catalog.partitions(TOPIC, allow_create=True),
        catalog.ensure_topic(TOPIC, create=True),
        catalog.admit(unknown),
        catalog.confirm_plain(TOPIC),
    ):
        with pytest.raises(ServiceNotReady, match=text):
            await call
    store.heal()
    await until(lambda: reported)
    assert (await catalog.policies(TOPIC)).backlog.message_ttl_s == 2


async def test_a_stored_number_of_partitions_beyond_the_limit_makes_no_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, catalog = await made()
    override = {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 10**9,
    }
    await store.put(PATH, encode_json({"autoTopicCreationOverride": override}))
    monkeypatch.setattr(TopicName, "partition_at", None)
    with pytest.raises(MetadataError, match="less than or equal to 10000"):
        await catalog.partitions(TOPIC, allow_create=True)


async def test_the_brokers_of_a_peer_are_named_for_what_it_holds() -> None:
    store, catalog = await made()
    assert await catalog.peer_of(TOPIC) is None
    elsewhere = encode_json({"replication_clusters": ["eu"]})
    await store.put(PATH, elsewhere)
    await asyncio.sleep(0)
    with pytest.raises(
        MetadataError, match=r"local_cluster=standalone ns=public/default clusters=\[eu\]"
    ):
        await catalog.peer_of(TOPIC)
    with pytest.raises(MetadataError, match="missing local cluster"):
        await catalog.partitions(TOPIC, allow_create=True)
    assert await catalog.peer_of(TopicName.parse(f"persistent://{NAME}/__change_events")) is None
    await store.create(
        paths.cluster("standalone"), encode_json({"peerClusterNames": ["eu"]}), make_parents=True
    )
    await store.create(paths.cluster("eu"), encode_json({}))
    with pytest.raises(MetadataError, match="brokerService url is not configured"):
        await catalog.peer_of(TOPIC)
    await store.put(paths.cluster("eu"), encode_json({"brokerServiceUrl": "pulsar://eu:6650"}))
    peer = await catalog.peer_of(TOPIC)
    assert peer is not None
    assert (peer.broker_url, peer.redirect) == ("pulsar://eu:6650", True)
    assert await catalog.partitions(TOPIC, allow_create=True) == 0
    catalog.close()
