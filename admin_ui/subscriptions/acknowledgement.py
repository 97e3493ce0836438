"""Acknowledgement of one message for a subscription, as of a delayed one that is not to be delivered any more."""

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.params import message_position
from admin_ui.subscriptions.deletion import about
from admin_ui.subscriptions.holders import text_of
from admin_ui.subscriptions.services import WHOLE, members
from engine.admin.api.arguments import MessagePosition
from engine.admin.api.cursors import ACKNOWLEDGE_MESSAGES, AcknowledgeMessages
from engine.admin.api.subscriptions import MESSAGE_HOLDERS, MessageHolders
from engine.base.errors import Conflict, InvalidField, NotFound
from engine.base.names import TopicName
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "message-acknowledgement"


async def preview(
    engine: Engine,
    topic: TopicName,
    subscription: str,
    user: str,
    *,
    message: str,
    partition: int | None,
) -> Json:
    """Return the message's state, with the token that confirms its acknowledgement. Raises InvalidField, NotFound when
    there is no such message or subscription, Conflict when it is acknowledged already."""
    position = message_position(message, "message")
    parts = await members(engine, topic)
    index = WHOLE if partition is None else partition
    if index not in parts:
        expected = "must not be given" if WHOLE in parts else f"must be from 0 to {len(parts) - 1}"
        raise InvalidField("partition", f"{expected} for {topic}")
    part = parts[index]
    state = await _state(engine, part, subscription, position, dry=True)
    if state == "gone":
        raise NotFound(f"{part} has no message {message}; it may have been deleted")
    if state == "acknowledged":
        raise Conflict(f"Message {message} is acknowledged on {subscription} already")
    answer: Json = await engine.call(MESSAGE_HOLDERS, MessageHolders(part, position))
    place = next((row for row in answer["subscriptions"] if row["name"] == subscription), None)
    content = about(topic, subscription, user) | {
        "part": str(part),
        "message": [position.ledger_id, position.entry_id, position.batch_index],
    }
    return {
        "token": confirming.sign(engine.served, KIND, content),
        "at": now_ms(),
        "message": text_of(position),
        "partition": partition,
        # Beyond the bound of the answer it is only known that the message is not acknowledged.
        "state": "unknown" if place is None else place["state"],
        "deliver_at": answer["delivers_ms"] or None,
        "consumer": place
        and place["consumer"]
        and {
            "name": place["consumer"]["name"],
            "address": place["consumer"]["address"].removeprefix("/"),
        },
    }


async def apply(engine: Engine, topic: TopicName, subscription: str, user: str, token: str) -> Json:
    """Acknowledge the message; durable before the answer. ``was``: its state before, so that a repetition changes
    nothing. Raises NotFound when the message or the subscription was deleted since."""
    content = confirming.read(engine.served, KIND, token, about(topic, subscription, user))
    position = MessagePosition(*content["message"])
    part = TopicName.parse(content["part"])
    was = await _state(engine, part, subscription, position, dry=False)
    if was == "gone":
        raise NotFound(f"{part} has no message {text_of(position)} any more")
    return {"at": now_ms(), "message": text_of(position), "was": was}


async def _state(
    engine: Engine, part: TopicName, subscription: str, position: MessagePosition, *, dry: bool
) -> str:
    args = AcknowledgeMessages(part, subscription, [position], dry=dry)
    answer = await engine.call(ACKNOWLEDGE_MESSAGES, args)
    state: str = answer["states"][0]
    return state
