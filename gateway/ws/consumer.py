"""``/ws/v2/consumer/…`` and ``/ws/v2/reader/…``: messages out; acknowledgements, permits and questions in.

Push mode sends while fewer than ``receiverQueueSize`` messages are unanswered; pull mode (``pullMode=true``) sends as
many as the client permitted. W2: a closed socket returns what it held, since nothing is acknowledged but by the client.
What one read of a broker's connection brought leaves in one write, and what one read of the socket brought is
acknowledged together; a client that does not read is given no more.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.base.regex.linear import LinearRegex
from engine.base.regex.syntax import RegexSyntaxError, UnsupportedRegexError
from engine.base.tasks import TaskScope
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.consuming.topic_reader import TopicReader
from engine.client.message_ids import EARLIEST_ID, LATEST_ID, MessageId, MessageIdError
from gateway.http.socket_port import SocketPort
from gateway.services.clients import client
from gateway.ws import sockets
from gateway.ws.deliveries import DeliveryFrames, end_of_topic
from gateway.ws.frames import QUEUE_MAX, SUBSCRIPTION_TYPES, Query, RefusedError
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
from gateway.ws.values import Schemas, Turns, ValueFrames
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
    scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send, target: Target
) -> None:
    """The consumer endpoint."""
    await sockets.run(scope, receive, send, lambda: _subscribe(scope, target))


async def reader(
    scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send, target: Target
) -> None:
    """The reader endpoint; it too wants ``{"messageId"}`` back to go on, as Pulsar's does."""
    await sockets.run(scope, receive, send, lambda: _open_reader(scope, target))


async def _subscribe(scope: sockets.Scope, target: Target) -> "Consuming":
    query = Query.parse(scope["query_string"])
    queue = _queue_size(query)
    kind = query.choice("subscriptionType", SUBSCRIPTION_TYPES, "Exclusive")
    position = query.choice("subscriptionInitialPosition", POSITIONS, "Latest")
    mode = query.choice("subscriptionMode", MODES, "Durable")
    topics, pattern = _topics(query, target)
    ack_timeout = query.number("ackTimeoutMillis", 0, 0, 86_400_000)
    if 0 < ack_timeout < ACK_TIMEOUT_MS_MIN:
        text = f"Ack timeout should be greater than {ACK_TIMEOUT_MS_MIN} ms"
        raise RefusedError(400, f"Invalid query params: {text}")
    if not query.values.get("consumerName", "x").strip():
        raise RefusedError(400, "Invalid query params: consumerName cannot be blank")
    has_letters = "maxRedeliverCount" in query.values or "deadLetterTopic" in query.values
    redeliveries = query.number("maxRedeliverCount", 0, 0, 1_000_000)
    if has_letters and not redeliveries:
        raise RefusedError(400, "Invalid query params: MaxRedeliverCount must be > 0.")
    letters = query.text("deadLetterTopic")
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
        dead_letters=topic_name(letters) if letters else "",
    )
    made = Consuming(queue, pull=query.flag("pullMode"))
    made.consumer = await TopicConsumer.open(
        client(),
        topics,
        settings,
        on_messages=made.taker(decode=query.flag("decode")),
        on_end=made.end,
        pattern=pattern,
    )
    return made


def _queue_size(query: Query) -> int:
    return max(min(query.number("receiverQueueSize", QUEUE_MAX, 0, 1_000_000), QUEUE_MAX), 1)


def _encrypted(query: Query) -> Encrypted:
    """What is no known action is the default, as Pulsar has it."""
    action = query.values.get("cryptoFailureAction", "FAIL")
    return cast(Encrypted, action) if action in ("FAIL", "DISCARD", "CONSUME") else "FAIL"


def _topics(query: Query, target: Target) -> tuple[list[str], bool]:
    """Full topic names, or one pattern of them and True."""
    if target.topic:
        return [target.topic], False
    pattern, names = query.text("topicsPattern"), query.text("topics")
    if "topicsPattern" in query.values and "topics" in query.values:
        raise RefusedError(500, "Topics must be null when use topicsPattern")
    if pattern:
        whole = pattern if "://" in pattern else f"persistent://public/default/{pattern}"
        try:
            LinearRegex(TopicName.parse(whole).local)
        except (RegexSyntaxError, UnsupportedRegexError, MagnetarError) as error:
            raise RefusedError(400, f"Invalid query params: topicsPattern: {error}") from error
        return [whole], True
    if not names:
        raise RefusedError(500, "Should set topics or topicsPattern")
    parts = [name.strip() for name in names.split(",", TOPICS_MAX)]
    if not all(parts):
        raise RefusedError(400, "Invalid query params: topicNames cannot have blank topic")
    try:
        found = [topic_name(name) for name in parts]
    except RefusedError as error:
        raise RefusedError(500, error.text) from error
    if len(found) > TOPICS_MAX:
        raise RefusedError(400, f"Invalid query params: more than {TOPICS_MAX} topics")
    return list(dict.fromkeys(found)), False


async def _open_reader(scope: sockets.Scope, target: Target) -> "Reading":
    """Whatever is wrong with a reader is the server's fault by its status, as Pulsar has it."""
    try:
        query = Query.parse(scope["query_string"])
        queue = _queue_size(query)
    except RefusedError as error:
        raise RefusedError(500, error.text) from error
    made = Reading(queue)
    try:
        made.consumer = await TopicReader.open_at(
            client(),
            target.topic,
            _start((query.text("messageId") or "").strip() or "latest"),
            on_messages=made.taker(decode=query.flag("decode")),
            on_end=made.end,
            name=query.text("readerName") or "",
            queue_size=min(queue, PREFETCH_MAX),
            settings=ConsumerSettings("", encrypted=_encrypted(query), opener=opener()),
        )
    except MagnetarError as error:
        raise RefusedError(500, f"Failed to create reader: {error}") from error
    return made


def _start(text: str) -> MessageId:
    """Raises MagnetarError."""
    if text in ("earliest", "latest"):
        return EARLIEST_ID if text == "earliest" else LATEST_ID
    try:
        return message_id_of(text)
    except ReplyError as error:
        raise MessageIdError(str(error)) from error


class Consuming:
    """One socket and its consumer, which is allowed what was answered (W1)."""

    consumer: TopicConsumer

    def __init__(self, size: int, *, pull: bool = False) -> None:
        """``size``: how many deliveries may be unanswered in push mode."""
        self._size = size
        self._pull = pull
        self._window = Window()
        self._frames: DeliveryFrames = DeliveryFrames()
        self._port: SocketPort | None = None
        self._unsubscribed = False
        self._tasks: TaskScope | None = None
        """Made when there is something to wait for, as on few sockets."""

    def accepted(self, port: SocketPort) -> None:
        self._port = port
        if self.consumer.error is not None:
            self.end(self.consumer.error)
        port.listen(self._take)
        if not self._pull:
            self.consumer.allow(self._size)

    async def close(self) -> None:
        if self._tasks is not None:
            self._tasks.cancel()
        await self.consumer.close()

    def end(self, error: MagnetarError) -> None:
        """The consumer is over by itself."""
        if self._port is not None and not self._unsubscribed:
            self._port.close(FAILED, str(error))

    # --- out --------------------------------------------------------------------------------------

    def taker(self, *, decode: bool) -> Callable[[Sequence[Incoming]], None]:
        """What takes messages that were allowed. ``decode``: with their values, which may have to wait."""
        if not decode:
            return self.deliver
        schemas = Schemas(client())
        self._frames = ValueFrames(schemas)
        turns = Turns(schemas, self.deliver)

        def take(run: Sequence[Incoming]) -> None:
            if not turns.take(run):
                self.consumer.hold()
                if not turns.resting:
                    turns.resting = True
                    self._spawn("decode", self._deliver_rest(turns))

        return take

    async def _deliver_rest(self, turns: Turns) -> None:
        assert self._port is not None
        await turns.rest(self._port)
        self.consumer.go_on()

    def deliver(self, run: Sequence[Incoming]) -> None:
        """Send messages, which were allowed."""
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
        """A task ended by what it did not expect: nobody goes on in its place, so the socket ends."""
        log.error("websocket failed task=%s error=%r", name, error, exc_info=error)
        if self._port is not None:
            self._port.close(FAILED, f"internal error: {type(error).__name__}")

    # --- in ---------------------------------------------------------------------------------------

    def _take(self, texts: list[str]) -> None:
        """What one read of the socket brought."""
        free = 0
        for text in texts:
            found = self._window.answered(simple_answer(text))
            if found is not None:
                free += found[1]
                if not self._unsubscribed:
                    self.consumer.acknowledge(found[0])
                continue
            try:
                free += self._take_other(text)
            except ReplyError as error:
                self._refuse(error)
                return
        if free and not self._pull:
            self.consumer.allow(free)

    def _refuse(self, error: ReplyError) -> None:
        port = self._port
        assert port is not None
        if isinstance(error, NoJsonError):
            port.abort()  # as Pulsar's, which says nothing
        else:
            port.close(error.code, str(error))

    def _take_other(self, text: str) -> int:
        """How many deliveries it answers. Raises ReplyError."""
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
                return self._answer(answer)
        return 0

    def _answer(self, answer: Acknowledgement) -> int:
        """Also of what an earlier socket was given: that only makes no room here. Raises ReplyError."""
        text = answer.text()
        found = self._window.answered(text)
        if found is None:
            message_id = message_id_of(text)
            if not self._unsubscribed:
                told = self.consumer.refuse_id if answer.negative else self.consumer.acknowledge_id
                told(message_id)
            return 0
        if not self._unsubscribed:
            (self.consumer.refuse if answer.negative else self.consumer.acknowledge)(found[0])
        return found[1]

    async def _unsubscribe(self) -> None:
        try:
            await self.consumer.unsubscribe()
        except MagnetarError as error:
            self._unsubscribed = False
            self.end(error)


class Reading(Consuming):
    """One socket and its reader: every answer, whatever it names, lets one more message out."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._out = 0

    def deliver(self, run: Sequence[Incoming]) -> None:
        port = self._port
        assert port is not None
        self._out += len(run)
        text_of, frame_of = self._frames.message_id, self._frames.frame
        for message in run:
            port.send_text(frame_of(text_of(message), message))
        if not port.writable:
            self._wait_for_reader()

    def _take(self, texts: list[str]) -> None:
        free = 0
        for text in texts:
            try:
                if simple_answer(text) or self._is_answer(text):
                    free += 1
            except ReplyError as error:
                self._refuse(error)
                return
        free = min(free, self._out)
        if free:
            self._out -= free
            self.consumer.allow(free)

    def _is_answer(self, text: str) -> bool:
        if isinstance(parse_reply(text), EndOfTopicQuestion):
            assert self._port is not None
            self._port.send_text(end_of_topic(self.consumer.at_end))
            return False
        return True
