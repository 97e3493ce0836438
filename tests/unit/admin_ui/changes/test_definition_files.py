"""Files of definitions: what is written is read again, wrong places are named, stated members are compared."""

from typing import Any

import pytest

from admin_ui.changes.definition_files import TEXT_MAX, Defined, Format, differences, read, write
from engine.auth.actions import Action
from engine.base.errors import InvalidField

TOPIC = "persistent://acme/billing/orders"
FILE = f"""
version: 1
tenants:
  acme: {{admin_roles: [ops, dev], allowed_clusters: [standalone]}}
namespaces:
  acme/billing:
    properties: {{owner: "1", "on": "yes"}}
    policies: {{retention: {{retentionTimeInMinutes: 5, retentionSizeInMB: 10}}}}
topics:
  {TOPIC}:
    partitions: 3
    subscriptions:
      s/1: {{properties: {{"magnetar.backlog-age-target-seconds": "300"}}}}
      plain:
"""


def test_objects_are_read_in_the_order_of_their_creation() -> None:
    objects = read(FILE)
    assert [defined.kind for defined in objects] == [
        *("tenant", "namespace", "topic"),
        *("subscription", "subscription"),
    ]
    assert objects[Defined("acme")] == {
        "admin_roles": ["dev", "ops"],
        "allowed_clusters": ["standalone"],
    }
    assert objects[Defined(TOPIC)] == {"partitions": 3}
    assert objects[Defined(TOPIC, "plain")] == {}


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_written_file_is_read_again(form: Format) -> None:
    objects = read(FILE)
    assert read(write(objects, form)) == objects


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("version: 2", "version", "must be 1"),
        ("version: 1\nclusters: {}", "clusters", "must be one of"),
        ("version: 1\ntenants: {a: {}}", "tenants.a.allowed_clusters", "at least one"),
        ("version: 1\ntenants: {'a b': {}}", "tenants.a b", ""),
        ("version: 1\nnamespaces: {a/b: {bundle: 4}}", "namespaces.a/b.bundle", "must be one of"),
        ("version: 1\nnamespaces: {a/b: {bundles: true}}", "namespaces.a/b.bundles", "whole"),
        ("version: 1\nnamespaces: {a/b: {properties: {k: 1}}}", "namespaces.a/b.properties", ""),
        (
            "version: 1\nnamespaces: {a/b: {policies: {nothing: 1}}}",
            "namespaces.a/b.policies.nothing",
            "must be one of",
        ),
        (
            "version: 1\nnamespaces: {a/b: {policies: {retention: 7}}}",
            "namespaces.a/b.policies.retention",
            "",
        ),
        (
            "version: 1\nnamespaces: {a/b: {grants: {r: [delete]}}}",
            "namespaces.a/b.grants.r",
            "delete is none of produce, consume",
        ),
        (
            "version: 1\nnamespaces: {a/b: {grants: {r: []}}}",
            "namespaces.a/b.grants.r",
            "must name an action",
        ),
        ("version: 1\ntopics: {'non-persistent://a/b/t': {}}", None, "persistent topic"),
        (f"version: 1\ntopics: {{'{TOPIC}': {{partitions: -1}}}}", None, "from 0 to"),
        ("version: 1\ntenants: [a]", "tenants", "mapping by name"),
        ("version: 1\nversion: 1", "text", "given twice"),
        ('{"version": 1, "version": 1}', "text", "given twice"),
        ("version: 1\ntenants: &a {x: *a}", "text", "aliases"),
        ("version: 1\ntenants: " + "[" * 30 + "]" * 30, "text", "deep"),
        ("version: [", "text", "neither YAML nor JSON"),
        ("!!python/object/apply:os.system [ls]", "text", "neither YAML nor JSON"),
        ("x" * (TEXT_MAX + 1), "text", "at most"),
        ("- a", "text", "must be a mapping"),
    ],
)
def test_a_wrong_file_names_the_place(text: str, field: str | None, reason: str) -> None:
    with pytest.raises(InvalidField) as raised:
        read(text)
    assert field is None or raised.value.field == field
    assert reason in str(raised.value)


def test_only_stated_members_differ_and_a_stated_one_is_complete() -> None:
    live: dict[str, Any] = {"partitions": 2, "properties": {"a": "1"}, "policies": {"x": 1, "y": 2}}
    assert differences({}, live) == []
    assert differences({"partitions": 2, "properties": {"a": "1"}}, live) == []
    assert differences({"policies": {"x": 1, "z": 3}}, live) == [
        {"field": "policies.y", "before": 2, "after": None},
        {"field": "policies.z", "before": None, "after": 3},
    ]
    assert differences({"properties": {}}, live) == [
        {"field": "properties", "before": {"a": "1"}, "after": {}}
    ]


def test_the_clusters_of_a_namespace_stay_unless_they_are_stated() -> None:
    live = {"policies": {"replication": ["a"]}}
    assert differences({"policies": {}}, live) == []
    changed = differences({"policies": {"replication": ["a", "b"]}}, live)
    assert [field["after"] for field in changed] == [["a", "b"]]


def test_bundles_count_at_creation_alone() -> None:
    assert differences({"bundles": 4}, {"bundles": 16}) == []
    assert differences({"bundles": 4}, None) == [{"field": "bundles", "before": None, "after": 4}]


@pytest.mark.parametrize(
    ("name", "wanted", "needed"),
    [
        ("acme", {}, [(Action.SUPERUSER, "acme")]),
        ("persistent://acme/n/t", {}, [(Action.TENANT_ADMIN, "persistent://acme/n/t")]),
        (
            "persistent://acme/n/t",
            {"schema": {}},
            [
                (Action.TENANT_ADMIN, "persistent://acme/n/t"),
                (Action.PRODUCE, "persistent://acme/n/t"),
            ],
        ),
        ("function://acme/n/f", {}, [(Action.FUNCTIONS, "acme/n")]),
        ("source://acme/n/f", {}, [(Action.SOURCES, "acme/n")]),
        ("sink://acme/n/f", {}, [(Action.SINKS, "acme/n")]),
    ],
)
def test_each_part_has_the_rights_of_the_change_that_it_stands_for(
    name: str, wanted: dict[str, Any], needed: list[tuple[Action, str]]
) -> None:
    needs = [(action, str(resource)) for action, resource in Defined(name).needs(wanted)]
    assert [(action, text.removeprefix("tenant ")) for action, text in needs] == needed


def test_a_function_is_of_its_namespace_and_tenant() -> None:
    defined = Defined("sink://acme/n/rows")
    assert (defined.kind, defined.tenant, defined.namespace) == ("sink", "acme", "acme/n")
    assert defined.level > Defined("persistent://acme/n/t", "s").level
