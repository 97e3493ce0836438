"""A run of frames is read as its frames are one by one, also when they are alike or damaged."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import PeerError
from engine.base.ids import Position
from engine.wire import commands, frames
from engine.wire.commands import command_frame
from engine.wire.events import Delivered, Messages, Receipt, Receipts, _position
from engine.wire.kernels import build_receipts
from engine.wire.varints import varint

FRAMES = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 300]),
        st.sampled_from([0, 7, 1 << 40]),
        st.one_of(st.integers(0, 300), st.sampled_from([16_383, 16_384, (1 << 63) - 1])),
        st.sampled_from([-1, -1, 0, 3]),
        st.sampled_from([0, 0, 0, 1, 200]),
        st.sampled_from([[], [], [], [5], [-1, 1]]),
        st.sampled_from([None, None, 3]),
        st.binary(max_size=5),
    ),
    min_size=1,
    max_size=30,
)


@given(FRAMES)
def test_a_run_is_read_as_its_frames_one_by_one(
    run: list[tuple[int, int, int, int, int, list[int], int | None, bytes]],
) -> None:
    buf, starts, wanted = b"", [], []
    for consumer, ledger, entry, partition, count, words, epoch, payload in run:
        position = Position(ledger, entry)
        body = commands.command_bytes(
            "message",
            {
                "consumer_id": consumer,
                "message_id": commands.message_id(position, partition=partition),
                "redelivery_count": count or None,
                "ack_set": words,
                "consumer_epoch": epoch,
            },
        )
        starts.append(len(buf))
        buf += frames.payload_frame(body, payload)
        wanted.append(Delivered(consumer, position, count, words, payload, epoch))
    messages = Messages(buf, starts, len(buf)).read()
    assert messages == wanted
    assert len({id(message.ack_set) for message in messages}) == len(messages)


numbers = st.integers(0, 300) | st.integers(0, (1 << 64) - 1) | st.sampled_from([1 << 63, 5 << 61])


def slowly(frame: bytes) -> Receipt | None:
    """Parse the whole command."""
    try:
        first, stop = frames.command_span(frame, 0, len(frame))
        parsed = commands.parse(frame, first, stop).send_receipt
    except PeerError:
        return None
    position, highest = _position(parsed.message_id), parsed.highest_sequence_id
    return Receipt(parsed.producer_id, parsed.sequence_id, position, highest)


def quickly(frame: bytes) -> Receipt | None:
    try:
        [receipt_read] = Receipts(frame, [0], len(frame)).read()
    except PeerError:
        return None
    return receipt_read


def receipt(owner: int, sequence: int, ledger: int, entry: int, highest: int | None) -> bytes:
    return command_frame(
        "send_receipt",
        producer_id=owner,
        sequence_id=sequence,
        message_id={"ledgerId": ledger, "entryId": entry},
        highest_sequence_id=highest,
    )


@given(numbers, numbers, numbers, numbers, st.none() | numbers)
def test_any_receipt_is_read_as_by_protobuf(
    owner: int, sequence: int, ledger: int, entry: int, highest: int | None
) -> None:
    frame = receipt(owner, sequence, ledger, entry, highest)
    assert quickly(frame) == slowly(frame)


@given(st.lists(st.tuples(numbers, numbers, st.none() | numbers), min_size=1, max_size=5), numbers)
def test_receipts_of_our_broker_are_read_as_by_protobuf(
    sends: list[tuple[int, int, int | None]], ledger: int
) -> None:
    ledger >>= 1
    heads = [
        b"\x08"
        + varint(owner)
        + b"\x10"
        + varint(sequence)
        + (b"" if highest is None else b"\x20" + varint(highest))
        for owner, sequence, highest in sends
    ]
    frames_made = [build_receipts(ledger, 7, [head], 0, 1) for head in heads]
    starts = [sum(map(len, frames_made[:i])) for i in range(len(frames_made))]
    whole = b"".join(frames_made)
    read = Receipts(whole, starts, len(whole)).read()
    assert sum(row.run_length for row in read) == len(frames_made)
    if len(read) == len(frames_made):
        assert read == list(map(slowly, frames_made))


@given(numbers, numbers, numbers, st.integers(12, 60), st.integers(0, 255), st.integers(0, 3))
def test_a_damaged_receipt_is_read_as_by_protobuf(
    sequence: int, ledger: int, entry: int, at: int, byte: int, cut: int
) -> None:
    frame = bytearray(receipt(1, sequence, ledger, entry, None))
    frame[min(at, len(frame) - 1)] = byte
    damaged = bytes(frame[: len(frame) - cut])
    assert quickly(damaged) == slowly(damaged)


@given(
    st.integers(0, 300),
    numbers,
    st.integers(0, 40_000) | st.integers(0, (1 << 63) - 2000),
    st.integers(0, 40_000) | st.integers(0, (1 << 62)),
    st.lists(st.sampled_from([1, 1, 1, 1, 1, 1, 1, 2, 200]), max_size=300),
    st.booleans(),
    st.booleans(),
)
def test_receipts_of_a_replicator_are_read_as_by_protobuf(
    owner: int,
    source_ledger: int,
    source: int,
    entry: int,
    steps: list[int],
    is_ours: bool,
    is_repeated: bool,
) -> None:
    source_ledger >>= 1
    whole, starts, wanted = b"", [], []
    for step in [0, *steps]:
        source, entry = source + step, entry + 1
        if is_repeated:
            frame = commands.send_receipt(owner, source_ledger, commands.NOWHERE, source)
        elif is_ours:
            head = b"\x08" + varint(owner) + b"\x10" + varint(source_ledger)
            frame = build_receipts(7, entry, [head + b"\x20" + varint(source)], 0, 1)
        else:
            frame = receipt(owner, source_ledger, 7, entry, source)
        starts.append(len(whole))
        whole += frame
        wanted.append(slowly(frame))
    read = Receipts(whole, starts, len(whole)).read()
    expanded = [
        (
            row.producer_id,
            row.sequence_id,
            row.highest_sequence_id + k,
            row.position == commands.NOWHERE,
        )
        for row in read
        for k in range(row.run_length)
    ]
    assert expanded == [
        (
            row.producer_id,
            row.sequence_id,
            row.highest_sequence_id,
            row.position == commands.NOWHERE,
        )
        for row in wanted
        if row is not None
    ]


def test_consecutive_receipts_of_a_replicator_are_read_at_once() -> None:
    heads = [b"\x08\x01\x10\x03\x20" + varint(source) for source in range(100, 400)]
    frames_made = [build_receipts(7, 900 + i, [head], 0, 1) for i, head in enumerate(heads)]
    starts = [sum(map(len, frames_made[:i])) for i in range(len(frames_made))]
    whole = b"".join(frames_made)
    read = Receipts(whole, starts, len(whole)).read()
    assert [(row.highest_sequence_id, row.run_length) for row in read] == [(100, 28), (128, 272)]
