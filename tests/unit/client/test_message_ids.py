"""Message ids in the bytes of Pulsar's Java client, written by any client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.client.message_ids import EARLIEST_ID, LATEST_ID, MessageId, MessageIdError
from engine.wire import pulsar_pb2 as pb

KNOWN = [
    (MessageId(Position(5, 7)), "080510073000"),
    (MessageId(Position(5, 7), 2, 3, 10), "0805100718022003300a"),
    (EARLIEST_ID, "08ffffffffffffffffff0110ffffffffffffffffff013000"),
    (LATEST_ID, "08ffffffffffffffff7f10ffffffffffffffff7f3000"),
    (MessageId(Position(256, 1)), "088002100130" + "00"),
]


@pytest.mark.parametrize(("message_id", "written"), KNOWN)
def test_ids_are_written_as_java_writes_them(message_id: MessageId, written: str) -> None:
    assert message_id.serialized().hex() == written
    assert MessageId.parse(bytes.fromhex(written)) == message_id


@pytest.mark.parametrize(
    "written", ["08051007", "0805100718ffffffffffffffffff0120ffffffffffffffffff0130" + "00"]
)
def test_ids_of_other_clients_are_read(written: str) -> None:
    assert MessageId.parse(bytes.fromhex(written)) == MessageId(Position(5, 7))


numbers = st.integers(0, (1 << 63) - 1)
positions = st.builds(Position, numbers, numbers)
small = st.integers(-1, (1 << 31) - 1)


@given(
    st.builds(MessageId, positions, small, small, st.integers(0, 1 << 30), st.none() | positions)
)
def test_a_written_id_is_read_and_equals_protobufs(message_id: MessageId) -> None:
    data = message_id.serialized()
    assert MessageId.parse(data) == message_id
    assert pb.MessageIdData.FromString(data).SerializeToString() == data


@pytest.mark.parametrize("data", [b"", b"\x08", b"\xff\xff", b"\x08\x05", b"text"])
def test_an_invalid_id_is_refused(data: bytes) -> None:
    with pytest.raises(MessageIdError, match="not a message id"):
        MessageId.parse(data)
