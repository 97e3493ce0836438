"""Permissions of roles on topics."""

from collections.abc import Sequence

from engine.base.names import TopicName
from engine.tenancy import grants
from gateway.services.admin import existence
from gateway.services.engine_link import Engine


async def of_topic(engine: Engine, name: TopicName) -> grants.Granted:
    """Return the granted actions by role, those of the namespace included. Raises NotFound without the topic."""
    await existence.require_any(engine, name)
    return await grants.of_topic(engine.store, name)


async def grant(engine: Engine, name: TopicName, role: str, actions: list[str]) -> None:
    """Grant actions to a role, see ``grants.grant``. Raises NotFound without the topic."""
    await existence.require_any(engine, name)
    await grants.grant(engine.store, name.namespace, role, actions, topic=name)


async def revoke(engine: Engine, name: TopicName, role: str) -> None:
    """Revoke the actions of a role, see ``grants.revoke``. Raises NotFound without the topic."""
    await existence.require_any(engine, name)
    await grants.revoke(engine.store, name.namespace, role, topic=name)


async def grant_each(engine: Engine, given: Sequence[tuple[TopicName, str, list[str]]]) -> None:
    """Grant each triple of topic, role and actions, one after the other."""
    for name, role, actions in given:
        await grant(engine, name, role, actions)


async def revoke_each(engine: Engine, given: Sequence[tuple[TopicName, str]]) -> None:
    """Revoke for each pair of topic and role, one after the other."""
    for name, role in given:
        await revoke(engine, name, role)
