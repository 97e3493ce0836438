"""Operations that find and return messages of a topic."""

from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import (
    EXAMINE,
    LAST_MESSAGE_ID,
    MESSAGE_BY_ID,
    MESSAGE_ID_BY_TIME,
    PEEK,
    Examine,
    MessageById,
    MessageIdByTime,
    Peek,
)
from engine.base.errors import Unsupported
from engine.base.names import TopicName
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def last_message_id(engine: Engine, name: TopicName) -> Json:
    """Return the MessageId of the newest message; entry -1 of the open ledger without one."""
    await existence.require(engine, name)
    if not name.persistent:
        raise Unsupported("GetLastMessageId on a non-persistent topic is not allowed")
    return message_id(await engine.call(LAST_MESSAGE_ID, OnTopic(name)))


def message_id(fields: Json) -> Json:
    """Return a MessageId with the fields that Pulsar's server always writes."""
    return {"batchSize": 0, "batchIndex": -1, "partitionIndex": -1, **fields}


async def message_id_by_time(engine: Engine, name: TopicName, timestamp_ms: int) -> Json:
    """Return the MessageId of the first message that was published at or after a time."""
    refusal = (
        "Get message ID by timestamp on a partitioned topic is not allowed,"
        " please try do it on specific topic partition"
    )
    await existence.refuse_parent(engine, name, refusal)
    args = MessageIdByTime(name, timestamp_ms)
    return message_id(await engine.call(MESSAGE_ID_BY_TIME, args))


async def examine(engine: Engine, name: TopicName, initial: str, nth: int) -> Json:
    """Return the nth message from an end of the topic, as headers and base64 body."""
    if not name.persistent:
        raise Unsupported("Examine messages on a non-persistent topic is not allowed")
    refusal = (
        "Examine messages on a partitioned topic is not allowed,"
        " please try examine message on specific topic partition"
    )
    await existence.refuse_parent(engine, name, refusal)
    args = Examine(name, "earliest" if initial == "earliest" else "latest", nth)
    return await engine.call(EXAMINE, args)


async def message_by_id(engine: Engine, name: TopicName, ledger_id: int, entry_id: int) -> Json:
    """Return one message by its position."""
    await existence.refuse_parent(
        engine, name, "GetMessageById is not allowed on partitioned-topic"
    )
    return await engine.call(MESSAGE_BY_ID, MessageById(name, ledger_id, entry_id))


async def peek(engine: Engine, name: TopicName, subscription: str, nth: int) -> Json:
    """Return the nth unacknowledged message, as headers and base64 body. Never creates the subscription."""
    if not name.persistent:
        raise Unsupported("Peek messages on a non-persistent topic is not allowed")
    await existence.refuse_parent(
        engine, name, "Peek messages on a partitioned topic is not allowed"
    )
    return await engine.call(PEEK, Peek(name, subscription, nth))
