"""The policies in force on a namespace or topic, and the level that each value is from."""

import asyncio
from dataclasses import asdict
from typing import Any, NamedTuple

from engine.base.errors import Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.metadata.records import Stored
from engine.tenancy.namespaces import get_policies
from engine.tenancy.policies.in_force import of_cluster
from engine.tenancy.policies.policy import Level, Policy, completed, find
from engine.tenancy.policies.policy_calls import ToolCommand
from engine.tenancy.policies.table import POLICIES, REPLICATION
from gateway.http.errors import describe
from gateway.services.admin import policies
from gateway.services.engine_link import Engine

BROKER_TIMEOUT_S = 5.0
"""Longest wait for the brokers' values; the stored ones are then shown without them."""
EXACT_MAX = (1 << 53) - 1
"""Largest whole number that JavaScript keeps exactly."""
Body = dict[str, Any]

SHOWN = [policy for policy in POLICIES if policy.shown or policy is REPLICATION]
OF_NAMESPACES = [policy for policy in SHOWN if policy.key]
OF_TOPICS = [policy for policy in SHOWN if policy.topic_key]


class PolicyValues(NamedTuple):
    """Values of one policy at one place: ``own`` as stored there, ``value`` in force; None where not known or not
    set."""

    own: Any
    value: Any
    level: Level | None
    inherited: Any
    inherited_level: Level


async def on_namespace(
    engine: Engine, name: NamespaceName, stored: Stored | None = None
) -> tuple[dict[str, PolicyValues], str]:
    """Return the values by policy, and the reason why the brokers' defaults are not known, empty when they are.
    ``stored``: the policies of the namespace (``of_cluster``), if already read. Raises NotFound."""
    if stored is None:
        stored = of_cluster(await get_policies(engine.store, name), engine.cluster)
    defaults, unknown = await _defaults(engine, name)
    return {
        policy.name: _on_namespace(policy, stored, defaults) for policy in OF_NAMESPACES
    }, unknown


def _on_namespace(policy: Policy, stored: Stored, defaults: Body) -> PolicyValues:
    """Return the values of a policy. ``defaults`` is empty when no broker answers. The value is computed from what is
    stored and not requested from a broker, whose cache may not have a change that was just made."""
    default, own = defaults.get(policy.name), policy.holds(Level.NAMESPACE, stored)
    value = default if own is None else completed(default, own)
    level = Level.BROKER if own is None else Level.NAMESPACE
    return PolicyValues(
        find(stored, policy.key), value, level if value is not None else None, default, Level.BROKER
    )


async def _defaults(engine: Engine, name: NamespaceName) -> tuple[Body, str]:
    """Return the brokers' values by name of policy, or the reason why they are not known."""
    try:
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            in_force = await policies.in_force_on_namespace(engine, name)
    except Exception as error:
        status, reason = describe(error)
        if status != 503:
            raise
        return {}, reason
    return {policy: values["default"] for policy, values in in_force.items()}, ""


async def on_topic(engine: Engine, name: TopicName) -> dict[str, PolicyValues]:
    """Return the values by policy. Raises NotFound, PreconditionFailed for a partition, Unsupported for a
    non-persistent topic."""
    if not name.persistent:
        raise Unsupported("Topics that are not persistent have no policies of their own")
    in_force = await policies.of_topic(engine, name)
    return {policy.name: _on_topic(in_force[policy.name]) for policy in OF_TOPICS}


def _on_topic(values: Body) -> PolicyValues:
    level, inherited_level = Level(values["level"]), Level(values["inherited_level"])
    return PolicyValues(values["own"], values["value"], level, values["inherited"], inherited_level)


async def topic(engine: Engine, name: TopicName) -> Body:
    """Return all rows of a topic. Raises as ``on_topic``."""
    values = await on_topic(engine, name)
    return {"policies": [row(policy, Level.TOPIC, values[policy.name]) for policy in OF_TOPICS]}


def row(policy: Policy, place: Level, values: PolicyValues) -> Body:
    """Return the row of a policy as it is shown at a namespace or topic."""
    return {
        "name": policy.name,
        "title": policy.title,
        "meaning": policy.meaning,
        "parts": _parts(policy),
        "topics_own": bool(policy.topic_key),
        "value": exact(values.value),
        "level": values.level.value if values.level is not None else None,
        "own": exact(values.own),
        "inherited": exact(values.inherited),
        "inherited_level": values.inherited_level.value,
        "rest": _rest(policy, place),
        "commands": [_command(command) for command in policy.commands_at(place)],
    }


def _rest(policy: Policy, place: Level) -> Body:
    route = policy.route_at(place)
    assert route is not None, policy.name
    return {
        "path": f"{route.path}?{route.query}" if route.query else route.path,
        "method": route.method,
        "value_query": route.value_query,
        "removal": None if route.removal is None else asdict(route.removal),
    }


def _command(command: ToolCommand) -> Body:
    return {
        "tool": command.tool.value,
        "set": command.set,
        "remove": command.remove,
        "options": [asdict(option) for option in command.options],
    }


def _parts(policy: Policy) -> list[Body]:
    schema = policy.form.schema()
    fields = schema.get("fields") or [{"name": "", "required": True, **schema}]
    return [_policy_part(**field) for field in fields]


def _policy_part(*, required: bool, **attributes: Any) -> Body:
    for bound in ("minimum", "maximum"):
        if bound in attributes:
            attributes[bound] = str(attributes[bound])
    return {**attributes, "optional": not required}


def exact(value: Any) -> Any:
    """Return a stored value as it is shown: see ``admin_ui.policies.shapes``."""
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    is_long = isinstance(value, int) and abs(value) > EXACT_MAX
    return str(value) if is_long else value
