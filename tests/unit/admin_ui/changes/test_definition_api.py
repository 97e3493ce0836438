"""Definitions through the console's API on a real broker: an export applied changes nothing, on an empty cluster it
gives the same export, and what is applied is exactly the difference that was shown."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from admin_ui.changes import definition_objects
from admin_ui.changes.definition_api import DefinitionsView, DiffView
from admin_ui.models import AuditEntry
from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.auth.viewer import Viewer
from engine.base.names import NamespaceName, TopicName
from engine.tenancy import grants
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.policies.table import BY_NAME
from engine.tenancy.tenants import create_tenant
from gateway.services.admin import partitioned_topics, policies, subscriptions, topics
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Answer
from tests.unit.admin_ui.changes.test_change_kinds import Changes, counted
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

NAMESPACE = NamespaceName.of("acme", "billing")
PLAIN, MANY = NAMESPACE.topic("plain"), NAMESPACE.topic("many")
DEFINITIONS = "/api/v1/clusters/standalone/definitions"
RETENTION = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 10}


async def filled(engine: Engine) -> None:
    info = {"adminRoles": ["ops"], "allowedClusters": ["standalone"]}
    await create_tenant(engine.store, "acme", info)
    given = {"bundles": {"numBundles": 2}, "properties": {"owner": "billing"}}
    await create_namespace(engine.store, NAMESPACE, given, cluster=engine.cluster)
    retention = BY_NAME["retention"]
    await policies.set_on_namespace(engine, NAMESPACE, retention, retention.read(RETENTION))
    await topics.create(engine, PLAIN, {"team": "a"})
    await partitioned_topics.create(engine, MANY, 2, {})
    ttl = BY_NAME["messageTTL"]
    await policies.set_on_topic(engine, PLAIN, ttl, ttl.read(3600))
    await grants.grant(engine.store, NAMESPACE, "reader", ["consume"])
    await grants.grant(engine.store, NAMESPACE, "writer", ["produce"], topic=PLAIN)
    for name in (PLAIN, MANY.partition_at(0), MANY.partition_at(1)):
        args = CreateSubscription(name, "s/1", EARLIEST_MESSAGE, {"k": "v"})
        await engine.call(CREATE_SUBSCRIPTION, args)


@pytest.fixture
def link(request: pytest.FixtureRequest) -> Iterator[BenchLink]:
    with bench_link(*getattr(request, "param", (filled,))) as made:
        yield made


@pytest.fixture
def changes(
    link: BenchLink, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Changes]:
    made = Changes(link, monkeypatch)
    yield made
    made.call.close()


def export(changes: Changes, query: str = "") -> str:
    answer = changes.call("GET", f"{DEFINITIONS}?format=json{query}")
    assert answer.status == 200, answer.body
    return answer.body.decode()


def diff(changes: Changes, text: str) -> dict[str, Any]:
    answer = changes.call("POST", f"{DEFINITIONS}/diff", {"text": text})
    assert answer.status == 200, answer.json
    shown: dict[str, Any] = answer.json
    return shown


def apply(changes: Changes, text: str, digest: str) -> Answer:
    answer = changes.call("POST", f"{DEFINITIONS}/apply", {"text": text, "digest": digest})
    changes.work()
    return answer


def applied(changes: Changes, text: str) -> dict[str, Any]:
    """Apply a file, and confirm the set that was previewed."""
    made = apply(changes, text, diff(changes, text)["digest"])
    assert made.status == 201, made.json
    return changes.confirm(changes.get(made.json["id"]))


def test_an_export_has_everything_and_applied_changes_nothing(changes: Changes) -> None:
    text = export(changes)
    document = json.loads(text)
    assert document["tenants"]["acme"] == {
        "admin_roles": ["ops"],
        "allowed_clusters": ["standalone"],
    }
    namespace = document["namespaces"][str(NAMESPACE)]
    assert namespace["properties"] == {"owner": "billing"}
    assert namespace["policies"]["retention"] == RETENTION
    assert namespace["grants"] == {"reader": ["consume"]}
    assert document["topics"][str(PLAIN)]["policies"] == {"messageTTL": 3600}
    assert document["topics"][str(PLAIN)]["grants"] == {"writer": ["produce"]}
    assert document["topics"][str(MANY)] == {
        **{"partitions": 2, "properties": {}, "policies": {}, "grants": {}},
        "subscriptions": {"s/1": {"properties": {"k": "v"}, "replicated": False}},
    }
    shown = diff(changes, text)
    assert (shown["differing"], shown["digest"], shown["not_in_file_total"]) == ([], "", 0)
    refused = apply(changes, text, "")
    assert refused.status in (400, 422)
    assert export(changes) == text
    yaml = changes.call("GET", DEFINITIONS).body.decode()
    assert diff(changes, yaml)["differing"] == []


def test_a_round_trip_onto_an_empty_cluster_gives_the_same_export(changes: Changes) -> None:
    text = export(changes, "&tenant=acme")
    with bench_link() as empty:
        other = Changes.__new__(Changes)
        other.__dict__.update(changes.__dict__)
        other.link, other.call = empty, type(changes.call)(empty.cluster)
        try:
            done = applied(other, text)
            assert counted(done) == {"done": 6}, other.items(done["id"])
            assert json.loads(export(other, "&tenant=acme")) == json.loads(text)
            assert diff(other, text)["differing"] == []
        finally:
            other.call.close()


def test_exactly_the_difference_that_was_shown_is_made_and_audited(changes: Changes) -> None:
    document = json.loads(export(changes, "&namespace=acme/billing"))
    del document["topics"][str(PLAIN)]
    document["topics"][str(MANY)]["partitions"] = 3
    document["topics"][str(MANY)]["properties"] = {"team": "b"}
    set_policies = document["namespaces"][str(NAMESPACE)]["policies"]
    del set_policies["retention"]
    set_policies["messageTTL"] = 60
    text = json.dumps(document)
    shown = diff(changes, text)
    assert shown["not_in_file"] == [str(PLAIN)]
    fields = {
        row["name"]: {field["field"]: field["after"] for field in row["fields_changed"]}
        for row in shown["differing"]
    }
    assert fields == {
        str(NAMESPACE): {"policies.messageTTL": 60, "policies.retention": None},
        str(MANY): {"partitions": 3, "properties": {"team": "b"}},
    }
    changes.link.run(lambda engine: topics.set_properties(engine, MANY, {"x": "y"}))
    stale = apply(changes, text, shown["digest"])
    assert stale.status == 409
    done = applied(changes, text)
    assert counted(done) == {"done": 2}, changes.items(done["id"])
    assert diff(changes, text)["differing"] == []
    entries = AuditEntry.objects.filter(operation="applyDefinitions", request_id=done["id"])
    assert sorted((entry.namespace, entry.topic) for entry in entries) == [
        (str(NAMESPACE), ""),
        (str(NAMESPACE), str(MANY)),
    ]
    assert str(PLAIN) in export(changes)  # what the file does not have stays


def test_grants_become_those_of_the_file_and_others_stay(changes: Changes) -> None:
    document = json.loads(export(changes))
    namespace = document["namespaces"][str(NAMESPACE)]
    namespace["grants"] = {"writer": ["consume", "produce"]}
    document["topics"][str(PLAIN)].pop("grants")
    shown = diff(changes, json.dumps(document))
    (differing,) = shown["differing"]
    assert [field["field"] for field in differing["fields_changed"]] == ["grants"]
    assert counted(applied(changes, json.dumps(document))) == {"done": 1}
    after = json.loads(export(changes))
    assert after["namespaces"][str(NAMESPACE)]["grants"] == {"writer": ["produce", "consume"]}
    assert after["topics"][str(PLAIN)]["grants"] == {"writer": ["produce"]}


def test_a_grant_that_changed_after_the_preview_is_not_undone(
    changes: Changes, link: BenchLink
) -> None:
    document = json.loads(export(changes))
    document["namespaces"][str(NAMESPACE)]["grants"] = {}
    text = json.dumps(document)
    made = apply(changes, text, diff(changes, text)["digest"])
    link.run(lambda engine: grants.grant(engine.store, NAMESPACE, "other", ["produce"]))
    done = changes.confirm(changes.get(made.json["id"]))
    assert "done" not in counted(done)
    after = json.loads(export(changes))
    granted = after["namespaces"][str(NAMESPACE)]["grants"]
    assert granted == {"other": ["produce"], "reader": ["consume"]}


def test_an_object_changed_after_the_preview_is_not_changed(changes: Changes) -> None:
    document = json.loads(export(changes, "&namespace=acme/billing"))
    document["topics"][str(PLAIN)]["properties"] = {"team": "z"}
    text = json.dumps(document)
    made = apply(changes, text, diff(changes, text)["digest"])
    planned = changes.get(made.json["id"])
    changes.link.run(lambda engine: topics.set_properties(engine, PLAIN, {"late": "1"}))
    done = changes.confirm(planned)
    assert counted(done) == {"failed": 1}
    (item,) = changes.items(done["id"])
    assert "changed since the preview" in item["reason"]
    assert changes.post(done, "retry").status == 200
    changes.work()
    again = changes.confirm(changes.get(done["id"]))
    assert counted(again) == {"done": 1}


def test_partitions_are_never_reduced(changes: Changes) -> None:
    document = json.loads(export(changes, "&namespace=acme/billing"))
    document["topics"][str(MANY)]["partitions"] = 1
    document["topics"][str(PLAIN)]["partitions"] = 2
    text = json.dumps(document)
    made = apply(changes, text, diff(changes, text)["digest"])
    items = changes.items(made.json["id"])
    assert [item["state"] for item in items] == ["refused", "refused"]
    assert "cannot get" in items[0]["reason"]


def test_a_wrong_file_is_refused_with_its_place(changes: Changes) -> None:
    text = json.dumps({"version": 1, "namespaces": {"acme/billing": {"bundles": 0}}})
    answer = changes.call("POST", f"{DEFINITIONS}/diff", {"text": text})
    assert answer.status == 400
    assert answer.json["field"] == "namespaces.acme/billing.bundles"
    answer = changes.call("GET", f"{DEFINITIONS}?namespace=acme/none")
    assert answer.status in (200, 404)
    assert str(TopicName.parse(str(PLAIN))) not in answer.body.decode()


ID = {"name": "id", "type": "int"}
BARE = {"name": "note", "type": "string"}


def avro(*fields: dict[str, Any]) -> dict[str, Any]:
    record = {"type": "record", "name": "R", "fields": list(fields)}
    return {"type": "AVRO", "definition": json.dumps(record), "properties": {}}


def with_schema(changes: Changes, schema: dict[str, Any]) -> str:
    document = json.loads(export(changes, "&namespace=acme/billing"))
    document["topics"][str(PLAIN)]["schema"] = schema
    return json.dumps(document)


def test_a_schema_is_registered_and_is_then_no_difference(changes: Changes) -> None:
    assert "schema" not in json.loads(export(changes))["topics"][str(PLAIN)]
    text = with_schema(changes, avro(ID))
    (row,) = diff(changes, text)["differing"]
    assert [field["field"] for field in row["fields_changed"]] == ["schema"]
    done = applied(changes, text)
    assert counted(done) == {"done": 1}, changes.items(done["id"])
    exported = json.loads(export(changes))["topics"][str(PLAIN)]["schema"]
    assert (exported["type"], json.loads(exported["definition"])) == (
        "AVRO",
        json.loads(avro(ID)["definition"]),
    )
    assert diff(changes, text)["differing"] == []
    blanks = avro(ID) | {"definition": json.dumps(json.loads(avro(ID)["definition"]), indent=8)}
    assert diff(changes, with_schema(changes, blanks))["differing"] == []


def test_a_schema_that_is_not_compatible_or_not_the_newest_is_refused_in_the_preview(
    changes: Changes,
) -> None:
    assert counted(applied(changes, with_schema(changes, avro(ID)))) == {"done": 1}

    def refused(schema: dict[str, Any]) -> str:
        text = with_schema(changes, schema)
        made = apply(changes, text, diff(changes, text)["digest"])
        (item,) = changes.items(made.json["id"])
        assert item["state"] == "refused"
        reason: str = item["reason"]
        return reason

    assert "not compatible by FULL" in refused(avro(ID, BARE))
    optional = {"name": "note", "type": "string", "default": ""}
    assert counted(applied(changes, with_schema(changes, avro(ID, optional)))) == {"done": 1}
    assert "version 0 of the topic" in refused(avro(ID))


def test_a_wrong_schema_names_its_place(changes: Changes) -> None:
    for schema, member in [
        ({"type": "AVRO", "definition": "{"}, "schema"),
        ({"type": "NOPE"}, "schema"),
        ({"definition": "{}"}, "schema"),
        ({"type": "JSON", "text": ""}, "schema.text"),
    ]:
        text = with_schema(changes, schema)
        answer = changes.call("POST", f"{DEFINITIONS}/diff", {"text": text})
        assert (answer.status, answer.json["field"]) == (400, f"topics.{PLAIN}.{member}")


def test_the_flag_of_replication_is_set_on_every_partition(changes: Changes) -> None:
    document = json.loads(export(changes, "&namespace=acme/billing"))
    document["topics"][str(MANY)]["subscriptions"]["s/1"]["replicated"] = True
    document["topics"][str(MANY)]["subscriptions"]["new"] = {"replicated": True}
    text = json.dumps(document)
    done = applied(changes, text)
    assert counted(done) == {"done": 2}, changes.items(done["id"])
    flags = changes.link.run(lambda engine: subscriptions.replicated(engine, MANY, "s/1"))
    assert list(flags.values()) == [True, True]
    assert diff(changes, text)["differing"] == []
    assert json.loads(export(changes))["topics"][str(MANY)]["subscriptions"]["new"] == {
        "properties": {},
        "replicated": True,
    }


def test_a_flag_that_differs_between_partitions_is_left_out_and_can_be_set(
    changes: Changes,
) -> None:
    first = MANY.partition_at(0)
    changes.link.run(lambda engine: subscriptions.replicate(engine, first, "s/1", replicated=True))
    document = json.loads(export(changes, "&namespace=acme/billing"))
    assert "replicated" not in document["topics"][str(MANY)]["subscriptions"]["s/1"]
    assert diff(changes, json.dumps(document))["differing"] == []
    document["topics"][str(MANY)]["subscriptions"]["s/1"]["replicated"] = False
    assert counted(applied(changes, json.dumps(document))) == {"done": 1}
    flags = changes.link.run(lambda engine: subscriptions.replicated(engine, MANY, "s/1"))
    assert list(flags.values()) == [False, False]


async def rivals(engine: Engine) -> None:
    await create_tenant(engine.store, "rival", {"allowedClusters": ["standalone"]})
    secret = NamespaceName.of("rival", "secret")
    await create_namespace(engine.store, secret, {}, cluster=engine.cluster)
    await topics.create(engine, secret.topic("plan"), {})
    other = NamespaceName.of("acme", "other")
    await create_namespace(engine.store, other, {}, cluster=engine.cluster)


@pytest.mark.parametrize(
    ("viewer", "tenants", "namespaces"),
    [
        (Viewer(tenants=frozenset({"acme"})), {"acme"}, {"acme/billing", "acme/other"}),
        (Viewer(namespaces=frozenset({"acme/billing"})), {"acme"}, {"acme/billing"}),
        (Viewer(), set(), set()),
    ],
)
def test_an_export_neither_counts_nor_names_what_its_caller_does_not_see(
    changes: Changes,
    monkeypatch: pytest.MonkeyPatch,
    viewer: Viewer,
    tenants: set[str],
    namespaces: set[str],
) -> None:
    changes.link.run(rivals)
    seen = property(lambda _: viewer, lambda *_: None)
    monkeypatch.setattr(DefinitionsView, "viewer", seen, raising=False)
    answer = changes.call("GET", f"{DEFINITIONS}?format=json")
    document = json.loads(answer.body)
    assert set(document.get("tenants", {})) == tenants
    assert set(document.get("namespaces", {})) == namespaces
    # Nothing was left out of what is seen, so that the number says nothing of others.
    assert answer.headers["x-definitions-left-out"] == "0"
    for query in ("tenant=rival", "tenant=absent", "namespace=rival/secret", "namespace=rival/no"):
        refused = changes.call("GET", f"{DEFINITIONS}?format=json&{query}")
        assert refused.status == 403, query
        name = query.partition("=")[2]
        assert refused.json["reason"].replace(name, "X") == "X is not one that this role sees"


def test_objects_that_take_too_long_are_not_to_be_tried_again_alike(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = export(changes)
    for view in (DefinitionsView, DiffView):
        monkeypatch.setattr(view, "work_timeout_s", 0.05)

    async def hang(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(definition_objects, "exported", hang)
    monkeypatch.setattr(definition_objects, "differing", hang)
    for answer in (
        changes.call("GET", DEFINITIONS),
        changes.call("POST", f"{DEFINITIONS}/diff", {"text": text}),
    ):
        assert answer.status == 422
        assert "name a tenant or a namespace" in answer.json["reason"]
