"""Runs of MESSAGE frames read as what each of them says alone, however alike they are."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.wire import commands, frames
from engine.wire.events import Delivered, Messages

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
        wanted.append(Delivered(consumer, position, count, words, payload))
    found = Messages(buf, starts, len(buf)).read()
    assert found == wanted
    assert len({id(one.ack_set) for one in found}) == len(found)
