"""The policies by which viewers are made: what changes while they are read is read again."""

from engine.base.names import NamespaceName
from engine.metadata.cached import CachedStore
from engine.metadata.memory import MemoryServer
from engine.metadata.store import Stat, Watch
from engine.tenancy.grants import grant
from engine.tenancy.namespaces import bootstrap, create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.http.auth.viewers import HeldPolicies

NAMESPACE = NamespaceName.of("t", "n")


async def test_a_change_during_a_read_is_read_by_the_next_refresh() -> None:
    server = MemoryServer()
    session, writer = server.session(), server.session()
    urls = {"broker_url": "pulsar://b:6650", "web_url": "http://b:8080"}
    await bootstrap(writer, cluster="standalone", **urls)
    await create_tenant(writer, "t", {"allowedClusters": ["standalone"]})
    await create_namespace(writer, NAMESPACE, {}, cluster="standalone")
    policies = HeldPolicies(CachedStore(session))
    await policies.refresh()
    await grant(writer, NAMESPACE, "first", ["consume"])
    get = session.get

    async def changed_behind(path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        answer = await get(path, watch)
        session.get = get  # type: ignore[method-assign]
        await grant(writer, NAMESPACE, "second", ["consume"])
        return answer

    def granted() -> set[str]:
        access = policies.namespace(NAMESPACE)
        assert access is not None
        return set(access.granted)

    session.get = changed_behind  # type: ignore[method-assign]
    await policies.refresh()
    assert not policies.is_current
    assert granted() == {"first"}
    version = policies.version
    await policies.refresh()
    assert granted() == {"first", "second"}
    assert policies.is_current
    assert policies.version > version
