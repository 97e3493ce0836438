"""What is in force on a namespace or topic, and which level says so."""

import asyncio
from typing import Any, NamedTuple

from engine.base.errors import Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.metadata.records import Stored
from engine.tenancy.namespaces import get_policies
from engine.tenancy.policies.in_force import of_cluster
from engine.tenancy.policies.policy import Level, Policy, completed, find
from engine.tenancy.policies.table import POLICIES
from gateway.http.errors import describe
from gateway.services import policies
from gateway.services.engine_link import Engine

BROKER_TIMEOUT_S = 5.0
"""What is stored is shown without the brokers' values rather than not at all."""
EXACT_MAX = (1 << 53) - 1
"""Larger whole numbers are changed by JavaScript."""
Body = dict[str, Any]

OF_NAMESPACES = [policy for policy in POLICIES if policy.key and policy.shown]
OF_TOPICS = [policy for policy in POLICIES if policy.topic_key and policy.shown]


class Said(NamedTuple):
    """Of one policy at one place: ``own`` as stored there, ``value`` in force; None where not known or not set."""

    own: Any
    value: Any
    level: Level | None
    inherited: Any
    inherited_level: Level


async def on_namespace(
    engine: Engine, name: NamespaceName, stored: Stored | None = None
) -> tuple[dict[str, Said], str]:
    """By policy, and why what only brokers know is not known; NotFound without the namespace. ``stored``: its policies
    (``of_cluster``), if they were read."""
    if stored is None:
        stored = of_cluster(await get_policies(engine.store, name), engine.cluster)
    defaults, unknown = await _defaults(engine, name)
    return {
        policy.name: _on_namespace(policy, stored, defaults) for policy in OF_NAMESPACES
    }, unknown


def _on_namespace(policy: Policy, stored: Stored, defaults: Body) -> Said:
    """``defaults`` is empty when no broker answers. Computed from what is stored, not taken from a broker: its cache
    may not have heard yet of a change that was just made."""
    default, holds = defaults.get(policy.name), policy.holds(Level.NAMESPACE, stored)
    value = default if holds is None else completed(default, holds)
    level = Level.BROKER if holds is None else Level.NAMESPACE
    return Said(
        find(stored, policy.key), value, level if value is not None else None, default, Level.BROKER
    )


async def _defaults(engine: Engine, name: NamespaceName) -> tuple[Body, str]:
    """The brokers' values by name of each policy, or why they are not known."""
    try:
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            found = await policies.in_force_on_namespace(engine, name)
    except Exception as error:
        status, reason = describe(error)
        if status != 503:
            raise
        return {}, reason
    return {policy: said["default"] for policy, said in found.items()}, ""


async def on_topic(engine: Engine, name: TopicName) -> dict[str, Said]:
    """By policy. NotFound without the topic, PreconditionFailed for a partition, Unsupported for one that is not
    persistent."""
    if not name.persistent:
        raise Unsupported("Topics that are not persistent have no policies of their own")
    found = await policies.of_topic(engine, name)
    return {policy.name: _on_topic(found[policy.name]) for policy in OF_TOPICS}


def _on_topic(said: Body) -> Said:
    level, inherited_level = Level(said["level"]), Level(said["inherited_level"])
    return Said(said["own"], said["value"], level, said["inherited"], inherited_level)


async def topic(engine: Engine, name: TopicName) -> Body:
    """All rows of a topic; see ``on_topic``."""
    found = await on_topic(engine, name)
    return {"policies": [row(policy, found[policy.name]) for policy in OF_TOPICS]}


def row(policy: Policy, said: Said) -> Body:
    """As it is shown."""
    return {
        "name": policy.name,
        "title": policy.title,
        "meaning": policy.meaning,
        "parts": _parts(policy),
        "topics_own": bool(policy.topic_key),
        "value": exact(said.value),
        "level": said.level.value if said.level is not None else None,
        "own": exact(said.own),
        "inherited": exact(said.inherited),
        "inherited_level": said.inherited_level.value,
    }


def _parts(policy: Policy) -> list[Body]:
    schema = policy.form.schema()
    found = schema.get("fields") or [{"name": "", "required": True, **schema}]
    return [_policy_part(**field) for field in found]


def _policy_part(*, required: bool, **rest: Any) -> Body:
    for bound in ("minimum", "maximum"):
        if bound in rest:
            rest[bound] = str(rest[bound])
    return {**rest, "optional": not required}


def exact(value: Any) -> Any:
    """A stored value as it is shown: see ``admin_ui.policies.shapes``."""
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    is_long = isinstance(value, int) and abs(value) > EXACT_MAX
    return str(value) if is_long else value
