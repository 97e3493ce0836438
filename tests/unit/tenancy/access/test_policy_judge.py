"""The shipped judge over stored records: at once from memory, when they are read, and while the store is away."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules
from engine.auth.identity import Identity
from engine.auth.judge import ALLOWED, AllowAll, Verdict
from engine.auth.resource_names import CLUSTER, Resource, TenantName
from engine.auth.settings import AuthenticationSettings, AuthorizationSettings, IdentitySettings
from engine.base.errors import NotReady
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.cached import CachedStore
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import SessionState
from engine.tenancy import grants, tenants
from engine.tenancy.access import access_records
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import PolicyJudge, create_judge
from engine.tenancy.access.stored_access import Recorded
from engine.tenancy.namespaces import bootstrap

pytestmark = pytest.mark.virtual_time

NS = NamespaceName.parse("public/default")
TOPIC = NS.topic("orders")
APP, ADMIN, ROOT = Identity("app"), Identity("admin"), Identity("root")
RULES = AccessRules(superusers=frozenset({"root"}), cluster="standalone")
TENANT = TenantName("public")


class Bench:
    """Records over a session that can be cut off, the judge by them, and a second session that writes."""

    def __init__(self, *, cached: bool = False) -> None:
        self.reads: Counter[str] = Counter()
        self.changed: list[Recorded] = []
        self.server = MemoryServer(on_call=self._called)
        self.session = self.server.session()
        self.writer: MemoryStore = self.server.session()
        self.store = CachedStore(self.session) if cached else self.session
        self.records = AccessRecords(self.store, on_change=self.changed.append)
        self.judge = PolicyJudge(self.records, RULES)
        self.failing = False

    def _called(self, session: int, op: str, path: str) -> Fault | None:
        if session != self.session.session_id or op != "get":
            return None
        self.reads[path] += 1
        return Fault(lose_request=True) if self.failing else None

    async def verdict(
        self, identity: Identity, action: Action = Action.PRODUCE, resource: Resource = TOPIC
    ) -> Verdict:
        judgement = self.judge.judge(identity, action, resource)
        return judgement if isinstance(judgement, Verdict) else await judgement

    async def cut_off(self) -> None:
        """Cut the judge's session off until it is suspended."""
        self.server.partition(self.session.session_id)
        while self.store.state is SessionState.CONNECTED:
            await asyncio.sleep(0.1)

    async def notified(self, name: Recorded) -> None:
        """Wait for the notice of a change that was made."""
        while name not in self.changed:
            await asyncio.sleep(0.001)
        self.changed.clear()


@pytest.fixture(params=["plain", "cached"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    bench = Bench(cached=request.param == "cached")
    await bootstrap(
        bench.writer,
        cluster="standalone",
        broker_url="pulsar://b:6650",
        web_url="http://b:8080",
        default_bundles=4,
    )
    await tenants.update_tenant(
        bench.writer, "public", {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}
    )
    await grants.grant(bench.writer, NS, "app", ["produce"])
    yield bench
    await bench.records.close()
    await bench.store.close()
    await bench.writer.close()


async def test_a_verdict_is_immediate_once_its_records_were_read(bench: Bench) -> None:
    first = bench.judge.judge(APP, Action.PRODUCE, TOPIC)
    assert not isinstance(first, Verdict)
    assert await first == ALLOWED
    read = bench.reads.total()
    assert bench.judge.judge(APP, Action.PRODUCE, TOPIC) == ALLOWED
    refusal = bench.judge.judge(APP, Action.CONSUME, TOPIC)
    assert isinstance(refusal, Verdict)
    assert not refusal.allowed
    assert bench.judge.judge(ADMIN, Action.TENANT_ADMIN, NS) == ALLOWED
    assert bench.reads.total() == read


async def test_callers_share_the_read_of_a_record(bench: Bench) -> None:
    verdicts = await asyncio.gather(*(bench.verdict(APP) for _ in range(20)))
    assert verdicts == [ALLOWED] * 20
    assert bench.reads == {paths.tenant("public"): 1, paths.namespace_policies(str(NS)): 1}


async def test_a_superuser_and_a_refused_one_need_no_record(bench: Bench) -> None:
    await bench.cut_off()
    assert bench.judge.judge(ROOT, Action.SUPERUSER, CLUSTER) == ALLOWED
    assert bench.judge.judge(ROOT, Action.PRODUCE, TOPIC) == ALLOWED
    refusal = bench.judge.judge(APP, Action.SUPERUSER, CLUSTER)
    assert isinstance(refusal, Verdict)
    assert not refusal.allowed


async def test_a_change_counts_from_its_notice_on(bench: Bench) -> None:
    assert await bench.verdict(APP) == ALLOWED
    await grants.revoke(bench.writer, NS, "app")
    await bench.notified(NS)
    assert not (await bench.verdict(APP)).allowed
    assert await bench.verdict(ADMIN) == ALLOWED
    record = {"adminRoles": [], "allowedClusters": ["standalone"]}
    await tenants.update_tenant(bench.writer, "public", record)
    await bench.notified(TENANT)
    assert not (await bench.verdict(ADMIN)).allowed


async def test_a_missing_topic_is_refused_until_it_is_created(bench: Bench) -> None:
    other = NamespaceName.parse("later/ns")
    record = {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}
    assert not (await bench.verdict(ADMIN, resource=other.topic("t"))).allowed
    await tenants.create_tenant(bench.writer, "later", record)
    await bench.notified(TenantName("later"))
    assert await bench.verdict(ADMIN, resource=other.topic("t")) == ALLOWED


async def test_allowed_actions_stay_allowed_while_the_store_is_unavailable(bench: Bench) -> None:
    assert await bench.verdict(APP) == ALLOWED
    await bench.cut_off()
    assert bench.judge.judge(APP, Action.PRODUCE, TOPIC) == ALLOWED
    # The last known records refuse it, but it may have been granted meanwhile.
    with pytest.raises(NotReady):
        bench.judge.judge(APP, Action.CONSUME, TOPIC)


async def test_unread_records_are_not_ready_while_the_store_is_unavailable(bench: Bench) -> None:
    await bench.cut_off()
    with pytest.raises(NotReady):
        await bench.verdict(APP)


async def test_a_changed_record_that_cannot_be_read_refuses_nothing_for_good(bench: Bench) -> None:
    assert await bench.verdict(APP) == ALLOWED
    await grants.revoke(bench.writer, NS, "app")
    await bench.notified(NS)
    bench.failing = True
    assert await bench.verdict(APP) == ALLOWED
    with pytest.raises(NotReady):
        await bench.verdict(APP, Action.CONSUME)
    bench.failing = False
    while (await bench.verdict(APP)).allowed:
        await asyncio.sleep(0.1)


async def test_a_change_behind_a_lost_connection_is_noticed_when_it_is_back(bench: Bench) -> None:
    assert await bench.verdict(APP) == ALLOWED
    await bench.cut_off()
    await grants.revoke(bench.writer, NS, "app")
    bench.changed.clear()
    bench.server.heal(bench.session.session_id)
    await bench.notified(NS)
    assert not (await bench.verdict(APP)).allowed


async def test_a_change_during_the_read_of_a_record_is_not_lost(bench: Bench) -> None:
    """Hold the answer of a read back until the record has changed."""
    assert await bench.verdict(APP) == ALLOWED
    await grants.grant(bench.writer, NS, "other", ["consume"])
    await bench.notified(NS)
    judgement = asyncio.ensure_future(bench.verdict(APP))
    await grants.revoke(bench.writer, NS, "app")
    await judgement
    await bench.notified(NS)
    assert not (await bench.verdict(APP)).allowed


async def test_a_record_that_is_damaged_gives_no_right_and_its_repair_gives_them_again(
    bench: Bench,
) -> None:
    path = paths.namespace_policies(str(NS))
    whole, _ = await bench.writer.get(path)
    assert await bench.verdict(APP) == ALLOWED
    await bench.writer.put(path, b"{")
    await bench.notified(NS)
    assert not (await bench.verdict(APP)).allowed
    assert await bench.verdict(ADMIN) == ALLOWED, "the tenant's record is whole"
    await bench.writer.put(path, whole)
    await bench.notified(NS)
    assert await bench.verdict(APP) == ALLOWED


async def test_records_that_are_in_use_are_not_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_records, "RECORDS_MAX", 2)
    used: set[Recorded] = {NS, TENANT}
    records = AccessRecords(bench.store, on_change=bench.changed.append, in_use=used.__contains__)
    names = [NamespaceName.parse(f"public/ns-{number}") for number in range(5)]
    for name in (TENANT, NS, *names):
        await records.load(name)
    assert [name for name in (TENANT, NS, *names) if records.is_certain(name)] == [TENANT, NS]
    await grants.grant(bench.writer, NS, "other", ["consume"])
    await bench.notified(NS)
    await records.close()


def test_authorization_that_is_off_allows_everything() -> None:
    settings = IdentitySettings()
    assert isinstance(create_judge(settings, None, "standalone"), AllowAll)  # type: ignore[arg-type]


def test_the_rules_are_those_of_the_settings() -> None:
    settings = IdentitySettings(
        AuthenticationSettings(
            authentication_enabled=True,
            authentication_providers="tls",
            super_user_roles="root, ops",
            proxy_roles="proxy",
        ),
        authorization=AuthorizationSettings(
            authorization_enabled=True, authorization_allow_wildcards_matching=True
        ),
    )
    assert settings.access_rules("c") == AccessRules(
        frozenset({"root", "ops"}), frozenset({"proxy"}), "c", wildcards=True
    )
