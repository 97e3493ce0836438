"""Clusters that hold a namespace: this one, a peer, or others."""

import pytest

from engine.base.errors import Conflict, PreconditionFailed, Refusal
from engine.base.names import NamespaceName
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.tenancy.clusters import create_cluster, set_peer_clusters
from engine.tenancy.geo.homes import check_peers, holds, peer_holding
from engine.tenancy.namespaces import create_namespace, get_policies, set_policy
from engine.tenancy.policies.table import REPLICATION
from engine.tenancy.tenants import create_tenant

NS = NamespaceName.parse("t/n")
US = {"replication_clusters": ["us"]}


@pytest.fixture
async def store() -> MetadataStore:
    store = MemoryServer().session()
    for name in ("us", "eu", "ap"):
        await create_cluster(store, name, {"serviceUrl": f"http://{name}:8080"})
    await create_tenant(store, "t", {"allowedClusters": ["us", "eu", "ap"]})
    return store


def test_a_cluster_holds_what_names_it_or_nothing() -> None:
    assert holds({}, "eu")
    assert holds({"replication_clusters": []}, "eu")
    assert holds(US, "us")
    assert not holds(US, "eu")
    assert holds(US | {"allowed_clusters": ["eu"]}, "eu")


async def test_a_peer_that_holds_the_namespace_is_found(store: MetadataStore) -> None:
    assert await peer_holding(store, NS, US, "us") is None
    with pytest.raises(PreconditionFailed) as caught:
        await peer_holding(store, NS, US, "eu")
    assert caught.value.reason == (
        "Namespace missing local cluster name in clusters list: local_cluster=eu ns=t/n clusters=[us]"
    )
    await set_peer_clusters(store, "eu", ["ap", "us"])
    peer = await peer_holding(store, NS, US, "eu")
    assert peer is not None
    assert peer["serviceUrl"] == "http://us:8080"


async def test_a_cluster_and_its_peer_do_not_hold_one_namespace(store: MetadataStore) -> None:
    await set_peer_clusters(store, "eu", ["us"])
    await check_peers(store, ["eu", "ap"])
    with pytest.raises(Conflict) as caught:
        await check_peers(store, ["eu", "us"])
    assert caught.value.reason == (
        "eu's peer-clusters [us] can't be part of replication-clusters [eu, us]"
    )


async def test_a_namespace_is_made_for_and_given_to_other_clusters(store: MetadataStore) -> None:
    await create_namespace(store, NS, {"replication_clusters": ["eu"]}, cluster="us")
    assert (await get_policies(store, NS))["replication_clusters"] == ["eu"]
    await set_policy(store, NS, REPLICATION, ["us", "ap"], cluster="us")
    await set_policy(store, NS, REPLICATION, ["eu"], cluster="us")
    await set_peer_clusters(store, "eu", ["us"])
    with pytest.raises(Refusal, match="can't be part"):
        await set_policy(store, NS, REPLICATION, ["us", "eu"], cluster="us")
