"""The endpoint ``/ws/v2/producer/…``: it receives messages as JSON and answers with receipts.

Messages are pipelined, and each is answered when the broker has confirmed it. The messages of one read of the socket
are published as a run, and the receipts of a run are answered together. The socket is read only while the unanswered
messages are within their bounds and the client reads its answers (W4).
"""

from collections.abc import Sequence

from engine.base.budget import Budget
from engine.base.tasks import TaskScope
from engine.client.client import PulsarClient
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, Routing
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer
from gateway.clusters.cluster import Cluster
from gateway.http.socket_port import SocketPort
from gateway.ws import frames, sockets
from gateway.ws.encryption import COMPRESSIONS, key_fields
from gateway.ws.frames import HandshakeRefusedError, Query
from gateway.ws.keys import sealer
from gateway.ws.paths import Target
from gateway.ws.rights import Opening

IN_FLIGHT_MAX = 1000
IN_FLIGHT_BYTES_MAX = 16 << 20
IN_FLIGHT_BYTES_OWN = 64 << 10
"""Bytes of one socket that do not count against all sockets: messages of other topics may be pending for ever."""
ALL_IN_FLIGHT_BYTES_MAX = 48 << 20
"""Bytes of all sockets of a cluster beyond IN_FLIGHT_BYTES_OWN each. It is below the unsent bytes at which a broker's
connection is closed."""
ROUTING = {
    "SinglePartition": Routing.SINGLE,
    "RoundRobinPartition": Routing.ROUND_ROBIN,
    "CustomPartition": Routing.SINGLE,
}


def all_in_flight(cluster: Cluster) -> Budget:
    """Return the budget of all sockets of a cluster, which is one of its parts."""
    return Budget(ALL_IN_FLIGHT_BYTES_MAX)


async def application(
    scope: sockets.Scope,
    receive: sockets.Receive,
    send: sockets.Send,
    target: Target,
    cluster: Cluster,
) -> None:
    """Serve the producer endpoint."""
    names = Opening((target.topic,))
    await sockets.run(
        *(scope, receive, send, "producer", cluster),
        lambda: names,
        lambda client: _open(scope, target, cluster, client),
    )


async def _open(
    scope: sockets.Scope, target: Target, cluster: Cluster, client: PulsarClient
) -> "ProducerEndpoint":
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
        raise HandshakeRefusedError(400, "Invalid query params: producerName cannot be blank")
    sequence = query.number("initialSequenceId", -1, -(1 << 62), (1 << 62) - 1)
    routing = query.choice("messageRoutingMode", frames.ROUTINGS, "SinglePartition")
    schemes = tuple(scheme.value for scheme in Hashing)
    hashing = query.choice("hashingScheme", schemes, "JavaStringHash")
    compression = "NONE"
    # A client that encrypts compresses by itself, since ciphertext cannot be compressed.
    if keys is None:
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
    budget = cluster.part(all_in_flight)
    endpoint = ProducerEndpoint(client, budget, in_flight_max, keys)
    await endpoint.open(target.topic, settings)
    return endpoint


def _keys(query: Query) -> bytes | None:
    """Return the serialized keys of a client that encrypts; None for any other client. Raises HandshakeRefusedError."""
    text = query.values.get("encryptionKeys")
    if text is None:
        return None
    try:
        keys = key_fields(text)
    except ValueError as error:
        raise HandshakeRefusedError(400, f"Invalid query params: {error}") from error
    return keys


class ProducerEndpoint:
    """One socket and its producer."""

    def __init__(
        self,
        client: PulsarClient,
        of_all: Budget,
        in_flight_max: int,
        keys: bytes | None = None,
    ) -> None:
        """Create the endpoint; ``of_all`` is the budget of all sockets, ``keys`` are the serialized keys of a client
        that encrypts."""
        self._keys = keys
        self._client = client
        self._budget = Budget(
            IN_FLIGHT_BYTES_MAX,
            in_flight_max,
            on_high=self._pause_reading,
            on_low=self._resume_reading,
            parent=of_all,
            share=IN_FLIGHT_BYTES_OWN,
        )
        self._producer: TopicProducer | None = None
        self._port: SocketPort | None = None
        self._tasks: TaskScope | None = None
        """Created when the client does not read its answers, which is rare."""

    async def open(self, topic: str, settings: ProducerSettings) -> None:
        """Open the producer. Raises as ``TopicProducer.open`` does."""
        self._producer = await TopicProducer.open(
            self._client, topic, settings, budget=self._budget, on_results=self._answer
        )

    def accepted(self, port: SocketPort) -> None:
        self._port = port
        port.listen(self._receive)

    async def close(self) -> None:
        if self._tasks is not None:
            self._tasks.cancel()
        if self._producer is not None:
            await self._producer.close()

    def _receive(self, texts: list[str]) -> None:
        """Publish the messages of one read of the socket; answer invalid frames at once."""
        assert self._producer is not None
        assert self._port is not None
        messages: list[OutgoingMessage] = []
        now_ms = self._client.clock.wall_ms()
        for text in texts:
            try:
                messages.append(frames.parse_message(text, now_ms, self._keys))
            except frames.ProducerFrameError as error:
                self._port.send_text(frames.not_sent(error.code, str(error), error.context))
        if messages:
            self._producer.send(messages)
        if not self._port.writable:
            self._wait_for_reader()

    def _answer(self, results: Sequence[SendResult]) -> None:
        """Answer messages; ``ok`` is sent only for a receipt of the broker (W3)."""
        port = self._port
        if port is None:
            return  # The handshake is not accepted yet, so no message was received.
        for token, message_id, error in results:
            if message_id is not None:
                port.send_text(frames.sent(message_id.serialized(), token))
            else:
                port.send_text(frames.not_sent(frames.UNKNOWN_ERROR, str(error), token))
        if not port.writable:
            self._wait_for_reader()

    # --- backpressure -----------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if self._port is not None:
            self._port.pause_reading()

    def _resume_reading(self) -> None:
        if self._port is not None and self._port.writable:
            self._port.resume_reading()

    def _wait_for_reader(self) -> None:
        self._pause_reading()
        if self._tasks is None:
            self._tasks = TaskScope("publishing")
            self._tasks.spawn("wait for the reader", self._wait_drained())

    async def _wait_drained(self) -> None:
        assert self._port is not None
        await self._port.drained()
        self._tasks = None
        if not self._budget.high:
            self._port.resume_reading()
