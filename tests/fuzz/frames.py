"""Parsers of what comes over the network: frames of bookies and of Pulsar, entries, batches."""

import struct
from typing import Any

from bookie.storage.runs import cut_frames
from engine.base.crc32c import crc32c
from engine.wire import (
    availability,
    batches,
    bookie_commands,
    bookie_kernels,
    bookie_v3,
    commands,
)
from engine.wire.bookie_commands import BookieFrameError
from engine.wire.compression import CompressionError, decompress
from engine.wire.events import Messages, Receipts, Sends
from engine.wire.kernels import (
    batch_sizes,
    build_messages,
    build_receipts,
    head_sequences,
    take_acks,
    take_sends,
)
from engine.wire.peer import ClientPeer, Peer
from engine.wire.states import State
from tests.fuzz.target import Target, golden, recorded

FRAME_MAX = 1 << 16
STREAMS = recorded("C>B")

# Bookie frames


def bookie_requests(data: bytes) -> None:
    """Parse requests as a connection cuts them, from the first byte to the first frame that is not whole."""
    pos, end = 0, len(data)
    while pos < end:
        pos, why, runs = bookie_kernels.take_adds(data, pos, end, FRAME_MAX)
        for run in runs:
            bookie_kernels.build_add_replies(data, run, 0)
            whole = data[run.start : run.stop]
            assert sum(r.count for r in cut_frames(whole)) == run.count
        if why != bookie_kernels.OTHER:
            return
        stop = pos + 4 + int.from_bytes(data[pos : pos + 4], "big")
        if stop - pos > 4 and bookie_commands.is_v3(data, pos):
            bookie_v3.parse_request(data, pos, stop)
        else:
            bookie_commands.parse_request(data, pos, stop)
        pos = stop


def bookie_replies(data: bytes) -> None:
    pos = 0
    before = -1
    while pos != before:
        before = pos
        pos, _, adds = bookie_kernels.take_add_replies(data, pos, len(data))
        pos, _, reads = bookie_kernels.take_read_replies(data, pos, len(data))
        assert all(0 <= start <= stop <= len(data) for *_, start, stop in reads)
        assert all(count > 0 for *_, count in adds)
    reply = bookie_commands.parse_batch_read_reply(data, 0, len(data))
    assert all(0 <= at <= len(data) for at in reply.spans)


def v3_request(data: bytes) -> None:
    request = bookie_v3.parse_request(data, 0, len(data))
    bookie_v3.refusal(request, 100)
    bookie_v3.read_reply(request, 2)
    bookie_v3.operation_name(request.header.operation)


def v3_response(data: bytes) -> None:
    response = bookie_v3.parse_response(data, 0, len(data))
    bookie_v3.code(response.status)
    blob = response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
    if blob:
        availability.decode(blob, 10_000)


def entry_list(data: bytes) -> None:
    ranges = availability.merged(availability.decode(data, 10_000))
    assert availability.merged(availability.decode(availability.encode(ranges))) == ranges


def auth(data: bytes) -> None:
    bookie_commands.parse_auth(data, 0, len(data))


# Pulsar frames


def use(event: object) -> None:
    if isinstance(event, Sends):
        run = event.run
        build_receipts(1, 0, run.heads, 0, len(run.heads))
        head_sequences(run.heads)
        run.ledger_id, run.first = 1, 0
        build_messages(1, run, range(run.count), None, None)
        batch_sizes(run.buf, run.spans)


def pulsar_requests(data: bytes) -> None:
    """Check that a peer cuts the same frames from ``data`` in one piece and in two."""
    whole = connected()
    events = whole.receive(data)
    for event in events:
        use(event)
    cut = connected()
    middle = len(data) // 2
    parts = cut.receive(data[:middle]) + cut.receive(data[middle:])
    assert (whole.failed is None) == (cut.failed is None)
    assert entries(events) == entries(parts)


def connected() -> Peer:
    peer = Peer(FRAME_MAX)
    peer.state = State.CONNECTED
    return peer


def entries(events: list[Any]) -> int:
    return sum(len(event.run.heads) for event in events if isinstance(event, Sends))


def pulsar_handshake(data: bytes) -> None:
    Peer(FRAME_MAX).receive(data)


def pulsar_answers(data: bytes) -> None:
    """Check that a client decodes as many commands from ``data`` in one piece as in two."""
    whole, cut = connected_client(), connected_client()
    middle = len(data) // 2
    counts = [
        sum(event.count if isinstance(event, Receipts | Messages) else 1 for event in events)
        for events in (whole.receive(data), cut.receive(data[:middle]) + cut.receive(data[middle:]))
    ]
    assert counts[0] == counts[1]
    for event in connected_client().receive(data):
        if isinstance(event, Receipts | Messages):
            event.read()


def connected_client() -> ClientPeer:
    peer = ClientPeer(FRAME_MAX)
    peer.state = State.CONNECTED
    return peer


def send_kernel(data: bytes) -> None:
    pos, _, run = take_sends(data, 0, len(data), FRAME_MAX)
    assert 0 <= pos <= len(data)
    if run is not None:
        use(Sends(run))


def ack_kernel(data: bytes) -> None:
    pos, _, _, positions = take_acks(data, 0, len(data))
    assert 0 <= pos <= len(data)
    assert len(positions) <= len(data)


def stored_entry(data: bytes) -> None:
    batches.read_metadata(data)
    entry = batches.unpack_entry(data, 1 << 20)
    assert sum(len(m.value or b"") for m in entry.messages) <= max(len(data), 1 << 20)


def seal_entry(data: bytes) -> bytes:
    """Return ``data`` with the checksum of the bytes that follow it."""
    if len(data) < 6:
        return data
    return b"\x0e\x01" + struct.pack(">I", crc32c(data[6:])) + data[6:]


def compressed(data: bytes) -> None:
    if len(data) > 4:
        size = int.from_bytes(data[1:4], "big")
        unpacked = decompress(data[0] % 6, data[4:], size, 1 << 20)
        assert len(unpacked) == size or data[0] % 6 == 0  # 0: not compressed


FRAMES: tuple[Target, ...] = (
    Target(
        "bookie requests",
        bookie_requests,
        golden("bookkeeper_v2.jsonl", "request") + golden("bookkeeper_v3.jsonl", "request"),
        (BookieFrameError,),
    ),
    Target(
        "bookie V3 requests",
        v3_request,
        golden("bookkeeper_v3.jsonl", "request"),
        (BookieFrameError,),
    ),
    Target(
        "bookie V2 replies",
        bookie_replies,
        golden("bookkeeper_v2.jsonl", "response"),
        (BookieFrameError,),
    ),
    Target(
        "bookie V3 responses",
        v3_response,
        golden("bookkeeper_v3.jsonl", "response"),
        (BookieFrameError, availability.AvailabilityError),
    ),
    Target(
        "bookie auth", auth, golden("bookkeeper_v2.jsonl", "response")[-1:], (BookieFrameError,)
    ),
    Target(
        "lists of entries",
        entry_list,
        [availability.encode([(0, 4), (10, 11), (13, 14), (99, 99)])],
        (availability.AvailabilityError,),
    ),
    Target("Pulsar requests", pulsar_requests, [*STREAMS, b"".join(STREAMS[:30])]),
    Target("Pulsar handshake", pulsar_handshake, STREAMS[:3]),
    Target("SEND kernel", send_kernel, [s for s in STREAMS if s[8:9] == b"\x08"][:60]),
    Target("ACK kernel", ack_kernel, [s for s in STREAMS if s[8:11] == b"\x08\x0a\x52"][:20]),
    Target("Pulsar frames of a broker", pulsar_requests, recorded("B>C")[:200]),
    Target(
        "Pulsar answers", pulsar_answers, recorded("B>C")[:200], (commands.MalformedCommandError,)
    ),
    Target(
        "batches",
        stored_entry,
        [e for s in STREAMS for e in [s[s.find(b"\x0e\x01") :]] if e[:2] == b"\x0e\x01"][:60],
        (batches.BatchFormatError,),
        seal_entry,
    ),
    Target(
        "compressed payloads",
        compressed,
        [bytes((kind, 0, 0, 40)) + b"abcdefgh" * 5 for kind in range(6)],
        (CompressionError,),
    ),
)
