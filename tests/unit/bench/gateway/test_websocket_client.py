"""The bench's WebSocket client: frames of RFC 6455 in any packets; other bytes are refused."""

import pytest

from tests.bench.gateway.websocket_client import CLOSE, PING, Frames, build_frame


def served(first: int, payload: bytes) -> bytes:
    """Return a frame as a server sends it."""
    length = len(payload)
    if length < 126:
        return bytes((first, length)) + payload
    if length < 65536:
        return bytes((first, 126)) + length.to_bytes(2, "big") + payload
    return bytes((first, 127)) + length.to_bytes(8, "big") + payload


@pytest.mark.parametrize(
    ("length", "head"),
    [
        (0, b"\x81\x80"),
        (125, b"\x81\xfd"),
        (126, b"\x81\xfe\x00\x7e"),
        (65535, b"\x81\xfe\xff\xff"),
        (65536, b"\x81\xff\0\0\0\0\0\x01\0\0"),
    ],
)
def test_frames_are_masked_with_zeros(length: int, head: bytes) -> None:
    assert build_frame(b"x" * length) == head + b"\0\0\0\0" + b"x" * length


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1 << 20])
def test_messages_are_the_same_however_they_arrive(size: int) -> None:
    long, longer = b"y" * 300, b"z" * 70_000
    sent = served(0x81, b"a") + served(0x81, long) + served(0x89, b"ping") + served(0x81, b"")
    sent += served(0x01, b"in ") + served(0x89, b"between") + served(0x00, b"three ")
    sent += served(0x80, b"parts") + served(0x81, longer) + served(0x88, b"\x03\xe8bye")
    frames = Frames()
    received = [
        text for at in range(0, len(sent), size) for text in frames.feed(sent[at : at + size])
    ]
    assert received == [b"a", long, b"", b"in three parts", longer]
    assert frames.control == [(PING, b"ping"), (PING, b"between"), (CLOSE, b"\x03\xe8bye")]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x81\x85\0\0\0\0hello",  # masked
        served(0x00, b"continues nothing"),
        served(0x01, b"one") + served(0x81, b"another before its end"),
        served(0x09, b"a ping in parts"),
        served(0x82, b"binary"),
    ],
)
def test_frames_that_no_server_sends_are_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match="frame"):
        Frames().feed(sent)
