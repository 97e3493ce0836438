"""``/ws/v2/producer/…``: JSON messages in, receipts out. Sends are pipelined; answers come as the broker confirms."""

import asyncio
from typing import Any

import pulsar
import pulsar.asyncio

from gateway.ws import frames, sockets
from gateway.ws.frames import Outgoing, Query
from gateway.ws.paths import Target

IN_FLIGHT_MAX = 1000
IN_FLIGHT_CHARACTERS_MAX = 16 << 20
ROUTING = {
    "SinglePartition": pulsar.PartitionsRoutingMode.UseSinglePartition,
    "RoundRobinPartition": pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    "CustomPartition": pulsar.PartitionsRoutingMode.UseSinglePartition,
}
COMPRESSION = {
    "NONE": pulsar.CompressionType.NONE,
    "LZ4": pulsar.CompressionType.LZ4,
    "ZLIB": pulsar.CompressionType.ZLib,
    "ZSTD": pulsar.CompressionType.ZSTD,
    "SNAPPY": pulsar.CompressionType.SNAPPY,
}


async def application(
    scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send, target: Target
) -> None:
    """The endpoint."""
    await sockets.serve(scope, receive, send, lambda: _open(scope, target), _talk)


async def _open(scope: sockets.Scope, target: Target) -> pulsar.asyncio.Producer:
    query = Query.parse(scope["query_string"])
    sequence = query.number("initialSequenceId", -1, -1, (1 << 62) - 1)
    routing = query.choice("messageRoutingMode", frames.ROUTINGS, "SinglePartition")
    query.choice("hashingScheme", ("JavaStringHash", "Murmur3_32Hash"), "JavaStringHash")
    batching = query.flag("batchingEnabled")
    options: dict[str, Any] = {}
    if sequence >= 0:
        options["initial_sequence_id"] = sequence
    if batching:
        options["batching_max_messages"] = query.number("batchingMaxMessages", 1000, 1, 100_000)
        options["batching_max_publish_delay_ms"] = query.number(
            "batchingMaxPublishDelay", 10, 1, 60_000
        )
        options["max_pending_messages"] = query.number("maxPendingMessages", 1000, 1, 100_000)
    return await (await sockets.client()).create_producer(
        target.topic,
        producer_name=query.text("producerName"),
        send_timeout_millis=query.number("sendTimeoutMillis", 30_000, 0, 3_600_000),
        message_routing_mode=ROUTING[routing],
        batching_enabled=batching,
        compression_type=COMPRESSION[query.choice("compressionType", frames.COMPRESSIONS, "NONE")],
        **options,
    )


class _Pending:
    """W4. Messages that are not answered yet, bounded in number and in characters of their frames.

    For one reader of the socket: it alone waits. A frame of any size fits when nothing else is pending.
    """

    def __init__(self) -> None:
        self._count = 0
        self._characters = 0
        self._less = asyncio.Event()

    async def add(self, characters: int) -> None:
        """Wait for room and take it. Cancel-safe."""
        while self._full(characters):
            self._less.clear()
            await self._less.wait()
        self._count += 1
        self._characters += characters

    def _full(self, more: int) -> bool:
        if self._count == 0:
            return False
        too_large = self._characters + more > IN_FLIGHT_CHARACTERS_MAX
        return too_large or self._count >= IN_FLIGHT_MAX

    def remove(self, characters: int) -> None:
        self._count -= 1
        self._characters -= characters
        self._less.set()


async def _talk(socket: sockets.Socket, producer: pulsar.asyncio.Producer) -> None:
    pending = _Pending()
    async with asyncio.TaskGroup() as group:
        while (text := await socket.next_text()) is not None:
            try:
                message = frames.parse_message(text)
            except frames.FrameError as error:
                await socket.send_text(frames.not_sent(error.code, str(error), error.context))
                continue
            await pending.add(len(text))  # a full pipeline stops reading the socket
            group.create_task(_publish(socket, producer, message, pending, len(text)))


async def _publish(
    socket: sockets.Socket,
    producer: pulsar.asyncio.Producer,
    message: Outgoing,
    pending: _Pending,
    characters: int,
) -> None:
    try:
        await socket.send_text(await _answer_to(producer, message))
    finally:
        pending.remove(characters)  # not before: answers wait for a client that does not read


async def _answer_to(producer: pulsar.asyncio.Producer, message: Outgoing) -> str:
    """W3. Publish and say how it went: ``ok`` only with the broker's receipt in hand."""
    try:
        message_id = await producer.send(
            message.content,
            properties=message.properties,
            partition_key=message.key,
            event_timestamp=message.event_ms,
            replication_clusters=message.clusters,
            deliver_at=message.deliver_at_ms,
            deliver_after=pulsar.timedelta(milliseconds=message.deliver_after_ms)
            if message.deliver_after_ms
            else None,
        )
    except (pulsar.asyncio.PulsarException, ValueError, TypeError, OverflowError) as error:
        return frames.not_sent(frames.UNKNOWN_ERROR, str(error), message.context)
    return frames.sent(message_id.serialize(), message.context)
