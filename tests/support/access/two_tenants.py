"""An instance of two tenants in this process, whose every name and text contains a canary text of its tenant.

A broker serves the topics in memory on the loop of the gateway's link; nothing uses a socket.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from admin_ui.models import AuditEntry, ChangeSet, ChangeState, SavedView
from engine.admin.api.rows import ROW_COLUMNS
from engine.base.names import TopicName
from engine.metadata.cached import CachedStore
from engine.tenancy.namespaces import bootstrap
from engine.wire import pulsar_pb2 as pb
from gateway.access.models import IssuedToken, PayloadRule
from gateway.alerts.models import AlertChannel, AlertFiring, AlertRule, AlertSilence
from gateway.jobs.models import JobRun, RunState
from gateway.services.clock import now_ms
from gateway.services.collection.collector import Collector
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.feeds.row_list import RowChanges
from tests.support.access.browser import Browser
from tests.support.admin.bench import TOKEN, AdminBench
from tests.support.admin.direct import DirectAdmin
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

TENANTS = (1, 2)
CLUSTER = "standalone"
BUNDLE = "0x00000000_0xffffffff"


def canary(tenant: int, what: str) -> str:
    """Return a text that only ``tenant`` may see."""
    return f"canary-t{tenant}-{what}"


def topic_of(tenant: int) -> str:
    """Return the topic of a tenant."""
    return (
        f"persistent://{canary(tenant, 'tenant')}/{canary(tenant, 'ns')}/{canary(tenant, 'topic')}"
    )


def schema_of(tenant: int) -> str:
    """Return the definition of the schema of a tenant's topic."""
    fields = [{"name": "f", "type": "string", "doc": canary(tenant, "doc")}]
    return json.dumps({"type": "record", "name": f"R{tenant}", "fields": fields})


class TwoTenants:
    """The instance. ``link`` is what a gateway works on."""

    bench: AdminBench

    def __init__(self) -> None:
        self.link = EngineLink(self._connect)
        self.ids: dict[int, dict[str, str]] = {tenant: {} for tenant in TENANTS}
        """Ids of records of the console, by variable of a path."""

    async def _connect(self) -> Engine:
        self.bench = AdminBench()
        await self.bench.start()
        store = CachedStore(self.bench._cluster.server.session(10.0))
        urls = {"broker_url": "pulsar://127.0.0.1:6650", "web_url": "http://127.0.0.1:8080"}
        await bootstrap(store, cluster=CLUSTER, **urls)
        admin = DirectAdmin(store, TOKEN, lambda: [self.bench.broker])
        return Engine(store, admin, CLUSTER)

    def close(self) -> None:
        """Stop the broker and the link."""
        self.link.run(lambda engine: self.bench.close())
        self.link.close()

    def fill(self, root: Browser, tenant: int) -> None:
        """Make everything of a tenant, as a superuser does by REST and in the console's database."""
        for method, path, body in changes(tenant):
            answer = root(method, path, body)
            assert answer.status < 300, (method, path, answer.status, answer.body)
        self.link.run(lambda engine: self._publish(tenant))
        self._record(tenant)

    def report_lag(self, collector: Collector) -> None:
        """Report a lagging subscription and a broken link of a topic of each tenant, as a broker does that has loaded
        it."""
        now, rows, lags, links = now_ms(), [], [], []
        for tenant in TENANTS:
            name = topic_of(tenant).replace("-topic", "-parts-partition-0")
            rows.append([name, *(10_000 for _ in ROW_COLUMNS)])
            lag = ["no-consumer", "error", now - 60_000, 0, {}]
            lags.append([name, [canary(tenant, "lagging"), 10_000, 0, lag]])
            sent = [7, now - 60_000, 0, 0, "quota", canary(tenant, "lagging"), now - 60_000]
            links.append([name, ["eu", sent, None]])
        collector.links.apply("b:1", RowChanges(now, links, []))
        collector.topics.apply("b:1", RowChanges(now, rows, []))
        collector.findings.apply("b:1", RowChanges(now, lags, []))

    async def _publish(self, tenant: int) -> None:
        metadata = pb.MessageMetadata(
            producer_name=canary(tenant, "producer"),
            sequence_id=0,
            publish_time=now_ms(),
            partition_key=canary(tenant, "key"),
            properties=[pb.KeyValue(key="k", value=canary(tenant, "header"))],
        ).SerializeToString()
        entry = len(metadata).to_bytes(4, "big") + metadata + canary(tenant, "payload").encode()
        sink = Sink()
        topic = await self.bench.loaded(TopicName.parse(topic_of(tenant)))
        topic.log.append(run_of(entry, entry), sink)
        await sink.settle(2)
        ledger, number = sink.positions[0]
        self.ids[tenant] |= {"ledgerId": str(ledger), "entryId": str(number)}

    def _record(self, tenant: int) -> None:
        text, now = canary, now_ms()
        view = SavedView.objects.create(
            owner=text(tenant, "person"),
            name=text(tenant, "view"),
            resource="topics",
            query={"q": text(tenant, "query")},
            created_at_ms=now,
        )
        tokens = [
            IssuedToken.objects.create(
                token_id=text(tenant, f"jti{number}"),
                name=text(tenant, "token"),
                role=text(tenant, "admin"),
                level="full",
                person=person,
                created_by=text(tenant, "person"),
                created_at_ms=now,
            )
            for number, person in enumerate(("", text(tenant, "person")))
        ]
        run = JobRun.objects.create(
            analysis="topic-profile",
            title=text(tenant, "run"),
            kind="topic",
            target=topic_of(tenant),
            parameters={"p": text(tenant, "parameter")},
            state=RunState.FAILED,
            created_at=now,
            created_by=text(tenant, "person"),
            error=text(tenant, "error"),
            result={"r": text(tenant, "result")},
            downloads=[{"name": text(tenant, "download")}],
        )
        change_set = ChangeSet.objects.create(
            id=text(tenant, "set")[:16],
            cluster=CLUSTER,
            kind="set-policy",
            arguments={"policy": "retention", "value": text(tenant, "value")},
            role=text(tenant, "admin"),
            created_by=text(tenant, "person"),
            state=ChangeState.PLANNED,
            digest=text(tenant, "digest"),
            created_at=now,
        )
        change_set.items.create(topic=topic_of(tenant), reason=text(tenant, "reason"))
        PayloadRule.objects.create(
            position=tenant, namespace=f"{text(tenant, 'tenant')}/*", shown=True
        )
        _record_alerts(tenant)
        entry = AuditEntry.objects.filter(tenant=text(tenant, "tenant")).first()
        assert entry is not None
        self.ids[tenant] |= {
            "view_id": str(view.pk),
            "token_id": str(tokens[0].pk),
            "run_id": run.pk,
            "set_id": change_set.pk,
            "entry_id": str(entry.pk),
        }


def _record_alerts(tenant: int) -> None:
    """Record alerts of a tenant. The URL of its channel is in no answer."""
    owner = {"cluster": CLUSTER, "tenant": canary(tenant, "tenant")}
    made = {"created_at": now_ms(), "created_by": ""}
    AlertChannel.objects.create(
        name=canary(tenant, "channel"),
        kind="webhook",
        secret_url=f"https://hooks.example/{canary(tenant, 'url')}",
        **owner,
        **made,
    )
    rule = AlertRule.objects.create(
        name=canary(tenant, "rule"),
        severity="error",
        definition={"kind": "attention", "scope": canary(tenant, "tenant")},
        for_s=0,
        changed_at=0,
        **owner,
        **made,
    )
    AlertFiring.objects.create(
        rule_id=rule.pk,
        rule_name=rule.name,
        severity="error",
        object=canary(tenant, "object"),
        object_hash=str(tenant),
        title=canary(tenant, "firing"),
        state="firing",
        since=0,
        **owner,
    )
    AlertSilence.objects.create(
        reason=canary(tenant, "silence"), until=now_ms() + 86_400_000, **owner, **made
    )


def changes(tenant: int) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and body of the calls that make a tenant."""

    def text(what: str) -> str:
        return canary(tenant, what)

    space = f"{text('tenant')}/{text('ns')}"
    spaces, topics = f"/admin/v2/namespaces/{space}", "/admin/v2/persistent"
    topic = f"{topics}/{space}/{text('topic')}"
    admins = {"adminRoles": [text("admin")], "allowedClusters": [CLUSTER]}
    yield "PUT", f"/admin/v2/tenants/{text('tenant')}", admins
    yield "PUT", spaces, {"bundles": {"numBundles": 1}}
    yield "PUT", f"{spaces}/property/{text('key')}/{text('value')}", None
    yield "POST", f"{spaces}/antiAffinity", text("group")
    yield "POST", f"{spaces}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10}
    yield "POST", f"{spaces}/permissions/{text('role')}", ["consume"]
    yield "POST", f"{spaces}/permissions/subscription/{text('subscription')}", [text("reader")]
    yield "PUT", topic, {"p": text("property")}
    yield "PUT", f"{topics}/{space}/{text('parts')}/partitions", 2
    yield "PUT", f"{topic}/subscription/{text('subscription')}", None
    yield "PUT", f"{topic}/subscription/{text('subscription')}/properties", {"p": text("note")}
    yield "POST", f"{topic}/permissions/{text('writer')}", ["produce"]
    yield "POST", f"{topic}/retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": 5}
    schema = {"type": "AVRO", "schema": schema_of(tenant), "properties": {"p": text("annotation")}}
    yield "POST", f"/admin/v2/schemas/{space}/{text('topic')}/schema", schema


def values(tenant: int, ids: dict[str, str]) -> dict[str, str]:
    """Return values of the variables of paths that name things of a tenant, or of the cluster."""
    of_tenant = {
        name: canary(tenant, what)
        for name, what in {
            **{"tenant": "tenant", "property": "tenant", "namespace": "ns", "topic": "topic"},
            **{"subscription": "subscription", "subName": "subscription", "role": "admin"},
            **{"key": "key", "group": "group", "name": "person"},
        }.items()
    }
    of_cluster = {
        "cluster": CLUSTER,
        "remote": "eu",
        "domain": "persistent",
        "bundle": BUNDLE,
        "version": "0",
    }
    return {**of_cluster, **of_tenant, **ids}


def parameters(tenant: int) -> dict[str, str]:
    """Return values of the parameters of queries and channels that choose things of a tenant."""
    texts = {name: canary(tenant, name) for name in ("tenant", "subscription")}
    names = {"namespace": canary(tenant, "ns"), "actor": canary(tenant, "person")}
    topic = {"topic": topic_of(tenant), "target": topic_of(tenant)}
    return {**texts, **names, **topic, "role": canary(tenant, "admin"), "q": f"canary-t{tenant}"}


@contextmanager
def two_tenants() -> Iterator[TwoTenants]:
    """Yield an instance that is not filled yet."""
    made = TwoTenants()
    yield made
    made.close()
