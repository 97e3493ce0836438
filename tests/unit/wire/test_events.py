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
    assert Receipts(whole, starts, len(whole)).read() == list(map(slowly, frames_made))


@given(numbers, numbers, numbers, st.integers(12, 60), st.integers(0, 255), st.integers(0, 3))
def test_a_damaged_receipt_is_read_as_by_protobuf(
    sequence: int, ledger: int, entry: int, at: int, byte: int, cut: int
) -> None:
    frame = bytearray(receipt(1, sequence, ledger, entry, None))
    frame[min(at, len(frame) - 1)] = byte
    damaged = bytes(frame[: len(frame) - cut])
    assert quickly(damaged) == slowly(damaged)
