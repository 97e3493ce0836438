"""The target for the age of a subscription's backlog, which is one of the subscription's properties.

Properties move with the subscription, are deleted with it, and Pulsar's own tools set them, so that the target needs no
second store that could disagree.
"""

from typing import Any

from engine.admin.api.rows import AGE_TARGET, age_target_s
from engine.base.names import TopicName
from gateway.services.admin import subscriptions
from gateway.services.engine_link import Engine


async def target(engine: Engine, name: TopicName, subscription: str) -> dict[str, Any]:
    """Return the target, None without one, and all properties of the subscription. Raises NotFound."""
    properties = await subscriptions.properties(engine, name, subscription)
    return {"seconds": age_target_s(properties) or None, "properties": properties}


async def set_target(
    engine: Engine, name: TopicName, subscription: str, seconds: int | None
) -> dict[str, Any]:
    """Set the target, or with None remove it; other properties stay. Raises NotFound."""
    properties = await subscriptions.properties(engine, name, subscription)
    before = properties.pop(AGE_TARGET, None)
    if seconds is not None:
        properties[AGE_TARGET] = str(seconds)
    if properties.get(AGE_TARGET) != before:
        await subscriptions.set_properties(engine, name, subscription, properties)
    return {"seconds": seconds, "properties": properties}
