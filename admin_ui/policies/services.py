"""A policy set or removed: the preview of the effects, and exactly the previewed change saved or refused."""

from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.policies import effects, flows, selectors
from admin_ui.policies.effects import Effects, OwnValues, Seen
from admin_ui.policies.selectors import PolicyValues, exact
from engine.base.errors import Conflict, NotReady, Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.namespaces import check_clusters
from engine.tenancy.policies.policy import Level, Policy, completed
from engine.tenancy.policies.table import REPLICATION, SIZE_QUOTA
from gateway.clusters.cluster import Cluster
from gateway.services.admin import policies
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "policy-change"
LISTED_MAX = 10
UNSAVED = "; nothing was saved"
Place = NamespaceName | TopicName


async def preview(
    cluster: Cluster, engine: Engine, place: Place, policy: Policy, user: str, value: Any
) -> Json:
    """Return what saving ``value`` would do (None: removing the own value), with the token that confirms exactly that.
    Raises Refusal."""
    content, shown = await plan(cluster, engine, place, policy, user, value)
    return {"token": confirming.sign(engine.served, KIND, content), **shown}


async def plan(
    cluster: Cluster, engine: Engine, place: Place, policy: Policy, user: str, value: Any
) -> tuple[Json, Json]:
    """Return what ``make_planned`` needs to make exactly this change, and what it would do. Raises Refusal."""
    new_value = None if value is None else policy.read(value)
    if policy is REPLICATION and value is None and isinstance(place, NamespaceName):
        raise Unsupported(
            f"The list of a namespace's clusters cannot be removed: set it to {engine.cluster} alone"
        )
    if policy is REPLICATION and new_value is not None:
        space = place.namespace if isinstance(place, TopicName) else place
        await check_clusters(
            *(engine.store, space, policy, new_value), cluster=engine.cluster, level=_level(place)
        )
    values, unknown = await _values(engine, place, policy)
    at = now_ms()
    own, effects_now = await _effects(engine, place, policy, _after(values, new_value), unknown)
    flowing = await _flows(cluster, engine, place, policy, values, new_value, own)
    content = _about(place, policy, user) | {
        "value": new_value,
        "own": values.own,
        "inherited": values.inherited,
        "at": at,
        "seen": None if effects_now is None else effects_now.seen,
        "counted": [] if effects_now is None else effects_now.counted,
        "flows": flowing,
    }
    return content, {
        "at": at,
        "row": selectors.row(policy, _level(place), values),
        "effects": None if effects_now is None else effects_now.as_json(),
        "flows": flowing,
        "overriding": [
            {"name": name, "value": exact(own_value)}
            for name, own_value in list(own.values.items())[:LISTED_MAX]
        ],
        "overriding_total": None if own.unknown else len(own.values),
        "unknown": own.unknown,
    }


async def apply(
    cluster: Cluster, engine: Engine, place: Place, policy: Policy, user: str, token: str
) -> Json:
    """Save what was previewed. Raises Conflict when the values have changed or more would be lost, NotReady when that
    is not known; nothing is changed then."""
    content = confirming.read(engine.served, KIND, token, _about(place, policy, user))
    return await make_planned(cluster, engine, place, policy, content)


async def make_planned(
    cluster: Cluster, engine: Engine, place: Place, policy: Policy, content: Json
) -> Json:
    """Save a planned change. Raises as ``apply``."""
    values, unknown = await _values(engine, place, policy)
    if unknown and content["inherited"] is not None:
        raise NotReady(f"{unknown.rstrip('.')}{UNSAVED}")
    if values.own != content["own"] or values.inherited != content["inherited"]:
        raise Conflict(f"{policy.name} was changed meanwhile; look at it again")
    value = content["value"]
    own, effects_now = await _effects(
        engine, place, policy, _after(values, value), unknown, content["at"]
    )
    if effects_now is not None:
        _check(effects_now, policy, content["seen"], content["counted"])
    flowing = await _flows(cluster, engine, place, policy, values, value, own)
    if flowing is not None and content["flows"] is not None:
        flows.check(flowing, content["flows"])
    if isinstance(place, TopicName):
        await policies.set_on_topic(engine, place, policy, value, expected=content["own"])
    else:
        await policies.set_on_namespace(engine, place, policy, value, expected=content["own"])
    after, _ = await _values(engine, place, policy)
    return {
        "at": now_ms(),
        "row": selectors.row(policy, _level(place), after),
        "effects": None if effects_now is None else effects_now.as_json(),
        "flows": flowing,
    }


async def _flows(
    cluster: Cluster,
    engine: Engine,
    place: Place,
    policy: Policy,
    values: PolicyValues,
    value: Any,
    own: OwnValues,
) -> Json | None:
    """Return what a changed list of replication clusters starts and ends; None for another policy."""
    if policy is not REPLICATION:
        return None
    after = _after(values, value) or []
    return await flows.flows_of(cluster, engine, place, own.values, values.value or [], after)


def _level(place: Place) -> Level:
    return Level.TOPIC if isinstance(place, TopicName) else Level.NAMESPACE


async def _values(engine: Engine, place: Place, policy: Policy) -> tuple[PolicyValues, str]:
    if isinstance(place, TopicName):
        return (await selectors.on_topic(engine, place))[policy.name], ""
    values, unknown = await selectors.on_namespace(engine, place)
    return values[policy.name], unknown


def _after(values: PolicyValues, value: Any) -> Any:
    """Return the value that is in force after the change."""
    return values.inherited if value is None else completed(values.inherited, value)


async def _effects(
    engine: Engine,
    place: Place,
    policy: Policy,
    after: Any,
    unknown: str,
    at_ms: int | None = None,
) -> tuple[OwnValues, Effects | None]:
    """Return the topics with own values, and the effects; None for a policy that deletes nothing. ``unknown``: the
    reason why no broker answers, if so."""
    own = OwnValues({}, unknown)
    if unknown:
        return own, None
    if isinstance(place, NamespaceName) and policy.topic_key:
        own = await effects.overriding(engine, place, policy)
    if policy.effect is None:
        return own, None
    if isinstance(place, TopicName):
        scope = await effects.of_topic(engine, place)
    else:
        scope = await effects.of_namespace(engine, place, own)
    return own, await effects.gather(engine, scope, policy, after, at_ms)


def _check(current: Effects, policy: Policy, seen: Seen | None, counted: list[str]) -> None:
    """Raise Conflict when more would be lost than was ``seen`` (None: nothing was known), NotReady when that is not
    known.

    What a full backlog is cut by grows with every message: for the size quota only the subscriptions are compared.
    """
    for topic, reason in current.failed.items():
        if topic in counted:  # what the preview did not count either needs no answer now
            raise NotReady(f"{topic} could not be checked again: {reason}{UNSAVED}")
    for topic, losers in current.seen.items():
        if seen is None or topic not in seen:
            raise Conflict(f"By now {topic} would lose something, too{UNSAVED}")
        for name, entries in losers.items():
            if name not in seen[topic]:
                raise Conflict(f"By now {name} of {topic} would lose messages, too{UNSAVED}")
            if entries > seen[topic][name] and policy is not SIZE_QUOTA:
                raise Conflict(f"By now {name} of {topic} would lose more messages{UNSAVED}")


def _about(place: Place, policy: Policy, user: str) -> Json:
    return {"place": str(place), "policy": policy.name, "user": user}
