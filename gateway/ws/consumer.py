"""``/ws/v2/consumer/…`` and ``/ws/v2/reader/…``: messages out; acknowledgements, permits and questions in.

Push mode sends while fewer than ``receiverQueueSize`` messages are unanswered; pull mode (``pullMode=true``) sends as
many as the client permitted. W2: a closed socket returns what it held, since nothing is acknowledged but by the client.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeGuard

import pulsar
import pulsar.asyncio

from engine.base.errors import Refusal
from engine.client.message_ids import MessageId
from gateway.ws import frames, sockets
from gateway.ws.end_of_topic import is_end, is_terminated
from gateway.ws.frames import Query, RefusedError
from gateway.ws.paths import Target, topic_name
from gateway.ws.window import Window

log = logging.getLogger(__name__)

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
POSITIONS = {"Latest": pulsar.InitialPosition.Latest, "Earliest": pulsar.InitialPosition.Earliest}
PERMITS_MAX = 1_000_000
TOPICS_MAX = 1000
PREFETCH_MAX = 100  # messages of up to 5 MiB that a socket's consumer holds here, unsent
ACK_TIMEOUT_MS_MIN = 10_000  # the client library's


async def consumer(
    scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send, target: Target
) -> None:
    """The consumer endpoint."""
    flow = _Flow()
    await sockets.serve(
        scope,
        receive,
        send,
        lambda: _subscribe(scope, target, flow),
        lambda socket, peer: _talk(socket, peer, flow),
    )


async def reader(
    scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send, target: Target
) -> None:
    """The reader endpoint; it too wants ``{"messageId"}`` back to go on, as Pulsar's does."""
    flow = _Flow()
    await sockets.serve(
        scope,
        receive,
        send,
        lambda: _open_reader(scope, target, flow),
        lambda socket, peer: _talk(socket, peer, flow),
    )


async def _never() -> bool:
    return False


class _Flow:
    """What the two directions of a socket share.

    ``at_end``: whether the subscription came to its topic's end. ``unsubscribed``: nothing more will come, in silence.
    """

    def __init__(self) -> None:
        self.window = Window()
        self.unsubscribed = False
        self.at_end: Callable[[], Awaitable[bool]] = _never


async def _subscribe(scope: sockets.Scope, target: Target, flow: _Flow) -> pulsar.asyncio.Consumer:
    query = Query.parse(scope["query_string"])
    flow.window.pull = query.flag("pullMode")
    queue = min(query.number("receiverQueueSize", frames.QUEUE_MAX, 0, 1_000_000), frames.QUEUE_MAX)
    kind = query.choice("subscriptionType", frames.SUBSCRIPTION_TYPES, "Exclusive")
    position = query.choice("subscriptionInitialPosition", ("Latest", "Earliest"), "Latest")
    mode = query.choice("subscriptionMode", ("Durable", "NonDurable"), "Durable")
    if mode == "NonDurable":
        raise RefusedError(
            501, "subscriptionMode NonDurable is not built yet: use the reader endpoint"
        )
    if query.text("priorityLevel"):
        raise RefusedError(501, "priorityLevel is not built yet")
    topics, pattern = _topics(query, target)
    options: dict[str, Any] = {}
    redeliveries = query.number("maxRedeliverCount", 0, 0, 1_000_000)
    if redeliveries:
        dead = query.text("deadLetterTopic") or f"{topics[0]}-{target.subscription}-DLQ"
        options["dead_letter_policy"] = pulsar.ConsumerDeadLetterPolicy(redeliveries, dead)
    ack_timeout = query.number("ackTimeoutMillis", 0, 0, 86_400_000)
    if 0 < ack_timeout < ACK_TIMEOUT_MS_MIN:
        text = f"ackTimeoutMillis must be 0 or from {ACK_TIMEOUT_MS_MIN}"
        raise RefusedError(400, f"Invalid query params: {text}")
    made = await (await sockets.client()).subscribe(
        topics if len(topics) > 1 else topics[0],
        target.subscription,
        consumer_type=TYPES[kind],
        receiver_queue_size=min(max(queue, 1), PREFETCH_MAX),
        consumer_name=query.text("consumerName"),
        unacked_messages_timeout_ms=ack_timeout or None,
        negative_ack_redelivery_delay_ms=query.number(
            "negativeAckRedeliveryDelay", 60_000, 0, 86_400_000
        ),
        initial_position=POSITIONS[position],
        is_pattern_topic=pattern,
        **options,
    )
    if not pattern:  # a topic yet to come may match a pattern: it has no end

        async def at_end() -> bool:
            return all([await is_end(topic, target.subscription) for topic in topics])

        flow.at_end = at_end
    if not flow.window.pull:
        flow.window.allow(max(queue, 1))
    return made


def _topics(query: Query, target: Target) -> tuple[list[str], bool]:
    """Full topic names, or one pattern of them and True."""
    if target.topic:
        return [target.topic], False
    pattern, names = query.text("topicsPattern"), query.text("topics")
    if pattern:
        return [pattern if "://" in pattern else f"persistent://public/default/{pattern}"], True
    if not names:
        raise RefusedError(400, "Invalid query params: topics or topicsPattern is required")
    found = [topic_name(name.strip()) for name in names.split(",", TOPICS_MAX)]
    if len(found) > TOPICS_MAX:
        raise RefusedError(400, f"Invalid query params: more than {TOPICS_MAX} topics")
    return found, False


async def _open_reader(scope: sockets.Scope, target: Target, flow: _Flow) -> pulsar.asyncio.Reader:
    query = Query.parse(scope["query_string"])
    queue = min(query.number("receiverQueueSize", frames.QUEUE_MAX, 0, 1_000_000), frames.QUEUE_MAX)
    where = query.text("messageId") or "latest"
    if where == "earliest":
        start = pulsar.MessageId.earliest
    elif where == "latest":
        start = pulsar.MessageId.latest
    else:
        try:
            start = message_id_of(where)
        except ValueError as error:
            raise RefusedError(500, f"Failed to create reader: {error}") from error
    made = await (await sockets.client()).create_reader(
        target.topic,
        start,
        receiver_queue_size=min(max(queue, 1), PREFETCH_MAX),
        reader_name=query.text("readerName"),
    )
    flow.window.allow(max(queue, 1))

    async def at_end() -> bool:
        return await is_terminated(target.topic) and not await made.has_message_available()

    flow.at_end = at_end
    return made


def message_id_of(text: str) -> pulsar.MessageId:
    """A base64 message id. Raises ValueError."""
    try:
        return pulsar.MessageId.deserialize(base64.b64decode(text, validate=True))
    except (binascii.Error, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"messageId {text[:80]!r} cannot be decoded") from error


async def _talk(socket: sockets.Socket, peer: Any, flow: _Flow) -> None:
    """Two directions until the socket ends or either fails; deliveries may end first, after unsubscribing."""
    loop = asyncio.get_running_loop()
    outward = loop.create_task(_deliver(socket, peer, flow))
    inward = loop.create_task(_listen(socket, peer, flow))
    try:
        await asyncio.wait([outward, inward], return_when=asyncio.FIRST_COMPLETED)
        if not inward.done() and outward.exception() is None:
            await asyncio.wait([inward])
    finally:
        outward.cancel()
        inward.cancel()
        ends = await asyncio.gather(outward, inward, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            if not isinstance(end, pulsar.asyncio.PulsarException | ValueError | Refusal):
                log.error("websocket failed: %r", end, exc_info=end)
            await socket.close(1011, str(end))


async def _deliver(socket: sockets.Socket, peer: Any, flow: _Flow) -> None:
    receive = peer.read_next if isinstance(peer, pulsar.asyncio.Reader) else peer.receive
    while not socket.closed:
        await flow.window.take()
        try:
            message = await receive()
        except pulsar.asyncio.PulsarException:
            if flow.unsubscribed:
                return
            raise
        written = MessageId.parse(message.message_id().serialize()).serialized()
        message_id = base64.b64encode(written).decode()
        flow.window.delivered(message_id, message.message_id())
        await socket.send_text(
            frames.delivered(
                message_id,
                message.data(),
                message.properties(),
                message.publish_timestamp(),
                message.redelivery_count(),
                message.event_timestamp(),
                message.partition_key(),
            )
        )


async def _listen(socket: sockets.Socket, peer: Any, flow: _Flow) -> None:
    is_reader = isinstance(peer, pulsar.asyncio.Reader)
    while (text := await socket.next_text()) is not None:
        try:
            body = frames.parse_object(text)
        except frames.FrameError as error:
            await socket.close(1007, str(error))
            return
        kind = body.get("type")
        if kind == "permit":
            count = body.get("permitMessages")
            if not _is_count(count):
                await socket.close(1007, f"permitMessages: expected 1 to {PERMITS_MAX}")
                return
            if flow.window.pull:
                flow.window.allow(count)
        elif kind == "isEndOfTopic":
            await socket.send_text(frames.end_of_topic(await flow.at_end()))
        elif kind == "unsubscribe" and not is_reader:
            flow.unsubscribed = True
            await peer.unsubscribe()
        else:
            await _answer(
                peer, flow, body, negative=kind == "negativeAcknowledge", is_reader=is_reader
            )


def _is_count(value: Any) -> TypeGuard[int]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and 0 < value <= PERMITS_MAX


async def _answer(
    peer: Any, flow: _Flow, body: dict[str, Any], *, negative: bool, is_reader: bool
) -> None:
    """An acknowledgement or its opposite, also of what an earlier socket was given: that only makes no room here."""
    text = body.get("messageId")
    if not isinstance(text, str):
        raise ValueError("messageId: a base64 string is required")
    parsed = message_id_of(text)
    found = flow.window.answered(text)
    if is_reader or flow.unsubscribed:
        return
    try:
        if negative:
            await peer.negative_acknowledge(found or parsed)
        else:
            await peer.acknowledge(found or parsed)
    except pulsar.asyncio.PulsarException as error:
        # the message comes again; Pulsar too answers acknowledgements by nothing
        log.debug("acknowledgement of %s failed: %s", parsed, error)
