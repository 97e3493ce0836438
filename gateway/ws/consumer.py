"""``/ws/v2/consumer/…`` and ``/ws/v2/reader/…``: messages out; acknowledgements, permits and questions in.

Push mode sends while fewer than ``receiverQueueSize`` messages are unanswered; pull mode (``pullMode=true``) sends as
many as the client permitted. A closed socket returns what it held, since nothing is acknowledged but by the client.
"""

import asyncio
import base64
import binascii
from typing import Any
from urllib.parse import unquote

import pulsar
import pulsar.asyncio

from gateway.ws import frames, sockets
from gateway.ws.frames import Query, RefusedError

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
POSITIONS = {"Latest": pulsar.InitialPosition.Latest, "Earliest": pulsar.InitialPosition.Earliest}
PERMITS_MAX = 1_000_000


async def consumer(scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send) -> None:
    """The consumer endpoint."""
    pull = b"pullMode=true" in scope["query_string"]
    window = _Window(pull)
    await sockets.serve(
        receive,
        send,
        lambda: _subscribe(scope, window),
        lambda socket, peer: _talk(socket, peer, window),
    )


async def reader(scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send) -> None:
    """The reader endpoint; it too wants ``{"messageId"}`` back to go on, as Pulsar's does."""
    window = _Window(pull=False)
    await sockets.serve(
        receive,
        send,
        lambda: _open_reader(scope, window),
        lambda socket, peer: _talk(socket, peer, window),
    )


class _Window:
    """How many more messages may go out, and which are out. At most PERMITS_MAX."""

    def __init__(self, pull: bool) -> None:
        self.pull = pull
        self.outstanding: dict[str, Any] = {}
        self._free = 0
        self._more = asyncio.Event()

    def allow(self, count: int) -> None:
        self._free = min(self._free + count, PERMITS_MAX)
        self._more.set()

    async def take(self) -> None:
        """Wait for a permit and use it."""
        while self._free <= 0:
            self._more.clear()
            await self._more.wait()
        self._free -= 1

    def answered(self, message_id: str) -> Any:
        """The id of a message that is out, which makes room in push mode; None for any other."""
        found = self.outstanding.pop(message_id, None)
        if found is not None and not self.pull:
            self.allow(1)
        return found


async def _subscribe(scope: sockets.Scope, window: _Window) -> pulsar.asyncio.Consumer:
    query = Query.parse(scope["query_string"])
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
    parts = scope["url_route"]["kwargs"]
    subscription = unquote(parts["subscription"])
    topic = sockets.topic_of(scope)
    options: dict[str, Any] = {}
    redeliveries = query.number("maxRedeliverCount", 0, 0, 1_000_000)
    if redeliveries:
        dead = query.text("deadLetterTopic") or f"{topic}-{subscription}-DLQ"
        options["dead_letter_policy"] = pulsar.ConsumerDeadLetterPolicy(redeliveries, dead)
    ack_timeout = query.number("ackTimeoutMillis", 0, 0, 86_400_000)
    made = await sockets.client().subscribe(
        topic,
        subscription,
        consumer_type=TYPES[kind],
        receiver_queue_size=max(queue, 1),
        consumer_name=query.text("consumerName"),
        unacked_messages_timeout_ms=ack_timeout or None,
        negative_ack_redelivery_delay_ms=query.number(
            "negativeAckRedeliveryDelay", 60_000, 0, 86_400_000
        ),
        initial_position=POSITIONS[position],
        **options,
    )
    if not window.pull:
        window.allow(max(queue, 1))
    return made


async def _open_reader(scope: sockets.Scope, window: _Window) -> pulsar.asyncio.Reader:
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
    made = await sockets.client().create_reader(
        sockets.topic_of(scope),
        start,
        receiver_queue_size=max(queue, 1),
        reader_name=query.text("readerName"),
    )
    window.allow(max(queue, 1))
    return made


def message_id_of(text: str) -> pulsar.MessageId:
    """A base64 message id. Raises ValueError."""
    try:
        return pulsar.MessageId.deserialize(base64.b64decode(text, validate=True))
    except (binascii.Error, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"messageId {text[:80]!r} cannot be decoded") from error


async def _talk(socket: sockets.Socket, peer: Any, window: _Window) -> None:
    """Two directions until the socket ends; whichever stops first stops the other."""
    loop = asyncio.get_running_loop()
    outward = loop.create_task(_deliver(socket, peer, window))
    inward = loop.create_task(_listen(socket, peer, window))
    done, rest = await asyncio.wait([outward, inward], return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    for task in done:
        error = task.exception()
        if error is not None:
            await socket.close(1011, str(error)[:120])


async def _deliver(socket: sockets.Socket, peer: Any, window: _Window) -> None:
    receive = peer.read_next if isinstance(peer, pulsar.asyncio.Reader) else peer.receive
    while not socket.closed:
        await window.take()
        message = await receive()
        message_id = base64.b64encode(message.message_id().serialize()).decode()
        window.outstanding[message_id] = message.message_id()
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


async def _listen(socket: sockets.Socket, peer: Any, window: _Window) -> None:
    is_reader = isinstance(peer, pulsar.asyncio.Reader)
    while (text := await socket.next_text()) is not None:
        try:
            body = frames.parse_object(text)
        except frames.FrameError as error:
            await socket.close(1007, str(error)[:120])
            return
        kind = body.get("type")
        if kind == "permit":
            count = body.get("permitMessages")
            if (
                isinstance(count, bool)
                or not isinstance(count, int)
                or not 0 < count <= PERMITS_MAX
            ):
                await socket.close(1007, f"permitMessages: expected 1 to {PERMITS_MAX}")
                return
            if window.pull:
                window.allow(count)
        elif kind == "isEndOfTopic":
            await socket.close(1011, "isEndOfTopic is not built yet")
            return
        elif kind == "unsubscribe" and not is_reader:
            await peer.unsubscribe()
        else:
            await _answer(
                peer, window, body, negative=kind == "negativeAcknowledge", is_reader=is_reader
            )


async def _answer(
    peer: Any, window: _Window, body: dict[str, Any], *, negative: bool, is_reader: bool
) -> None:
    """An acknowledgement, or its opposite, of a message this very socket was given; no others are its to answer."""
    text = body.get("messageId")
    if not isinstance(text, str):
        raise ValueError("messageId: a base64 string is required")
    message_id_of(text)
    found = window.answered(text)
    if found is None or is_reader:
        return
    if negative:
        await peer.negative_acknowledge(found)
    else:
        await peer.acknowledge(found)
