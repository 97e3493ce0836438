"""Frames of the Pulsar binary protocol (docs/formats/pulsar-frames.md): length, command, optional payload. Pure."""

from struct import Struct

from engine.base.errors import PeerError

MESSAGE_BYTES_MAX = 5 * 1024 * 1024
"""Default ``maxMessageSize``, sent to clients in CONNECTED."""
FRAME_OVERHEAD = 10 * 1024
"""Bytes of a frame for the command and the metadata of the largest message."""
FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + FRAME_OVERHEAD
"""Default bound of a frame's length field."""
LENGTH_BYTES = 4

_SIZES = Struct(">II")
_LENGTH = Struct(">I")


class FrameError(PeerError):
    """A breach of the framing rules. Nothing behind it can be trusted, so the connection must be closed."""


class FrameTooLargeError(FrameError):
    """A length field above the limit. Raised before any buffer of that size is allocated."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"frame of {size} bytes is above the limit of {limit}")
        self.size = size
        self.limit = limit


def frame(command: bytes) -> bytes:
    """Build the frame of a serialized BaseCommand without payload."""
    size = len(command)
    return _SIZES.pack(size + 4, size) + command


def payload_frame(command: bytes, entry: bytes) -> bytes:
    """Build the frame of a serialized SEND or MESSAGE, followed by the entry (checksum, metadata, payload)."""
    size = len(command)
    return _SIZES.pack(size + 4 + len(entry), size) + command + entry


def frame_end(buf: bytes, pos: int, end: int, frame_max: int) -> int:
    """Return where the frame at ``pos`` ends; -1 while bytes are missing. Raises FrameTooLargeError."""
    if end - pos < LENGTH_BYTES:
        return -1
    size = _LENGTH.unpack_from(buf, pos)[0]
    if size > frame_max:
        raise FrameTooLargeError(size, frame_max)
    stop: int = pos + LENGTH_BYTES + size
    return stop if stop <= end else -1


def command_span(buf: bytes, pos: int, stop: int) -> tuple[int, int]:
    """Return (start, end) of the command in the complete frame ``buf[pos:stop]``; a payload follows it. Raises
    FrameError."""
    if stop - pos < 8:
        raise FrameError(f"frame of {stop - pos - LENGTH_BYTES} bytes has no room for a command")
    size = _SIZES.unpack_from(buf, pos)[1]
    if pos + 8 + size > stop:
        raise FrameError(f"command of {size} bytes in a frame of {stop - pos - LENGTH_BYTES}")
    return pos + 8, pos + 8 + size
