"""Definitions as a file: the form of tenants, namespaces, topics and subscriptions, and the difference to others. Pure.

An object has only the members that a file states; the others stay as they are. A stated member is complete: a policy
that ``policies`` does not have is not set.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import yaml

from admin_ui.confirming import Json
from admin_ui.policies.selectors import OF_NAMESPACES, OF_TOPICS
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName, TenantName
from engine.base.errors import InvalidField, InvalidNameError, Refusal
from engine.base.names import PERSISTENT, NamespaceName, TopicName, check_subscription, split_topic
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
_MEMBERS = {
    "tenant": ("admin_roles", "allowed_clusters"),
    "namespace": ("bundles", "properties", "policies", "grants"),
    "topic": ("partitions", "properties", "policies", "grants"),
    "subscription": ("properties",),
}
_SECTIONS = ("tenants", "namespaces", "topics")


class Defined(NamedTuple):
    """One object: a tenant, ``tenant/namespace``, a topic by its full name, or a subscription of one."""

    name: str
    subscription: str = ""

    @property
    def kind(self) -> str:
        if self.subscription:
            return "subscription"
        if self.name.startswith(f"{PERSISTENT}:"):
            return "topic"
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
        elif self.kind == "topic":
            yield Action.TENANT_ADMIN, TopicName.parse(self.name)
            source = source_of(wanted.get("properties", {}))
            if source is not None:
                yield Action.TENANT_ADMIN, source
        else:
            yield Action.CONSUME, SubscriptionName(TopicName.parse(self.name), self.subscription)

    @property
    def tenant(self) -> str:
        if self.kind in ("topic", "subscription"):
            return split_topic(self.name).tenant
        return self.name.partition("/")[0]

    @property
    def namespace(self) -> str:
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
    return objects | subscriptions


def write(objects: Mapping[Defined, Json], form: Format) -> str:
    """Return a file with these objects."""
    sections: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for defined, members in objects.items():
        if defined.subscription:
            topic = sections["topics"].setdefault(defined.name, {})
            topic.setdefault("subscriptions", {})[defined.subscription] = dict(members)
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
        elif value != present and not (live is None and value in ({}, 0)):
            fields.append({"field": member, "before": present, "after": value})
    return fields


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
