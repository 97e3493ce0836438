"""Frames and counts of the load tests, over the engine's own client.

Frames are built before, receipts and messages only counted, so that the client is not the limit of a load test.
Messages are unbatched and carry a checksum, as every client's do.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.client.broker_link import Body, BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.net.network import LoopNetwork
from engine.net.tls import ContextSource
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Messages, Receipts
from engine.wire.kernels import build_sends
from engine.wire.states import CommandType
from tests.support.transactions.transaction_client import Txn

PERMITS = 2000
BLOCK_BYTES = 65536


def payload_of(
    size: int,
    publish_ms: int = 1_700_000_000_000,
    schema_version: bytes | None = None,
    txn: Txn | None = None,
) -> bytes:
    """Return checksum, metadata and a value of ``size`` bytes: everything of a SEND frame behind its command."""
    value = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    extra: dict[str, Any] = {} if schema_version is None else {"schema_version": schema_version}
    if txn is not None:
        extra |= {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}
    return pack_entry([Message(value)], producer_name="bench", publish_ms=publish_ms, extra=extra)


def send_frame(payload: bytes, producer_id: int, sequence_id: int, txn: Txn | None = None) -> bytes:
    if txn is not None:
        return say.send(producer_id, sequence_id, payload, txn=txn)
    return b"".join(build_sends(producer_id, [sequence_id], [payload]))


class Link(BrokerLink):
    """A connection that counts receipts and messages."""

    receipts_seen = 0
    messages_seen = 0
    keep_arrivals = False
    grants = True
    """Set when permits that were used are granted again."""

    def __init__(self, settings: LinkSettings, proxy_to: str | None = None) -> None:
        super().__init__(settings, proxy_to)
        self.errors: list[str] = []
        self.changed = asyncio.Event()
        self.arrivals: list[float] = []
        self._owed = 0

    def receipts(self, run: Receipts) -> None:
        self.receipts_seen += run.count

    def messages(self, run: Messages) -> None:
        messages = run.count
        self.messages_seen += messages
        if self.keep_arrivals:
            self.arrivals.extend([time.perf_counter()] * messages)
        self._owed += messages
        if self.grants and self._owed >= PERMITS // 2:
            self.send(say.flow(1, self._owed))
            self._owed = 0

    def batch_done(self) -> None:
        self.changed.set()

    def unclaimed(self, kind: int, body: Body) -> None:
        self.errors.append(f"{CommandType(kind).name} {body}")

    def closed(self, error: Exception | None) -> None:
        super().closed(error)
        self.errors.append(f"connection lost: {error}")
        self.changed.set()

    async def until(self, done: Callable[[], bool], timeout_s: float = 120.0) -> None:
        """Wait until ``done()``; raises RuntimeError when the server refused something meanwhile."""
        async with asyncio.timeout(timeout_s):
            while not done():
                if self.errors:
                    raise RuntimeError(self.errors[0])
                self.changed.clear()
                await self.changed.wait()


async def connect(url: str, topic: str, tls: ContextSource | None = None) -> Link:
    """Return a connection to the broker that owns ``topic``; ``tls`` is for a ``pulsar+ssl`` URL."""
    links = Links(LoopNetwork(), LinkSettings("bench", tls=tls), Link)
    return await links.owner(topic, url)


async def open_producer(
    link: Link, topic: str, producer_id: int = 1, schema: pb.Schema | None = None
) -> bytes:
    """Create a producer; return the version of its schema, empty without one."""
    request_id = link.new_id()
    frame = say.producer(topic, producer_id, request_id, schema=schema)
    return bytes((await link.request(request_id, frame)).schema_version)


async def subscribe(
    link: Link, topic: str, name: str, earliest: bool = True, schema: pb.Schema | None = None
) -> None:
    """Attach an exclusive consumer with id 1 and grant it permits."""
    request_id = link.new_id()
    frame = say.subscribe(
        topic, name, 0, 1, request_id, initial_position=int(earliest), schema=schema
    )
    await link.request(request_id, frame)
    link.send(say.flow(1, PERMITS))


def blocks(
    payload: bytes,
    count: int,
    producer_ids: Sequence[int] = (1,),
    first: int = 0,
    txn: Txn | None = None,
) -> list[bytes]:
    """Return ``count`` frames joined into blocks of at most 64 KiB, producers in turn."""
    out: list[bytes] = []
    part: list[bytes] = []
    size = 0
    for i in range(count):
        producer_id = producer_ids[i % len(producer_ids)]
        part.append(send_frame(payload, producer_id, first + i // len(producer_ids), txn))
        size += len(part[-1])
        if size > BLOCK_BYTES:
            out.append(b"".join(part))
            part, size = [], 0
    if part:
        out.append(b"".join(part))
    return out


async def publish(link: Link, frames: Iterable[bytes], counts: Iterable[int], window: int) -> float:
    """Send all blocks with at most ``window`` messages unanswered; return seconds until the last receipt."""
    began = time.perf_counter()
    base = link.receipts_seen
    sent = 0
    for block, count in zip(frames, counts, strict=True):
        if sent + count - (link.receipts_seen - base) > window:
            target = base + sent + count - window
            await link.until(lambda target=target: link.receipts_seen >= target)
        await link.room()
        send_now(link, block)
        sent += count
    await link.until(lambda: link.receipts_seen - base >= sent)
    return time.perf_counter() - began


def send_now(link: Link, data: bytes) -> None:
    """Write past the link's buffer, which would wait for the end of the turn."""
    assert link.transport is not None
    link.transport.write(data)


async def one_in_flight(link: Link, payload: bytes, count: int, first: int) -> list[float]:
    """Send one message after another; return seconds from send to receipt of each."""
    took = []
    for i in range(count):
        frame = send_frame(payload, 1, first + i)
        wanted = link.receipts_seen + 1
        began = time.perf_counter()
        send_now(link, frame)
        await link.until(lambda wanted=wanted: link.receipts_seen >= wanted)
        took.append(time.perf_counter() - began)
    return took
