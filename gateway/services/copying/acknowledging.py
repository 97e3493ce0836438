"""Acknowledgements of chosen messages at a subscription."""

from collections.abc import Sequence
from typing import Any

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.cursors import ACKNOWLEDGE_MESSAGES, ACKNOWLEDGED_MAX, AcknowledgeMessages
from engine.base.names import TopicName
from gateway.services.engine_link import Engine


async def states_of(
    engine: Engine,
    topic: str,
    subscription: str,
    places: Sequence[MessagePosition],
    *,
    dry: bool = True,
) -> list[str]:
    """Return the states of messages for a subscription, after which they are acknowledged in this order unless ``dry``.
    A subscription that is gone holds nothing. Cancelled or failed, it may have acknowledged the first of them."""
    states: list[str] = []
    for start in range(0, len(places), ACKNOWLEDGED_MAX):
        part = list(places[start : start + ACKNOWLEDGED_MAX])
        args = AcknowledgeMessages(TopicName.parse(topic), subscription, part, dry=dry)
        answer: dict[str, Any] = await engine.call(ACKNOWLEDGE_MESSAGES, args)
        states += answer["states"]
    return states
