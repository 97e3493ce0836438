"""BookKeeper V2 frames against published vectors, and the parser against cut and hostile bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import bookie_commands as wire

KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
STORED = bytes.fromhex(
    "00000000000000050000000000000000ffffffffffffffff0000000000000005b548f36968656c6c6f"
)


@pytest.mark.parametrize(
    ("made", "published"),
    [
        (wire.add_request(5, 0, KEY, STORED), "0000004102010000" + KEY.hex() + STORED.hex()),
        (wire.add_reply(0, 5, 0), "00000018020100000000000000000000000000050000000000000000"),
        (wire.read_last_request(5), "00000014020200000000000000000005ffffffffffffffff"),
        (
            wire.fence_request(5, KEY),
            "00000028020200010000000000000005ffffffffffffffff" + KEY.hex(),
        ),
    ],
)
def test_frames_have_the_published_bytes(made: bytes, published: str) -> None:
    assert made.hex() == published


REQUESTS = [
    wire.add_request(5, 0, KEY, STORED, wire.RECOVERY_ADD | wire.HIGH_PRIORITY),
    wire.read_request(5, 7),
    wire.fence_request(5, KEY),
    wire.batch_read_request(5, 7, 99, 10, 1 << 20),
    wire.auth_message("sasl", b"token"),
]


def test_requests_parse_to_what_they_were_built_from() -> None:
    add, read, fence, batch, auth = (wire.parse_request(r, 0, len(r)) for r in REQUESTS)
    assert add == wire.AddRequest(2, 6, 5, 0, KEY, STORED)
    assert read == wire.ReadRequest(2, 0, 5, 7, None)
    assert fence == wire.ReadRequest(2, wire.DO_FENCING, 5, wire.LAST_ENTRY, KEY)
    assert batch == wire.BatchReadRequest(2, 0, 5, 7, 99, 10, 1 << 20, None)
    assert auth == wire.AuthRequest(2, "sasl", b"token")


@given(st.sampled_from(REQUESTS), st.data())
def test_a_cut_request_is_refused_or_shorter_never_anything_else(
    request_bytes: bytes, data: st.DataObject
) -> None:
    cut = request_bytes[: data.draw(st.integers(0, len(request_bytes) - 1))]
    try:
        request = wire.parse_request(cut, 0, len(cut))
    except wire.BookieFrameError:
        return
    assert isinstance(request, wire.AddRequest | wire.AuthRequest)


@given(st.binary(max_size=80))
def test_junk_gives_the_documented_error_only(junk: bytes) -> None:
    for parse in (wire.parse_request, wire.parse_batch_read_reply):
        try:
            parse(junk, 0, len(junk))
        except wire.BookieFrameError:
            continue


@pytest.mark.parametrize("opcode", [0, 4, 5, 6, 8])
def test_unknown_opcodes_close_the_connection(opcode: int) -> None:
    frame = b"\x00\x00\x00\x14\x02" + bytes([opcode]) + bytes(18)
    with pytest.raises(wire.BookieFrameError, match=f"opcode {opcode}"):
        wire.parse_request(frame, 0, len(frame))


def test_a_fencing_read_needs_its_key() -> None:
    with pytest.raises(ValueError, match="master key"):
        wire.read_request(5, 7, flags=wire.DO_FENCING)
    frame = b"\x00\x00\x00\x14\x02\x02\x00\x01" + bytes(16)
    with pytest.raises(wire.BookieFrameError, match="master key"):
        wire.parse_request(frame, 0, len(frame))


def test_a_batch_read_reply_gives_each_entry_s_place() -> None:
    made = b"".join(wire.batch_read_reply(0, 5, 7, 99, [b"a", b"bcd"]))
    reply = wire.parse_batch_read_reply(made, 0, len(made))
    assert (reply.rc, reply.ledger_id, reply.first_entry, reply.request_id) == (0, 5, 7, 99)
    assert [made[a:b] for a, b in zip(reply.spans[::2], reply.spans[1::2], strict=True)] == [
        b"a",
        b"bcd",
    ]
    assert b"".join(wire.batch_read_reply(1, 5, 7, 99, [b"a"]))[4:] == (
        b"\x02\x07\x00\x00" + b"".join(wire.batch_read_reply(1, 5, 7, 99, []))[8:]
    )


def test_an_add_with_ids_other_than_its_entrys_raises() -> None:
    with pytest.raises(ValueError, match="5:1"):
        wire.add_request(5, 1, KEY, STORED)


def test_v3_requests_are_recognised_by_their_first_byte() -> None:
    assert wire.is_v3(b"\x00\x00\x00\x09\x0a", 0)
    assert not wire.is_v3(REQUESTS[0], 0)
