"""The endpoints ``/ws/v2/consumer/…`` and ``/ws/v2/reader/…``.

They send messages and receive acknowledgements, permits and requests. Push mode sends while fewer than
``receiverQueueSize`` messages are unanswered; pull mode (``pullMode=true``) sends as many as the client permitted. Only
the client acknowledges, so the unanswered messages of a closed socket are redelivered (W2). The messages of one read of
a broker's connection are sent in one write, and the answers of one read of the socket are acknowledged together. A
client that does not read gets no further messages.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.base.regex.linear import LinearRegex
from engine.base.regex.syntax import RegexSyntaxError, UnsupportedRegexError
from engine.base.tasks import TaskScope
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.consuming.topic_reader import TopicReader
from engine.client.message_ids import EARLIEST_ID, LATEST_ID, MessageId, MessageIdError
from gateway.clusters.cluster import Cluster
from gateway.http.socket_port import SocketPort
from gateway.ws import sockets
from gateway.ws.deliveries import DeliveryFrames, end_of_topic
from gateway.ws.frames import QUEUE_MAX, SUBSCRIPTION_TYPES, HandshakeRefusedError, Query
from gateway.ws.keys import opener
from gateway.ws.paths import Target, topic_name
from gateway.ws.replies import (
    Acknowledgement,
    EndOfTopicQuestion,
    NoJsonError,
    Permit,
    ReplyError,
    Unsubscription,
    message_id_of,
    parse_reply,
    simple_answer,
)
from gateway.ws.rights import Opening
from gateway.ws.values import DecodeQueue, SchemaCache, ValueFrames
from gateway.ws.window import Window

log = logging.getLogger("gateway")

POSITIONS = ("Latest", "Earliest")
MODES = ("Durable", "NonDurable")
ACK_TIMEOUT_MS_MIN = 1000
TOPICS_MAX = 1000
PREFETCH_MAX = 1000
FAILED = 1011
Encrypted = Literal["FAIL", "DISCARD", "CONSUME"]


async def consumer(
    scope: sockets.Scope,
    receive: sockets.Receive,
    send: sockets.Send,
    target: Target,
    cluster: Cluster,
) -> None:
    """Serve the consumer endpoint."""
    await sockets.run(
        *(scope, receive, send, "consumer", cluster),
        lambda: _names(scope, target),
        lambda client: _subscribe(scope, target, client),
    )


async def reader(
    scope: sockets.Scope,
    receive: sockets.Receive,
    send: sockets.Send,
    target: Target,
    cluster: Cluster,
) -> None:
    """Serve the reader endpoint. As in Pulsar, it too continues only after answers with ``{"messageId"}``."""
    names = Opening((target.topic,))
    await sockets.run(
        *(scope, receive, send, "reader", cluster),
        lambda: names,
        lambda client: _open_reader(scope, target, client),
    )


def _names(scope: sockets.Scope, target: Target) -> Opening:
    """Return the topics, subscription and dead letter topic of a consumer. Raises HandshakeRefusedError."""
    query = Query.parse(scope["query_string"])
    topics, is_pattern = _topics(query, target)
    dead_letters = query.text("deadLetterTopic")
    return Opening(
        tuple(topics),
        is_pattern,
        target.subscription,
        topic_name(dead_letters) if dead_letters else "",
    )


async def _subscribe(
    scope: sockets.Scope, target: Target, client: PulsarClient
) -> "ConsumerEndpoint":
    query = Query.parse(scope["query_string"])
    queue = _queue_size(query)
    kind = query.choice("subscriptionType", SUBSCRIPTION_TYPES, "Exclusive")
    position = query.choice("subscriptionInitialPosition", POSITIONS, "Latest")
    mode = query.choice("subscriptionMode", MODES, "Durable")
    topics, pattern = _topics(query, target)
    ack_timeout = query.number("ackTimeoutMillis", 0, 0, 86_400_000)
    if 0 < ack_timeout < ACK_TIMEOUT_MS_MIN:
        text = f"Ack timeout should be greater than {ACK_TIMEOUT_MS_MIN} ms"
        raise HandshakeRefusedError(400, f"Invalid query params: {text}")
    if not query.values.get("consumerName", "x").strip():
        raise HandshakeRefusedError(400, "Invalid query params: consumerName cannot be blank")
    has_dead_letters = "maxRedeliverCount" in query.values or "deadLetterTopic" in query.values
    redeliveries = query.number("maxRedeliverCount", 0, 0, 1_000_000)
    if has_dead_letters and not redeliveries:
        raise HandshakeRefusedError(400, "Invalid query params: MaxRedeliverCount must be > 0.")
    dead_letter_topic = query.text("deadLetterTopic")
    settings = ConsumerSettings(
        target.subscription,
        kind=SUBSCRIPTION_TYPES.index(kind),
        name=query.text("consumerName") or "",
        durable=mode == "Durable",
        initial=POSITIONS.index(position),
        priority=query.number("priorityLevel", 0, 0, (1 << 31) - 1),
        queue_size=min(queue, PREFETCH_MAX),
        ack_timeout_s=ack_timeout / 1000,
        nack_delay_s=query.number("negativeAckRedeliveryDelay", 60_000, 0, 86_400_000) / 1000,
        encrypted=_encrypted(query),
        opener=opener(),
        redeliveries_max=redeliveries,
        dead_letters=topic_name(dead_letter_topic) if dead_letter_topic else "",
    )
    endpoint = ConsumerEndpoint(queue, pull=query.flag("pullMode"))
    endpoint.consumer = await TopicConsumer.open(
        client,
        topics,
        settings,
        on_messages=endpoint.receiver(client, decode=query.flag("decode")),
        on_end=endpoint.end,
        pattern=pattern,
    )
    return endpoint


def _queue_size(query: Query) -> int:
    return max(min(query.number("receiverQueueSize", QUEUE_MAX, 0, 1_000_000), QUEUE_MAX), 1)


def _encrypted(query: Query) -> Encrypted:
    """Return the action for messages that cannot be decrypted; as in Pulsar, an unknown one means the default."""
    action = query.values.get("cryptoFailureAction", "FAIL")
    return cast(Encrypted, action) if action in ("FAIL", "DISCARD", "CONSUME") else "FAIL"


def _topics(query: Query, target: Target) -> tuple[list[str], bool]:
    """Return full topic names and False, or a pattern of topic names and True. Raises HandshakeRefusedError."""
    if target.topic:
        return [target.topic], False
    pattern, names = query.text("topicsPattern"), query.text("topics")
    if "topicsPattern" in query.values and "topics" in query.values:
        raise HandshakeRefusedError(500, "Topics must be null when use topicsPattern")
    if pattern:
        full_pattern = pattern if "://" in pattern else f"persistent://public/default/{pattern}"
        try:
            LinearRegex(TopicName.parse(full_pattern).local)
        except (RegexSyntaxError, UnsupportedRegexError, MagnetarError) as error:
            raise HandshakeRefusedError(
                400, f"Invalid query params: topicsPattern: {error}"
            ) from error
        return [full_pattern], True
    if not names:
        raise HandshakeRefusedError(500, "Should set topics or topicsPattern")
    parts = [name.strip() for name in names.split(",", TOPICS_MAX)]
    if not all(parts):
        raise HandshakeRefusedError(400, "Invalid query params: topicNames cannot have blank topic")
    try:
        topics = [topic_name(name) for name in parts]
    except HandshakeRefusedError as error:
        raise HandshakeRefusedError(500, error.text) from error
    if len(topics) > TOPICS_MAX:
        raise HandshakeRefusedError(400, f"Invalid query params: more than {TOPICS_MAX} topics")
    return list(dict.fromkeys(topics)), False


async def _open_reader(
    scope: sockets.Scope, target: Target, client: PulsarClient
) -> "ReaderEndpoint":
    """Open the endpoint of a reader. As in Pulsar, every error is answered with status 500, also the client's own."""
    try:
        query = Query.parse(scope["query_string"])
        queue = _queue_size(query)
    except HandshakeRefusedError as error:
        raise HandshakeRefusedError(500, error.text) from error
    endpoint = ReaderEndpoint(queue)
    try:
        endpoint.consumer = await TopicReader.open_at(
            client,
            target.topic,
            _start_position((query.text("messageId") or "").strip() or "latest"),
            on_messages=endpoint.receiver(client, decode=query.flag("decode")),
            on_end=endpoint.end,
            name=query.text("readerName") or "",
            queue_size=min(queue, PREFETCH_MAX),
            settings=ConsumerSettings("", encrypted=_encrypted(query), opener=opener()),
        )
    except MagnetarError as error:
        raise HandshakeRefusedError(500, f"Failed to create reader: {error}") from error
    return endpoint


def _start_position(text: str) -> MessageId:
    """Return the position that a reader starts at. Raises MagnetarError."""
    if text in ("earliest", "latest"):
        return EARLIEST_ID if text == "earliest" else LATEST_ID
    try:
        return message_id_of(text)
    except ReplyError as error:
        raise MessageIdError(str(error)) from error


class ConsumerEndpoint:
    """One socket and its consumer, whose permits are renewed by the client's answers (W1)."""

    consumer: TopicConsumer

    def __init__(self, size: int, *, pull: bool = False) -> None:
        """Create the endpoint; ``size`` deliveries may be unanswered in push mode."""
        self._size = size
        self._pull = pull
        self._window = Window()
        self._frames: DeliveryFrames = DeliveryFrames()
        self._port: SocketPort | None = None
        self._unsubscribed = False
        self._tasks: TaskScope | None = None
        """Created with the first task, which few sockets need."""

    def accepted(self, port: SocketPort) -> None:
        self._port = port
        if self.consumer.error is not None:
            self.end(self.consumer.error)
        port.listen(self._receive)
        if not self._pull:
            self.consumer.allow(self._size)

    async def close(self) -> None:
        if self._tasks is not None:
            self._tasks.cancel()
        await self.consumer.close()

    def end(self, error: MagnetarError) -> None:
        """Close the socket, since its consumer has ended by itself."""
        if self._port is not None and not self._unsubscribed:
            self._port.close(FAILED, str(error))

    # --- messages to the client -------------------------------------------------------------------

    def receiver(
        self, client: PulsarClient, *, decode: bool
    ) -> Callable[[Sequence[Incoming]], None]:
        """Return the callback for messages of the consumer.

        ``decode``: messages are sent with their values, which may have to wait for a schema.
        """
        if not decode:
            return self.deliver
        schemas = SchemaCache(client)
        self._frames = ValueFrames(schemas)
        queue = DecodeQueue(schemas, self.deliver)

        def receive(run: Sequence[Incoming]) -> None:
            if not queue.add(run):
                self.consumer.hold()
                if not queue.draining:
                    queue.draining = True
                    self._spawn("decode", self._drain(queue))

        return receive

    async def _drain(self, queue: DecodeQueue) -> None:
        assert self._port is not None
        await queue.drain(self._port)
        self.consumer.go_on()

    def deliver(self, run: Sequence[Incoming]) -> None:
        """Send messages for which there were permits."""
        port = self._port
        assert port is not None
        text_of, frame_of, delivered = (
            self._frames.message_id,
            self._frames.frame,
            self._window.delivered,
        )
        for message in run:
            message_id = text_of(message)
            delivered(message_id, message.given)
            port.send_text(frame_of(message_id, message))
        if not port.writable:
            self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        self.consumer.hold()
        self._spawn("wait for the reader", self._wait_drained())

    async def _wait_drained(self) -> None:
        assert self._port is not None
        await self._port.drained()
        self.consumer.go_on()

    def _spawn(self, name: str, work: Any) -> None:
        if self._tasks is None:
            self._tasks = TaskScope("consuming", on_error=self._failed)
        self._tasks.spawn(name, work)

    def _failed(self, name: str, error: BaseException) -> None:
        """Close the socket after an unexpected error of a task, whose work would never be continued."""
        log.error("websocket failed task=%s error=%r", name, error, exc_info=error)
        if self._port is not None:
            self._port.close(FAILED, f"internal error: {type(error).__name__}")

    # --- answers of the client --------------------------------------------------------------------

    def _receive(self, texts: list[str]) -> None:
        """Handle the frames of one read of the socket."""
        free = 0
        for text in texts:
            answered = self._window.answered(simple_answer(text))
            if answered is not None:
                given, deliveries = answered
                free += deliveries
                if not self._unsubscribed:
                    self.consumer.acknowledge(given)
                continue
            try:
                free += self._handle(text)
            except ReplyError as error:
                self._refuse(error)
                return
        if free and not self._pull:
            self.consumer.allow(free)

    def _refuse(self, error: ReplyError) -> None:
        port = self._port
        assert port is not None
        if isinstance(error, NoJsonError):
            port.abort()  # Pulsar closes without a close frame, too.
        else:
            port.close(error.code, str(error))

    def _handle(self, text: str) -> int:
        """Handle any frame but a plain acknowledgement; return how many deliveries it answers. Raises ReplyError."""
        match parse_reply(text):
            case Permit() as permit:
                if self._pull:
                    self.consumer.allow(permit.checked())
            case EndOfTopicQuestion():
                assert self._port is not None
                self._port.send_text(end_of_topic(self.consumer.at_end))
            case Unsubscription():
                if not self._unsubscribed:
                    self._unsubscribed = True
                    self._spawn("unsubscribe", self._unsubscribe())
            case Acknowledgement() as answer:
                return self._settle(answer)
        return 0

    def _settle(self, answer: Acknowledgement) -> int:
        """Pass an acknowledgement to the consumer; return how many deliveries it answers. Raises ReplyError."""
        text = answer.text()
        answered = self._window.answered(text)
        if answered is None:
            # A message of an earlier socket, or one forgotten by the window: it took no permits of this one.
            message_id = message_id_of(text)
            if not self._unsubscribed:
                settle = (
                    self.consumer.refuse_id if answer.negative else self.consumer.acknowledge_id
                )
                settle(message_id)
            return 0
        given, deliveries = answered
        if not self._unsubscribed:
            (self.consumer.refuse if answer.negative else self.consumer.acknowledge)(given)
        return deliveries

    async def _unsubscribe(self) -> None:
        try:
            await self.consumer.unsubscribe()
        except MagnetarError as error:
            self._unsubscribed = False
            self.end(error)


class ReaderEndpoint(ConsumerEndpoint):
    """One socket and its reader: every answer permits one more message, whatever message id it holds."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._unanswered = 0

    def deliver(self, run: Sequence[Incoming]) -> None:
        port = self._port
        assert port is not None
        self._unanswered += len(run)
        text_of, frame_of = self._frames.message_id, self._frames.frame
        for message in run:
            port.send_text(frame_of(text_of(message), message))
        if not port.writable:
            self._wait_for_reader()

    def _receive(self, texts: list[str]) -> None:
        free = 0
        for text in texts:
            try:
                if simple_answer(text) or self._is_answer(text):
                    free += 1
            except ReplyError as error:
                self._refuse(error)
                return
        free = min(free, self._unanswered)
        if free:
            self._unanswered -= free
            self.consumer.allow(free)

    def _is_answer(self, text: str) -> bool:
        if isinstance(parse_reply(text), EndOfTopicQuestion):
            assert self._port is not None
            self._port.send_text(end_of_topic(self.consumer.at_end))
            return False
        return True
