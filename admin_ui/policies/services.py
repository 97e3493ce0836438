"""A policy set or removed: what that would take is previewed, and exactly what was seen is saved or refused."""

from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.policies import effects, selectors
from admin_ui.policies.effects import Effects, Own, Seen
from admin_ui.policies.selectors import Said, exact
from engine.base.errors import Conflict, NotReady
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.policies.policy import Policy, completed
from engine.tenancy.policies.table import SIZE_QUOTA
from gateway.services import policies
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

KIND = "policy-change"
LISTED_MAX = 10
UNSAVED = "; nothing was saved"
Place = NamespaceName | TopicName


async def preview(engine: Engine, place: Place, policy: Policy, user: str, value: Any) -> Json:
    """What saving ``value`` (None: removing what is there) would do, with the token that confirms just that. Raises
    Refusal."""
    given = None if value is None else policy.read(value)
    said, unknown = await _said(engine, place, policy)
    at = now_ms()
    own, found = await _found(engine, place, policy, _after(said, given), unknown)
    about = _about(place, policy, user) | {
        "value": given,
        "own": said.own,
        "inherited": said.inherited,
        "at": at,
        "seen": None if found is None else found.seen,
        "counted": [] if found is None else found.counted,
    }
    return {
        "token": confirming.sign(KIND, about),
        "at": at,
        "row": selectors.row(policy, said),
        "effects": None if found is None else found.told(),
        "overriding": [
            {"name": name, "value": exact(one)}
            for name, one in list(own.values.items())[:LISTED_MAX]
        ],
        "overriding_total": None if own.unknown else len(own.values),
        "unknown": own.unknown,
    }


async def apply(engine: Engine, place: Place, policy: Policy, user: str, token: str) -> Json:
    """Save what was previewed. Raises Conflict when it is another change by now, or would take more, NotReady when
    that cannot be told: nothing is changed then."""
    told = confirming.read(KIND, token, _about(place, policy, user))
    said, unknown = await _said(engine, place, policy)
    if unknown and told["inherited"] is not None:
        raise NotReady(f"{unknown.rstrip('.')}{UNSAVED}")
    if said.own != told["own"] or said.inherited != told["inherited"]:
        raise Conflict(f"{policy.name} was changed meanwhile; look at it again")
    value = told["value"]
    _, found = await _found(engine, place, policy, _after(said, value), unknown, told["at"])
    if found is not None:
        _check(found, policy, told["seen"], told["counted"])
    if isinstance(place, TopicName):
        await policies.set_on_topic(engine, place, policy, value, expected=told["own"])
    else:
        await policies.set_on_namespace(engine, place, policy, value, expected=told["own"])
    after, _ = await _said(engine, place, policy)
    return {
        "at": now_ms(),
        "row": selectors.row(policy, after),
        "effects": None if found is None else found.told(),
    }


async def _said(engine: Engine, place: Place, policy: Policy) -> tuple[Said, str]:
    if isinstance(place, TopicName):
        return (await selectors.on_topic(engine, place))[policy.name], ""
    found, unknown = await selectors.on_namespace(engine, place)
    return found[policy.name], unknown


def _after(said: Said, value: Any) -> Any:
    """What is in force then."""
    return said.inherited if value is None else completed(said.inherited, value)


async def _found(
    engine: Engine,
    place: Place,
    policy: Policy,
    after: Any,
    unknown: str,
    at_ms: int | None = None,
) -> tuple[Own, Effects | None]:
    """None for what nothing goes by. ``unknown``: why no broker can be asked, if so."""
    own = Own({}, unknown)
    if unknown:
        return own, None
    if isinstance(place, NamespaceName) and policy.topic_key:
        own = await effects.overriding(engine, place, policy)
    if not policy.takes:
        return own, None
    if isinstance(place, TopicName):
        scope = await effects.of_topic(engine, place)
    else:
        scope = await effects.of_namespace(engine, place, own)
    return own, await effects.gather(engine, scope, policy, after, at_ms)


def _check(now: Effects, policy: Policy, seen: Seen | None, counted: list[str]) -> None:
    """Raises Conflict when more would go than was ``seen`` (None: nothing was known), NotReady when that cannot be
    told. What a full backlog is cut by grows with every message: of it only who loses is compared."""
    for topic, why in now.failed.items():
        if topic in counted:
            raise NotReady(f"{topic} could not be looked at again: {why}{UNSAVED}")
    for topic, losers in now.seen.items():
        if seen is None or topic not in seen:
            raise Conflict(f"By now {topic} would lose something, too{UNSAVED}")
        for name, entries in losers.items():
            if name not in seen[topic]:
                raise Conflict(f"By now {name} of {topic} would lose messages, too{UNSAVED}")
            if entries > seen[topic][name] and policy is not SIZE_QUOTA:
                raise Conflict(f"By now {name} of {topic} would lose more messages{UNSAVED}")


def _about(place: Place, policy: Policy, user: str) -> Json:
    return {"place": str(place), "policy": policy.name, "user": user}
