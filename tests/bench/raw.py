"""A raw client that sends pre-encoded frames, so that the client is not the limit of a load test.

It speaks just enough of the protocol: connect, look up, one producer with a window of unanswered messages, one
consumer that grants permits and counts. Messages are unbatched and carry a checksum, as every client's do.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes, command_frame

PERMITS = 2000


def payload_of(size: int, publish_ms: int = 1_700_000_000_000) -> bytes:
    """Checksum, metadata and a value of ``size`` bytes: everything of a SEND frame behind its command."""
    metadata = pb.MessageMetadata(producer_name="bench", sequence_id=0, publish_time=publish_ms)
    head = metadata.SerializeToString()
    body = len(head).to_bytes(4, "big") + head + (b"0123456789abcdef" * (size // 16 + 1))[:size]
    return b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body


def send_frame(payload: bytes, producer_id: int, sequence_id: int) -> bytes:
    command = command_bytes("send", {"producer_id": producer_id, "sequence_id": sequence_id})
    total = 4 + len(command) + len(payload)
    return total.to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + payload


class Link(asyncio.Protocol):
    """One connection: control replies are handed to whoever waits, receipts and messages are counted."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tail = b""
        self._waiting: asyncio.Future[pb.BaseCommand] | None = None
        self.receipts = 0
        self.messages = 0
        self.errors: list[str] = []
        self.changed = asyncio.Event()
        self.arrivals: list[float] = []
        self.keep_arrivals = False
        self.consumer_id = -1
        self._owed = 0
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        transport.set_write_buffer_limits(4 << 20)  # type: ignore[attr-defined]

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.errors.append(f"connection lost: {exc}")
        self.changed.set()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        if self._tail:
            data = self._tail + data
        pos, end = 0, len(data)
        messages = 0
        while end - pos >= 10:
            stop = pos + 4 + int.from_bytes(data[pos : pos + 4], "big")
            if stop > end:
                break
            kind = data[pos + 9]  # the command starts with its type: 08 TT
            if kind == pb.BaseCommand.SEND_RECEIPT:
                self.receipts += 1
            elif kind == pb.BaseCommand.MESSAGE:
                messages += 1
            else:
                self._control(
                    data[pos + 8 : pos + 8 + int.from_bytes(data[pos + 4 : pos + 8], "big")]
                )
            pos = stop
        self._tail = data[pos:]
        if messages:
            self._count(messages)
        self.changed.set()

    def _count(self, messages: int) -> None:
        self.messages += messages
        if self.keep_arrivals:
            self.arrivals.extend([time.perf_counter()] * messages)
        self._owed += messages
        if self._owed >= PERMITS // 2:
            flow = command_frame("flow", consumer_id=self.consumer_id, messagePermits=self._owed)
            self.transport.write(flow)
            self._owed = 0

    def _control(self, raw: bytes) -> None:
        command = pb.BaseCommand.FromString(raw)
        if command.type == pb.BaseCommand.PING:
            self.transport.write(command_frame("pong"))
        elif command.type == pb.BaseCommand.SEND_ERROR:
            self.errors.append(command.send_error.message)
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(command)

    async def ask(self, field: str, **body: Any) -> pb.BaseCommand:
        """Send a command and wait for the next control reply. Raises RuntimeError when it is an error."""
        self._waiting = self._loop.create_future()
        self.transport.write(command_frame(field, **body))
        reply = await asyncio.wait_for(self._waiting, 30)
        if reply.type == pb.BaseCommand.ERROR:
            raise RuntimeError(f"{field}: {reply.error.message}")
        return reply

    async def until(self, done: Any, timeout_s: float = 120.0) -> None:
        """Wait until ``done()``; raises RuntimeError when the server refused something meanwhile."""
        async with asyncio.timeout(timeout_s):
            while not done():
                if self.errors:
                    raise RuntimeError(self.errors[0])
                self.changed.clear()
                await self.changed.wait()

    async def writable(self) -> None:
        await self._writable.wait()


async def connect(url: str, topic: str) -> Link:
    """A connection to the broker that owns ``topic``."""
    address = url
    for _ in range(5):
        host, port = address.removeprefix("pulsar://").split(":")
        _, link = await asyncio.get_running_loop().create_connection(Link, host, int(port))
        await link.ask("connect", client_version="bench", protocol_version=20)
        await link.ask("partitionMetadata", topic=topic, request_id=1)
        found = (await link.ask("lookupTopic", topic=topic, request_id=2)).lookupTopicResponse
        if found.response == pb.CommandLookupTopicResponse.Connect and found.brokerServiceUrl in (
            "",
            address,
        ):
            return link
        address = found.brokerServiceUrl or address
        if found.response == pb.CommandLookupTopicResponse.Connect:
            link.transport.close()
    raise RuntimeError(f"no owner of {topic} after 5 redirects")


async def open_producer(link: Link, topic: str, producer_id: int = 1) -> None:
    await link.ask("producer", topic=topic, producer_id=producer_id, request_id=10 + producer_id)


async def subscribe(link: Link, topic: str, name: str, earliest: bool = True) -> None:
    link.consumer_id = 1
    start = pb.CommandSubscribe.Earliest if earliest else pb.CommandSubscribe.Latest
    await link.ask(
        "subscribe",
        topic=topic,
        subscription=name,
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=1,
        request_id=20,
        initialPosition=start,
    )
    link.transport.write(command_frame("flow", consumer_id=1, messagePermits=PERMITS))


def blocks(
    payload: bytes, count: int, producer_ids: Sequence[int] = (1,), first: int = 0
) -> list[bytes]:
    """``count`` frames joined into blocks of at most 64 KiB, producers in turn."""
    out: list[bytes] = []
    part: list[bytes] = []
    size = 0
    for i in range(count):
        producer_id = producer_ids[i % len(producer_ids)]
        part.append(send_frame(payload, producer_id, first + i // len(producer_ids)))
        size += len(part[-1])
        if size > 65536:
            out.append(b"".join(part))
            part, size = [], 0
    if part:
        out.append(b"".join(part))
    return out


async def publish(link: Link, frames: Sequence[bytes], counts: Sequence[int], window: int) -> float:
    """Send all blocks with at most ``window`` messages unanswered; seconds until the last receipt."""
    began = time.perf_counter()
    base = link.receipts
    sent = 0
    for block, count in zip(frames, counts, strict=True):
        if sent + count - (link.receipts - base) > window:
            target = base + sent + count - window
            await link.until(lambda target=target: link.receipts >= target)
        await link.writable()
        link.transport.write(block)
        sent += count
    await link.until(lambda: link.receipts - base >= sent)
    return time.perf_counter() - began


async def one_in_flight(link: Link, payload: bytes, count: int, first: int) -> list[float]:
    """Send one message after another; seconds from send to receipt of each."""
    took = []
    for i in range(count):
        frame = send_frame(payload, 1, first + i)
        wanted = link.receipts + 1
        began = time.perf_counter()
        link.transport.write(frame)
        await link.until(lambda wanted=wanted: link.receipts >= wanted)
        took.append(time.perf_counter() - began)
    return took
