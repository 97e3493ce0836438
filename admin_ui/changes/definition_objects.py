"""Defined objects in the cluster: read, exported, and made as a file has them, each as it was previewed (J12)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from django.conf import settings

from admin_ui.changes import definition_components as components
from admin_ui.changes.definition_files import Defined, Objects, differences
from admin_ui.confirming import Json
from admin_ui.policies import services as policy_changes
from admin_ui.policies.selectors import OF_NAMESPACES, OF_TOPICS, exact
from engine.admin.api.arguments import OnTopic
from engine.admin.api.schemas import GivenSchema
from engine.admin.api.subscriptions import DURABLE_SUBSCRIPTIONS
from engine.admin.api.topics import ChangeProperties
from engine.auth.actions import Action
from engine.auth.authorization.policy_view import NamespaceAccess
from engine.auth.identity import Identity
from engine.auth.resource_names import WholeCluster
from engine.auth.viewer import Viewer
from engine.base.errors import Conflict, NotFound, Unprocessable, Unsupported
from engine.base.names import PERSISTENT, SYSTEM_PREFIX, NamespaceName, TopicName, split_topic
from engine.metadata.records import Document, Stored
from engine.tenancy import grants, namespaces, tenants
from engine.tenancy.checks import ACTIONS
from engine.tenancy.policies.in_force import of_cluster
from engine.tenancy.policies.policy import Level, Policy, find
from engine.tenancy.policies.table import BY_NAME, REPLICATION
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import Need, authorize_needs
from gateway.services import catalog
from gateway.services.admin import (
    existence,
    partitioned_topics,
    policies,
    schemas,
    subscriptions,
    topics,
)
from gateway.services.engine_link import Engine

OBJECTS_MAX = 10_000
AT_ONCE = 16
CHANGED = "It was changed since the preview; nothing was done"
T = TypeVar("T")
Place = NamespaceName | TopicName


async def live(engine: Engine, defined: Defined) -> Json | None:
    """Return the object as it is, in the form of a file; None without it."""
    try:
        match defined.kind:
            case "tenant":
                info = await tenants.get_tenant(engine.store, defined.name)
                return {
                    "admin_roles": sorted(info.get("adminRoles") or ()),
                    "allowed_clusters": sorted(info.get("allowedClusters") or ()),
                }
            case "namespace":
                return await _live_namespace(engine, NamespaceName.parse(defined.name))
            case "topic":
                return await _live_topic(engine, TopicName.parse(defined.name))
            case "subscription":
                topic = TopicName.parse(defined.name)
                titles = await _subscriptions(engine, topic)
                return await _live_subscription(engine, topic, defined.subscription, titles)
            case _:
                return await components.live_component(engine, defined.name)
    except NotFound:
        return None


async def _live_subscription(
    engine: Engine, topic: TopicName, title: str, titles: dict[str, dict[str, str]]
) -> Json | None:
    """Return a subscription of those of a topic. The flag of replication is not there where partitions differ in it,
    or the cluster does not state it."""
    if title not in titles:
        return None
    try:
        flags = set((await subscriptions.replicated(engine, topic, title)).values())
    except (NotFound, Unsupported):  # a partition may lack the subscription
        flags = set()
    return {"properties": titles[title], **({"replicated": flags.pop()} if len(flags) == 1 else {})}


async def _live_namespace(engine: Engine, name: NamespaceName) -> Json:
    stored = await namespaces.get_policies(engine.store, name)
    bundles = (await namespaces.bundles_beside(engine.store, name, stored)).ranges
    of_here = of_cluster(stored, engine.cluster)
    return {
        "bundles": len(bundles),
        "properties": dict(stored.get("properties") or {}),
        "policies": {
            policy.name: value
            for policy in OF_NAMESPACES
            if (value := find(of_here, policy.key)) is not None and value not in policy.nothing
        },
        **_live_grants(stored, None),
    }


def _live_grants(policies: Stored, topic: TopicName | None) -> Json:
    """Return the grants of a namespace, or of one of its topics, as a member of the object. Damaged ones are unknown,
    and not none."""
    if NamespaceAccess.of(policies).damage:
        return {}
    return {
        "grants": {
            role: sorted(words, key=lambda word: (*ACTIONS, word).index(word))
            for role, words in sorted(grants.granted_in(policies, topic=topic).items())
            if words
        }
    }


async def _live_topic(engine: Engine, name: TopicName) -> Json:
    properties = await topics.properties(engine, name)
    in_force = await policies.of_topic(engine, name)
    of_namespace = await namespaces.get_policies(engine.store, name.namespace)
    return {
        "partitions": await existence.partitions_of(engine, name),
        "properties": dict(properties),
        "policies": {
            policy.name: own
            for policy in OF_TOPICS
            if (own := in_force[policy.name]["own"]) is not None
        },
        **_live_grants(of_namespace, name),
        **await _live_schema(engine, name),
    }


async def _live_schema(engine: Engine, name: TopicName) -> Json:
    try:
        stored = await schemas.latest(engine, name)
    except NotFound:
        return {}
    return {
        "schema": {
            "type": stored["type"],
            "definition": stored["data"],
            "properties": dict(stored["properties"] or {}),
        }
    }


async def _subscriptions(engine: Engine, name: TopicName) -> dict[str, dict[str, str]]:
    """Return the properties of the durable subscriptions by name; of a partitioned topic those of all partitions."""
    by_part = await existence.on_each_member(engine, DURABLE_SUBSCRIPTIONS, OnTopic(name))
    merged: dict[str, dict[str, str]] = {}
    for present in by_part.values():
        for title, properties in present.items():
            merged.setdefault(title, {}).update(properties)
    return merged


async def listed(engine: Engine, viewer: Viewer, tenant: str, namespace: str) -> list[Defined]:
    """Return the tenants, namespaces, topics, functions, sources and sinks that are seen of the cluster, or of one
    tenant or namespace; none of the system. Raises Unprocessable for more than ``OBJECTS_MAX``."""
    names = [tenant] if tenant else await tenants.list_tenants(engine.store)
    names = [name for name in names if viewer.sees_tenant(name)]
    spaces = [namespace] if namespace else []
    if not namespace:
        for name in names:
            try:
                spaces += await namespaces.list_namespaces(engine.store, name)
            except NotFound:
                continue
    spaces = [space for space in spaces if viewer.sees(space)]
    result = [Defined(name) for name in (() if namespace else names)]
    result += [Defined(space) for space in spaces]
    for space in spaces:
        parents, plain = await catalog.topics_in(engine.store, space)
        result += [Defined(name) for name in sorted({*parents, *plain}) if _is_users(name)]
        if len(result) > OBJECTS_MAX:
            raise Unprocessable(
                f"There are more than {OBJECTS_MAX} objects: name a tenant or a namespace"
            )
    deployed = [Defined(name) for name in await components.listed(engine)]
    return result + [defined for defined in deployed if defined.namespace in set(spaces)]


def _is_users(topic: str) -> bool:
    parts = split_topic(topic)
    return parts.domain == PERSISTENT and not parts.topic.startswith(SYSTEM_PREFIX)


async def exported(engine: Engine, wanted: Iterable[Defined]) -> Objects:
    """Return objects as they are, topics with their durable subscriptions; those deleted meanwhile are left out."""
    objects = list(wanted)
    present = await _each(objects, lambda defined: live(engine, defined))
    result = {
        defined: members
        for defined, members in zip(objects, present, strict=True)
        if members is not None
    }

    async def titles(defined: Defined) -> dict[str, dict[str, str]]:
        try:
            return await _subscriptions(engine, TopicName.parse(defined.name))
        except NotFound:
            return {}

    of_topics = [defined for defined in result if defined.kind == "topic"]
    for defined, held in zip(of_topics, await _each(of_topics, titles), strict=True):
        topic = TopicName.parse(defined.name)
        for title in sorted(held):
            members = await _live_subscription(engine, topic, title, held)
            if members is not None:
                result[Defined(defined.name, title)] = members
    if len(result) > OBJECTS_MAX:
        raise Unprocessable(
            f"There are more than {OBJECTS_MAX} objects: name a tenant or a namespace"
        )
    return result


async def differing(
    engine: Engine, objects: Objects
) -> list[tuple[Defined, Json | None, list[Json]]]:
    """Return the objects that are not as wanted, each as it is and with its differences, in the order of creation."""

    async def difference(defined: Defined) -> tuple[Defined, Json | None, list[Json]]:
        state = await live(engine, defined)
        return defined, state, await _fields(engine, defined, objects[defined], state)

    compared = await _each(list(objects), difference)
    return [row for row in compared if row[1] is None or row[2]]


async def _fields(
    engine: Engine, defined: Defined, wanted: Json, present: Json | None
) -> list[Json]:
    if present is not None and defined.is_component:
        return await components.component_fields(engine, defined.name, wanted, present)
    return differences(wanted, present)


async def plan(
    cluster: Cluster, engine: Engine, user: str, defined: Defined, wanted: Json
) -> tuple[Json | None, Json]:
    """Return what ``make_planned`` needs, None where the object is as wanted, and the effect. Raises Refusal."""
    present = await live(engine, defined)
    fields = await _fields(engine, defined, wanted, present)
    content: Json = {"wanted": wanted, "before": present, "policies": {}}
    effect: Json = {"messages": 0, "entries": 0, "exact": True}
    effect["before"] = None if present is None else _values(fields, "before")
    effect["after"] = _values(fields, "after")
    caller = Identity(engine.principal or None)
    await authorize_needs(superusers_needs(engine, defined, fields), caller, cluster)
    if defined.is_component and (fields or present is None):
        content["version"] = await components.plan_component(engine, defined.name, wanted, present)
        return content, effect
    if present is None:
        return content, effect
    if not fields:
        return None, effect
    if any(field["field"] == "schema" for field in fields):
        content["newest_schema"] = await _check_schema(engine, defined, wanted["schema"])
    grown = next((field for field in fields if field["field"] == "partitions"), None)
    if grown is not None and not 0 < grown["before"] < grown["after"]:
        raise Conflict(
            f"A topic with {grown['before']} partitions cannot get {grown['after']}: only more of a partitioned one"
        )
    place = _place(defined)
    for policy, value in _policies(fields):
        assert place is not None, "only namespaces and topics have policies"
        planned, shown = await policy_changes.plan(cluster, engine, place, policy, user, value)
        content["policies"][policy.name] = planned
        lost = shown["effects"]
        if lost is not None and lost["entries"]:
            effect["messages"] = None
            effect["bytes"] = effect.get("bytes", 0) + lost["bytes"]
        if lost is not None:
            unknown = lost["not_counted_total"] or effect["entries"] is None
            effect["entries"] = None if unknown else effect["entries"] + lost["entries"]
    return content, effect


async def _check_schema(engine: Engine, defined: Defined, wanted: Json) -> int:
    """Return the number of the newest version, -1 without one. Raises Refusal for a schema that cannot be the next."""
    verdict = await schemas.verdict(engine, _given_schema(defined, wanted))
    if not verdict.compatible:
        raise Unprocessable(
            f"The schema is not compatible by {verdict.strategy.value}, the strategy of the "
            f"{verdict.strategy.level}: {verdict.reason}"
        )
    if verdict.version is not None:
        raise Unprocessable(
            f"The schema is version {verdict.version} of the topic, which is not the newest: an "
            "earlier version does not become the newest again"
        )
    return verdict.newest


def _given_schema(defined: Defined, wanted: Json) -> GivenSchema:
    name = TopicName.parse(defined.name)
    return GivenSchema(name, wanted["type"], wanted["definition"], wanted["properties"])


def superusers_needs(engine: Engine, defined: Defined, fields: list[Json]) -> list[Need]:
    """Return the needs of policies of a namespace that only a superuser changes; the list of clusters with which every
    namespace begins is none."""
    if defined.kind != "namespace":
        return []
    changed = [
        policy
        for policy, value in _policies(fields)
        if not (policy is REPLICATION and value == [engine.cluster])
    ]
    routes = [policy.route_at(Level.NAMESPACE) for policy in changed]
    is_superusers = any(route is not None and route.by_superuser for route in routes)
    return [(Action.SUPERUSER, WholeCluster())] if is_superusers else []


async def make_planned(cluster: Cluster, engine: Engine, defined: Defined, content: Json) -> Json:
    """Make a planned object. Raises Conflict when it is not as it was previewed."""
    wanted, before = content["wanted"], content["before"]
    if await live(engine, defined) != before:
        raise Conflict(CHANGED)
    needs = superusers_needs(engine, defined, differences(wanted, before))
    await authorize_needs(needs, Identity(engine.principal or None), cluster)
    if defined.is_component:
        version = content["version"]
        await components.make_component(engine, defined.name, wanted, before, version)
        return {}
    if before is None:
        await _create(engine, defined, wanted)
        before = await live(engine, defined) or {}
    fields = differences(wanted, before)
    place = _place(defined)
    for field in fields:
        match field["field"]:
            case "admin_roles" | "allowed_clusters":
                await tenants.update_tenant(engine.store, defined.name, _tenant(wanted))
            case "partitions":
                await partitioned_topics.grow(engine, TopicName.parse(defined.name), field["after"])
            case "properties":
                await _set_properties(engine, defined, field["after"], field["before"] or {})
            case "grants" if place is not None:
                await _set_grants(engine, place, field["before"], field["after"])
            case "replicated":
                topic = TopicName.parse(defined.name)
                await subscriptions.replicate(
                    engine, topic, defined.subscription, replicated=field["after"]
                )
    for policy, value in _policies(fields):
        planned = content["policies"].get(policy.name)
        if planned is not None and place is not None:
            await policy_changes.make_planned(cluster, engine, place, policy, planned)
        elif isinstance(place, TopicName):
            await policies.set_on_topic(engine, place, policy, value, expected=None)
        elif place is not None:
            # The list of clusters of a new namespace has a value already.
            expected = before["policies"].get(policy.name)
            await policies.set_on_namespace(engine, place, policy, value, expected=expected)
    # After the policies, of which one is the strategy that the schema is checked by.
    if any(field["field"] == "schema" for field in fields):
        newest = content.get("newest_schema")
        await schemas.register(engine, _given_schema(defined, wanted["schema"]), newest)
    return {}


async def _create(engine: Engine, defined: Defined, wanted: Json) -> None:
    match defined.kind:
        case "tenant":
            limits = settings.TENANT_LIMITS
            await tenants.create_tenant(engine.store, defined.name, _tenant(wanted), limits=limits)
        case "namespace":
            given = {"bundles": {"numBundles": wanted["bundles"]}} if "bundles" in wanted else {}
            await namespaces.create_namespace(
                engine.store,
                NamespaceName.parse(defined.name),
                given,
                cluster=engine.cluster,
                limits=settings.TENANT_LIMITS,
            )
        case "topic":
            topic, properties = TopicName.parse(defined.name), wanted.get("properties", {})
            if count := wanted.get("partitions", 0):
                await partitioned_topics.create(engine, topic, count, properties)
            else:
                await topics.create(engine, topic, properties)
        case _:
            topic, properties = TopicName.parse(defined.name), wanted.get("properties", {})
            await subscriptions.create(
                engine,
                topic,
                defined.subscription,
                None,
                properties,
                replicated=wanted.get("replicated", False),
            )


async def _set_properties(
    engine: Engine, defined: Defined, after: dict[str, str], before: dict[str, str]
) -> None:
    removed = [key for key in before if key not in after]
    match defined.kind:
        case "namespace":
            changes = {**dict.fromkeys(removed), **after}
            name = NamespaceName.parse(defined.name)
            await namespaces.change_namespace_properties(engine.store, name, changes, before)
        case "topic":
            topic = TopicName.parse(defined.name)
            await topics.change_properties(engine, ChangeProperties(topic, after, removed, before))
        case _:
            topic = TopicName.parse(defined.name)
            await subscriptions.set_properties(engine, topic, defined.subscription, after)


async def _set_grants(engine: Engine, place: Place, before: Json | None, after: Json) -> None:
    """Set the grants of a place, all at once. Raises Conflict where they are not as before."""
    topic = place if isinstance(place, TopicName) else None
    namespace = place.namespace if isinstance(place, TopicName) else place

    def change(stored: Document) -> None:
        grants.require_whole(stored)
        present = _live_grants(stored, topic)["grants"]
        if present != before:
            raise Conflict(CHANGED)
        for role in present.keys() - after.keys():
            grants.put_words(stored, role, [], topic=topic)
        for role, words in after.items():
            grants.put_words(stored, role, words, topic=topic)

    await namespaces.update_policies(engine.store, namespace, change)


def _tenant(wanted: Json) -> Json:
    return {"adminRoles": wanted["admin_roles"], "allowedClusters": wanted["allowed_clusters"]}


def _place(defined: Defined) -> Place | None:
    if defined.kind == "namespace":
        return NamespaceName.parse(defined.name)
    return TopicName.parse(defined.name) if defined.kind == "topic" else None


def _policies(fields: list[Json]) -> list[tuple[Policy, Any]]:
    named = [(field["field"].partition("policies."), field["after"]) for field in fields]
    return [(BY_NAME[parts[2]], value) for parts, value in named if parts[1]]


def _values(fields: list[Json], side: str) -> Json:
    return {field["field"]: exact(field[side]) for field in fields}


async def _each(objects: list[Defined], work: Callable[[Defined], Awaitable[T]]) -> list[T]:
    """Return the results of ``work`` on all objects, some at a time, in their order."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def run(defined: Defined) -> T:
        async with gate:
            return await work(defined)

    return list(await asyncio.gather(*(run(defined) for defined in objects)))
