"""Definitions as a file: the form of tenants, namespaces, topics, subscriptions, functions, sources and sinks, and the
difference to others. Pure.

An object has only the members that a file states; the others stay as they are. A stated member is complete: a policy
that ``policies`` does not have is not set.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import yaml

from admin_ui.changes.definition_components import (
    COMPONENTS,
    checked_config,
    checked_package,
    full_name,
)
from admin_ui.confirming import Json
from admin_ui.policies.selectors import OF_NAMESPACES, OF_TOPICS
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName, TenantName
from engine.base.errors import InvalidField, InvalidNameError, Refusal
from engine.base.names import PERSISTENT, NamespaceName, TopicName, check_subscription, split_topic
from engine.functions.definitions.configs import Kind
from engine.schema.rest_form import given as given_schema
from engine.tenancy.checks import ACTIONS
from engine.tenancy.geo.shadow_topics import source_of
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.table import REPLICATION
from engine.tenancy.tenants import tenant_name
from engine.tenancy.topics import PARTITIONS_MAX
from gateway.http.auth.access import Need

VERSION = 1
TEXT_MAX = 768 << 10
"""Characters of a file; the body of a request is at most 1 MiB."""
DEPTH_MAX = 20
BUNDLES_MAX = 1 << 10
Format = Literal["yaml", "json"]
FORMATS: tuple[Format, ...] = ("yaml", "json")
_POLICIES = {
    "namespace": {policy.name: policy for policy in OF_NAMESPACES},
    "topic": {policy.name: policy for policy in OF_TOPICS},
}
_MEMBERS: dict[str, tuple[str, ...]] = {
    "tenant": ("admin_roles", "allowed_clusters"),
    "namespace": ("bundles", "properties", "policies", "grants"),
    "topic": ("partitions", "properties", "policies", "grants", "schema"),
    "subscription": ("properties", "replicated"),
    **dict.fromkeys(COMPONENTS, ("package", "config")),
}
_SECTIONS = ("tenants", "namespaces", "topics", *(f"{kind}s" for kind in COMPONENTS))
_COMPONENT_ACTIONS = {
    "function": Action.FUNCTIONS,
    "source": Action.SOURCES,
    "sink": Action.SINKS,
}
SCHEMA_MEMBERS = ("type", "definition", "properties")


class Defined(NamedTuple):
    """One object: a tenant, ``tenant/namespace``, a topic by its full name, a subscription of one, or a function,
    source or sink such as ``function://tenant/namespace/name``."""

    name: str
    subscription: str = ""

    @property
    def kind(self) -> str:
        if self.subscription:
            return "subscription"
        prefix, sign, _ = self.name.partition("://")
        if sign:
            return "topic" if prefix == PERSISTENT else prefix
        return "namespace" if "/" in self.name else "tenant"

    @property
    def level(self) -> int:
        """Number in the order of creation."""
        return list(_MEMBERS).index(self.kind)

    def needs(self, wanted: Json) -> Iterator[Need]:
        """Yield the actions that making it as ``wanted`` is, with their resources."""
        if self.kind == "tenant":
            yield Action.SUPERUSER, TenantName(self.name)
        elif self.kind == "namespace":
            yield Action.TENANT_ADMIN, NamespaceName.parse(self.name)
        elif self.is_component:
            yield _COMPONENT_ACTIONS[self.kind], NamespaceName.parse(self.namespace)
        elif self.kind == "topic":
            yield Action.TENANT_ADMIN, TopicName.parse(self.name)
            if "schema" in wanted:
                yield Action.PRODUCE, TopicName.parse(self.name)
            source = source_of(wanted.get("properties", {}))
            if source is not None:
                yield Action.TENANT_ADMIN, source
        else:
            yield Action.CONSUME, SubscriptionName(TopicName.parse(self.name), self.subscription)

    @property
    def is_component(self) -> bool:
        """True for a function, source or sink."""
        return self.kind in COMPONENTS

    @property
    def tenant(self) -> str:
        if self.kind in ("topic", "subscription"):
            return split_topic(self.name).tenant
        return (self.namespace or self.name).partition("/")[0]

    @property
    def namespace(self) -> str:
        if self.is_component:
            return self.name.partition("://")[2].rpartition("/")[0]
        if self.kind in ("topic", "subscription"):
            return str(TopicName.parse(self.name).namespace)
        return self.name if self.kind == "namespace" else ""


Objects = dict[Defined, Json]


def read(text: str) -> Objects:
    """Return the objects of a file in YAML or JSON, in the order of their creation. Raises InvalidField, which names
    the place."""
    if len(text) > TEXT_MAX:
        raise InvalidField("text", f"may have at most {TEXT_MAX} characters")
    document = _parsed(text)
    if not isinstance(document, dict):
        raise InvalidField("text", "must be a mapping with tenants, namespaces and topics")
    if document.get("version") != VERSION:
        raise InvalidField("version", f"must be {VERSION}")
    for section in document:
        if section not in ("version", *_SECTIONS):
            raise InvalidField(str(section), f"must be one of {', '.join(_SECTIONS)}")
    objects: Objects = {}
    for name, given in _mapping(document, "tenants").items():
        _checked_name(tenant_name, name, f"tenants.{name}")
        objects[Defined(name)] = _members("tenant", given, f"tenants.{name}")
    for name, given in _mapping(document, "namespaces").items():
        full = str(_checked_name(NamespaceName.parse, name, f"namespaces.{name}"))
        objects[Defined(full)] = _members("namespace", given, f"namespaces.{name}")
    subscriptions: Objects = {}
    for name, given in _mapping(document, "topics").items():
        topic = _checked_name(TopicName.parse, name, f"topics.{name}")
        if not topic.persistent:
            raise InvalidField(f"topics.{name}", "must be a persistent topic")
        of_topic = given if isinstance(given, dict) else {}
        for title, own in _mapping(of_topic, "subscriptions", f"topics.{name}.").items():
            where = f"topics.{name}.subscriptions.{title}"
            _checked_name(check_subscription, title, where)
            subscriptions[Defined(topic.full, title)] = _members("subscription", own, where)
        members = {key: value for key, value in of_topic.items() if key != "subscriptions"}
        objects[Defined(topic.full)] = _members("topic", members, f"topics.{name}")
    objects |= subscriptions
    for kind in COMPONENTS:
        for name, given in _mapping(document, f"{kind}s").items():
            where = f"{kind}s.{name}"
            full = _checked_name(lambda text, of=kind: full_name(of, text), name, where)
            objects[Defined(full)] = _members(kind, given, where)
    return objects


def write(objects: Mapping[Defined, Json], form: Format) -> str:
    """Return a file with these objects."""
    sections: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for defined, members in objects.items():
        if defined.subscription:
            topic = sections["topics"].setdefault(defined.name, {})
            topic.setdefault("subscriptions", {})[defined.subscription] = dict(members)
        elif defined.is_component:
            name = defined.name.partition("://")[2]
            sections[f"{defined.kind}s"][name] = dict(members)
        else:
            sections[f"{defined.kind}s"][defined.name] = dict(members)
    document = {"version": VERSION, **sections}
    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def differences(wanted: Json, live: Json | None) -> list[Json]:
    """Return what ``wanted`` changes, as ``{"field", "before", "after"}``; an object that does not exist has no values
    before."""
    fields: list[Json] = []
    for member, value in wanted.items():
        present = None if live is None else live.get(member)
        if member == "policies":
            before = present or {}
            # The list of a namespace's clusters cannot be removed.
            kept = {REPLICATION.name} - value.keys()
            fields += [
                {"field": f"policies.{name}", "before": before.get(name), "after": value.get(name)}
                for name in sorted((value.keys() | before.keys()) - kept)
                if value.get(name) != before.get(name)
            ]
        elif member == "bundles":
            if live is None:  # they are split as the namespace grows
                fields.append({"field": member, "before": None, "after": value})
        elif member == "schema" and present is not None and _same_schema(value, present):
            continue
        elif value != present and not (live is None and value in ({}, 0, False)):
            fields.append({"field": member, "before": present, "after": value})
    return fields


def _same_schema(wanted: Json, live: Json) -> bool:
    """Return whether two schemas are equal, whatever the blanks in their definitions."""
    if {**wanted, "definition": ""} != {**live, "definition": ""}:
        return False
    first, second = wanted["definition"], live["definition"]
    try:
        return bool(first == second or json.loads(first) == json.loads(second))
    except (ValueError, RecursionError):
        return False


class _Dumper(yaml.SafeDumper):
    """Writes without aliases, which ``read`` refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Loader(yaml.CSafeLoader):
    """Refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise InvalidField("text", f"the key {key!r} must be a text in quotes")
        if len(set(keys)) < len(keys):
            raise InvalidField("text", f"a key is given twice in line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def _once(pairs: list[tuple[str, Any]]) -> Json:
    if len({key for key, _ in pairs}) < len(pairs):
        raise InvalidField("text", "a key is given twice")
    return dict(pairs)


def _parsed(text: str) -> Any:
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text, object_pairs_hook=_once)
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise InvalidField("text", "must not have aliases")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH_MAX:
                raise InvalidField("text", f"is nested more than {DEPTH_MAX} deep")
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        line = " ".join(str(error).split())[:300]
        raise InvalidField("text", f"is neither YAML nor JSON: {line}") from error


def _mapping(document: Json, section: str, where: str = "") -> Json:
    value = document.get(section)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidField(f"{where}{section}", "must be a mapping by name")
    return value


def _checked_name(check: Any, name: str, where: str) -> Any:
    try:
        return check(name)
    except (InvalidNameError, Refusal) as error:
        raise InvalidField(where, str(error)) from error


def _members(kind: str, given: Any, where: str) -> Json:
    """Return the members of an object in their stored form. Raises InvalidField."""
    if given is not None and not isinstance(given, dict):
        raise InvalidField(where, f"must be a mapping with {', '.join(_MEMBERS[kind])}")
    members: Json = {}
    for member, value in (given or {}).items():
        place = f"{where}.{member}"
        if member not in _MEMBERS[kind]:
            raise InvalidField(place, f"must be one of {', '.join(_MEMBERS[kind])}")
        match member:
            case "policies":
                members[member] = _policies(kind, value, place)
            case "properties":
                members[member] = _texts_by_name(value, place)
            case "grants":
                members[member] = _grants(value, place)
            case "schema":
                members[member] = _schema(value, place)
            case "replicated":
                if not isinstance(value, bool):
                    raise InvalidField(place, "must be true or false")
                members[member] = value
            case "package":
                members[member] = checked_package(value, place)
            case "config":
                package = (given or {}).get("package")
                text = package if isinstance(package, str) else ""
                of: Kind = kind  # type: ignore[assignment]
                members[member] = checked_config(of, value, text, place)
            case "partitions":
                members[member] = _number(value, 0, PARTITIONS_MAX, place)
            case "bundles":
                members[member] = _number(value, 1, BUNDLES_MAX, place)
            case _:
                members[member] = _texts(value, place)
    if kind == "tenant":
        members = {"admin_roles": [], **members}
        if not members.get("allowed_clusters"):
            raise InvalidField(f"{where}.allowed_clusters", "must name at least one cluster")
    return members


def _schema(value: Any, where: str) -> Json:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidField(where, "must be a mapping with a type, and definition and properties")
    for member in value:
        if member not in SCHEMA_MEMBERS:
            raise InvalidField(f"{where}.{member}", f"must be one of {', '.join(SCHEMA_MEMBERS)}")
    definition = value.get("definition", "")
    if not isinstance(definition, str):
        raise InvalidField(f"{where}.definition", "must be a text")
    schema = {
        "type": value["type"],
        "definition": definition,
        "properties": _texts_by_name(value.get("properties", {}), f"{where}.properties"),
    }
    try:
        given_schema(schema["type"], definition, schema["properties"])
    except Refusal as error:
        raise InvalidField(where, error.reason) from error
    return schema


def _policies(kind: str, given: Any, where: str) -> Json:
    if not isinstance(given, dict):
        raise InvalidField(where, "must be a mapping by name")
    policies: Json = {}
    for name, value in given.items():
        policy: Policy | None = _POLICIES[kind].get(name)
        if policy is None:
            names = ", ".join(_POLICIES[kind])
            raise InvalidField(f"{where}.{name}", f"must be one of {names}")
        try:
            policies[name] = policy.read(value)
        except Refusal as error:
            raise InvalidField(f"{where}.{name}", error.reason) from error
    return policies


def _grants(given: Any, where: str) -> dict[str, list[str]]:
    """Return the actions by role, each once and in their order."""
    if not isinstance(given, dict):
        raise InvalidField(where, "must be a mapping of actions by role")
    granted: dict[str, list[str]] = {}
    for role, actions in given.items():
        if not role or role != role.strip():
            raise InvalidField(f"{where}.{role}", "a role must not begin or end with a blank")
        words = _texts(actions, f"{where}.{role}")
        for word in words:
            if word not in ACTIONS:
                raise InvalidField(f"{where}.{role}", f"{word} is none of {', '.join(ACTIONS)}")
        if not words:
            raise InvalidField(f"{where}.{role}", "must name an action: leave out a role without")
        granted[role] = [word for word in ACTIONS if word in words]
    return granted


def _texts_by_name(given: Any, where: str) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise InvalidField(where, "must be texts by name, in quotes where they look like numbers")
    return given


def _texts(given: Any, where: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise InvalidField(where, "must be a list of texts")
    return sorted(set(given))


def _number(given: Any, low: int, high: int, where: str) -> int:
    if type(given) is not int or not low <= given <= high:
        raise InvalidField(where, f"must be a whole number from {low} to {high}")
    return given
