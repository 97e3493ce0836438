"""Everything that exists in an Apache Pulsar cluster, as services read it from its mirror."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from engine.base.names import NamespaceName
from engine.metadata.store import StoreUnavailableError
from engine.tenancy.clusters import list_clusters
from engine.tenancy.namespaces import get_policies
from engine.tenancy.tenants import get_tenant, list_tenants
from gateway.apache.connecting import apache_link
from gateway.apache_settings import ApacheCluster
from gateway.services import bundles, catalog
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.health.checks import UnwellError
from tests.support.net.recorded_apache import RecordedApache


def test_services_read_tenants_namespaces_and_topics_of_the_mirror(link: EngineLink) -> None:
    async def read(engine: Engine) -> None:
        assert await list_tenants(engine.store) == ["acme", "public", "pulsar"]
        assert (await get_tenant(engine.store, "acme"))["adminRoles"] == ["acme-admin"]
        assert await list_clusters(engine.store) == ["us"]
        policies = await get_policies(engine.store, NamespaceName.parse("acme/ns0"))
        assert policies["replication_clusters"] == ["us"]
        topics = await catalog.topics(engine.store)
        assert topics["persistent://acme/ns0/parted"] == 4
        assert topics["persistent://acme/ns5/orders-0005"] == 0
        assert not any("__change_events" in name or "-partition-" in name for name in topics)

    link.run(read)


def test_owners_of_bundles_are_those_that_brokers_state(link: EngineLink) -> None:
    async def read(engine: Engine) -> set[str]:
        owned = await bundles.all_owned(engine.store)
        return {url for namespace in owned for url in namespace.owners.values()}

    assert link.run(read) == {"pulsar://127.0.0.1:17050"}


def test_a_cluster_with_another_name_says_which_it_has(
    apache_cluster: ApacheCluster, apache: RecordedApache
) -> None:
    other = apache_link(ApacheCluster("theirs", apache.url, "", apache_cluster.token_file))
    check = other.source.check
    assert check is not None
    try:
        with pytest.raises(StoreUnavailableError):
            other.run(lambda engine: list_tenants(engine.store))
        checked = asyncio.run_coroutine_threadsafe(_checked(check), other.loop)
        wanted = (
            "it has the clusters us, not theirs: state its own name, by --remote-name theirs=us"
        )
        with pytest.raises(UnwellError, match=wanted):
            checked.result(5)
    finally:
        other.close()


async def _checked(check: Callable[[], Awaitable[int]]) -> int:
    return await check()


def test_known_tenants_remain_while_the_cluster_does_not_answer(
    link: EngineLink, apache: RecordedApache
) -> None:
    assert link.run(lambda engine: list_tenants(engine.store))
    apache.shutdown()
    assert link.run(lambda engine: list_tenants(engine.store))


def test_the_time_until_which_the_mirror_is_known_is_that_of_the_round(link: EngineLink) -> None:
    link.run(lambda engine: list_tenants(engine.store))
    check = link.source.check
    assert check is not None

    async def known(engine: Engine) -> int:
        assert check is not None
        return await check()

    assert 0 <= time.time() * 1000 - link.run(known) < 10_000
