"""``/ws/v2/producer/…``: JSON messages in, receipts out. Sends are pipelined; answers come as the broker confirms.

What one read of the socket brought is published as a run, and the receipts of a run are answered together. W4: the
socket is read while what has no answer is within its bounds and the client reads its answers.
"""

from collections.abc import Sequence

from engine.base.budget import Budget
from engine.base.tasks import TaskScope
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, Routing
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer
from gateway.http.socket_port import SocketPort
from gateway.services.clients import client
from gateway.ws import frames, sockets
from gateway.ws.encryption import COMPRESSIONS, key_fields
from gateway.ws.frames import Query, RefusedError
from gateway.ws.keys import sealer
from gateway.ws.paths import Target

IN_FLIGHT_MAX = 1000
IN_FLIGHT_BYTES_MAX = 16 << 20
IN_FLIGHT_BYTES_OWN = 64 << 10
"""Of one socket, which it has whatever the others hold: messages of a topic that takes none may wait for ever."""
ALL_IN_FLIGHT_BYTES_MAX = 48 << 20
"""Of all sockets, beside what is their own; below the unsent bytes at which a connection to a broker is cut."""
ROUTING = {
    "SinglePartition": Routing.SINGLE,
    "RoundRobinPartition": Routing.ROUND_ROBIN,
    "CustomPartition": Routing.SINGLE,
}

_all_in_flight = Budget(ALL_IN_FLIGHT_BYTES_MAX)


async def application(
    scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send, target: Target
) -> None:
    """The endpoint."""
    await sockets.run(scope, receive, send, lambda: _open(scope, target))


async def _open(scope: sockets.Scope, target: Target) -> "Publishing":
    query = Query.parse(scope["query_string"])
    in_flight_max = IN_FLIGHT_MAX
    batching = None
    keys = _keys(query)
    if keys is None and query.flag("batchingEnabled"):
        messages_max = query.number("batchingMaxMessages", 1000, -(1 << 31), 1 << 31)
        batching = BatchSettings(
            messages_max=messages_max if messages_max > 0 else in_flight_max,
            delay_s=query.number("batchingMaxPublishDelay", 10, 1, 60_000) / 1000,
        )
        pending_max = query.number("maxPendingMessages", in_flight_max, 0, 1 << 31)
        in_flight_max = min(pending_max or in_flight_max, in_flight_max)
    name = query.values.get("producerName")
    if name is not None and not name.strip():
        raise RefusedError(400, "Invalid query params: producerName cannot be blank")
    sequence = query.number("initialSequenceId", -1, -(1 << 62), (1 << 62) - 1)
    routing = query.choice("messageRoutingMode", frames.ROUTINGS, "SinglePartition")
    hashing = query.choice("hashingScheme", tuple(one.value for one in Hashing), "JavaStringHash")
    compression = "NONE"
    if keys is None:  # else the client packs
        compression = query.choice("compressionType", COMPRESSIONS, "NONE")
    settings = ProducerSettings(
        name=name,
        initial_sequence_id=sequence if sequence >= 0 else None,
        send_timeout_s=query.number("sendTimeoutMillis", 30_000, 0, 3_600_000) / 1000,
        routing=ROUTING[routing],
        hashing=Hashing(hashing),
        batching=batching,
        compression=COMPRESSIONS.index(compression),
        sealer=sealer(query.values["encryptionKeys"])
        if keys is None and "encryptionKeys" in query.values
        else None,
    )
    made = Publishing(in_flight_max, keys)
    await made.open(target.topic, settings)
    return made


def _keys(query: Query) -> bytes | None:
    """Of a client that encrypts. Raises RefusedError."""
    given = query.values.get("encryptionKeys")
    if given is None:
        return None
    try:
        keys = key_fields(given)
    except ValueError as error:
        raise RefusedError(400, f"Invalid query params: {error}") from error
    return keys


class Publishing:
    """One socket and its producer."""

    def __init__(self, in_flight_max: int, keys: bytes | None = None) -> None:
        """``keys``: of a client that encrypts."""
        self._keys = keys
        self._client = client()
        self._budget = Budget(
            IN_FLIGHT_BYTES_MAX,
            in_flight_max,
            on_high=self._hold,
            on_low=self._go_on,
            parent=_all_in_flight,
            share=IN_FLIGHT_BYTES_OWN,
        )
        self._producer: TopicProducer | None = None
        self._port: SocketPort | None = None
        self._tasks: TaskScope | None = None
        """Made when the client lets answers wait, which few do."""

    async def open(self, topic: str, settings: ProducerSettings) -> None:
        """Raises as TopicProducer.open."""
        self._producer = await TopicProducer.open(
            self._client, topic, settings, budget=self._budget, on_results=self._answer
        )

    def accepted(self, port: SocketPort) -> None:
        self._port = port
        port.listen(self._take)

    async def close(self) -> None:
        if self._tasks is not None:
            self._tasks.cancel()
        if self._producer is not None:
            await self._producer.close()

    def _take(self, texts: list[str]) -> None:
        """Publish the messages of one read of the socket; what is none is answered at once."""
        assert self._producer is not None
        assert self._port is not None
        messages: list[OutgoingMessage] = []
        now_ms = self._client.clock.wall_ms()
        for text in texts:
            try:
                messages.append(frames.parse_message(text, now_ms, self._keys))
            except frames.FrameError as error:
                self._port.send_text(frames.not_sent(error.code, str(error), error.context))
        if messages:
            self._producer.send(messages)
        if not self._port.writable:
            self._wait_for_reader()

    def _answer(self, results: Sequence[SendResult]) -> None:
        """W3. ``ok`` only with the broker's receipt in hand."""
        port = self._port
        if port is None:
            return  # not accepted yet, so nothing was sent
        for token, message_id, error in results:
            if message_id is not None:
                port.send_text(frames.sent(message_id.serialized(), token))
            else:
                port.send_text(frames.not_sent(frames.UNKNOWN_ERROR, str(error), token))
        if not port.writable:
            self._wait_for_reader()

    # --- whether the socket is read ---------------------------------------------------------------

    def _hold(self) -> None:
        if self._port is not None:
            self._port.pause_reading()

    def _go_on(self) -> None:
        if self._port is not None and self._port.writable:
            self._port.resume_reading()

    def _wait_for_reader(self) -> None:
        self._hold()
        if self._tasks is None:
            self._tasks = TaskScope("publishing")
            self._tasks.spawn("wait for the reader", self._wait_drained())

    async def _wait_drained(self) -> None:
        assert self._port is not None
        await self._port.drained()
        self._tasks = None
        if not self._budget.high:
            self._port.resume_reading()
