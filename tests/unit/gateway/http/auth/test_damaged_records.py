"""A damaged record gives the same rights, none, to the judge and to viewers, and is named where attention is needed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules
from engine.auth.authorization.viewer_of_roles import viewer_for
from engine.auth.identity import Identity
from engine.auth.judge import Verdict
from engine.auth.resource_names import TenantName
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.cached import CachedStore
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import PolicyJudge
from engine.tenancy.namespaces import bootstrap
from gateway.http.auth.viewers import HeldPolicies
from gateway.services.attention.part_items import Instance, part_items
from gateway.services.engine_link import Engine, EngineLink
from tests.support.access.callers import bearer, by_token
from tests.support.admin.gateway_client import Gateway
from tests.support.waiting import until_blocking

TENANT, NAMESPACE = "t", NamespaceName.of("t", "n")
RULES = AccessRules(superusers=frozenset({"root"}), cluster="standalone")
GRANTED = (
    b'{"auth_policies": {"namespace_auth": {"app": ["produce"], "a": ["consume"]},'
    b' "destination_auth": {"persistent://t/n/x": {"app": ["consume"]}}, "subscription_auth_roles": {"s": ["app"]}}}'
)
TENANT_INFO = b'{"adminRoles": ["own"], "allowedClusters": ["standalone"]}'
DAMAGED = (
    *(b"{", b"[]", b"7", b"\\xff", b'"x"', b'{"adminRoles": "own", "auth_policies": 3}'),
    b'{"adminRoles": 5, "auth_policies": {"namespace_auth": ["app"]}}',
    b'{"adminRoles": ["own", 1], "auth_policies": {"namespace_auth": {"app": "produce"}}}',
    b'{"adminRoles": {"own": 1}, "auth_policies": {"namespace_auth": {"app": ["produce"], "b": 1}}}',
    b'{"adminRoles": [["own"]], "auth_policies": {"namespace_auth": {"app": ["produce"]}, "destination_auth": []}}',
    b'{"adminRoles": ["own"], "allowedClusters": 1, "auth_policies": {"destination_auth": {"persistent://t/n/x": 1}}}',
)
ROLES = ("root", "own", "app", "a", "o", "stranger")
QUESTIONS = (
    (Action.TENANT_ADMIN, TenantName(TENANT)),
    (Action.LOOKUP, NAMESPACE),
    (Action.PRODUCE, NAMESPACE.topic("x")),
    (Action.CONSUME, NAMESPACE.topic("x")),
)


@pytest.fixture
async def store() -> AsyncIterator[MetadataStore]:
    store = CachedStore(MemoryServer().session())
    urls = {"broker_url": "pulsar://b:6650", "web_url": "http://b:8080"}
    await bootstrap(store, cluster="standalone", **urls)
    await store.create(paths.tenant(TENANT), TENANT_INFO)
    await store.create(paths.namespace_policies(str(NAMESPACE)), GRANTED)
    yield store
    await store.close()


@pytest.mark.parametrize("damaged", DAMAGED)
@pytest.mark.parametrize("record", ["tenant", "namespace"])
async def test_viewers_and_the_judge_answer_alike_about_a_damaged_record(
    record: str, damaged: bytes, store: MetadataStore
) -> None:
    policies = HeldPolicies(store)
    records = AccessRecords(store)
    judge = PolicyJudge(records, RULES)
    await policies.refresh()

    async def allowed(role: str, action: Action, resource: Any) -> bool:
        judgement = judge.judge(Identity(role), action, resource)
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        held = PolicyJudge(_Held(policies), RULES).judge(Identity(role), action, resource)  # type: ignore[arg-type]
        assert isinstance(held, Verdict)
        assert held.allowed == verdict.allowed, (role, action, resource)
        return verdict.allowed

    assert await allowed("app", Action.PRODUCE, NAMESPACE.topic("x"))
    assert await allowed("own", Action.TENANT_ADMIN, TenantName(TENANT))
    path = paths.tenant(TENANT) if record == "tenant" else paths.namespace_policies(str(NAMESPACE))
    await store.put(path, damaged)
    await policies.refresh()
    assert list(policies.damaged) == [path]
    given = {
        (role, action)
        for role in ROLES
        for action, resource in QUESTIONS
        if await allowed(role, action, resource)
    }
    superusers = {("root", action) for action, _ in QUESTIONS}
    if record == "tenant":
        assert given - superusers == {
            ("app", Action.LOOKUP), ("a", Action.LOOKUP), ("app", Action.PRODUCE), ("app", Action.CONSUME),
            ("a", Action.CONSUME),
        }  # fmt: skip
        assert not viewer_for(Identity("own"), policies, RULES).tenants
    else:
        assert given - superusers == {("own", action) for action, _ in QUESTIONS}
        assert not viewer_for(Identity("app"), policies, RULES).namespaces
    await records.close()


class _Held:
    """The records of HeldPolicies as those of a judge; they are always certain."""

    def __init__(self, policies: HeldPolicies) -> None:
        self.tenant, self.namespace = policies.tenant, policies.namespace
        self.last_known = self

    def is_certain(self, name: object) -> bool:
        return True


def test_damaged_records_need_attention() -> None:
    instance = Instance(
        (), ({"id": "b"},), ({"id": "k", "state": "writable"},), {"/b": "x", "/a": "y"}
    )
    [item] = part_items(instance, "c", 0, stop=None, outage=None, producers=0)
    assert item["title"] == "2 records of tenants or namespaces are damaged and give no rights"
    assert item["detail"] == "/a: y"


def test_the_overview_of_a_superuser_names_a_damaged_record(
    call: Gateway, engine: EngineLink, settings: Any
) -> None:
    settings.IDENTITY = by_token(authorization_enabled=True)

    async def damage(link: Engine) -> None:
        await link.store.create(paths.tenant(TENANT), b"{")

    engine.run(damage)

    def named() -> bool:
        body = call("GET", "/api/v1/clusters/standalone/overview", headers=bearer("root")).json
        items = {item["cause"]: item for item in body["attention"]["items"]}
        return paths.tenant(TENANT) in items.get("record-damaged", {"detail": ""})["detail"]

    until_blocking(named)
