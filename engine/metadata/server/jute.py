"""Primitives of jute, ZooKeeper's serialization: big-endian numbers, and buffers, texts and vectors with a length.

Readers take a frame and an offset and return the value with the offset behind it. They raise JuteError when the frame
ends within a value.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

T = TypeVar("T")

INT = Struct(">i")
LONG = Struct(">q")
NULL = INT.pack(-1)
_int_at = INT.unpack_from


class JuteError(ValueError):
    """A frame is not of the form that its type has."""


def read_int(frame: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(frame):
        raise JuteError("the frame ends within a number of 4 bytes")
    return _int_at(frame, at)[0], at + 4


def read_long(frame: bytes, at: int) -> tuple[int, int]:
    if at + 8 > len(frame):
        raise JuteError("the frame ends within a number of 8 bytes")
    return LONG.unpack_from(frame, at)[0], at + 8


def read_bool(frame: bytes, at: int) -> tuple[bool, int]:
    if at >= len(frame):
        raise JuteError("the frame ends before a truth value")
    return frame[at] != 0, at + 1


def read_buffer(frame: bytes, at: int) -> tuple[bytes | None, int]:
    """Return a buffer, None for null."""
    start = at + 4
    if start > len(frame):
        raise JuteError("the frame ends within the length of a buffer")
    length = _int_at(frame, at)[0]
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(frame):
        raise JuteError(f"a buffer of {length} bytes does not fit in its frame")
    return frame[start:end], end


def read_text(frame: bytes, at: int) -> tuple[str, int]:
    """Return a text. Null is an error.

    Bytes that are not UTF-8 become U+FFFD, as in Java: no path may have that character, so they are refused there.
    """
    start = at + 4
    if start > len(frame):
        raise JuteError("the frame ends within the length of a text")
    length = _int_at(frame, at)[0]
    end = start + length
    if length < 0 or end > len(frame):
        raise JuteError(f"a text of {length} bytes does not fit in its frame")
    return frame[start:end].decode("utf-8", "replace"), end


def read_optional_text(frame: bytes, at: int) -> tuple[str, int]:
    """Return a text, "" for null: kazoo sends empty ones as null."""
    value, at = read_buffer(frame, at)
    return "" if value is None else value.decode("utf-8", "replace"), at


def read_vector(
    frame: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]
) -> tuple[tuple[T, ...], int]:
    """Return the elements of a vector; none for null."""
    count, at = read_int(frame, at)
    if count > len(frame) - at:  # each element has at least one byte
        raise JuteError(f"a vector of {count} elements does not fit in its frame")
    values = []
    for _ in range(count):
        value, at = read(frame, at)
        values.append(value)
    return tuple(values), at


def buffer(value: bytes | None) -> bytes:
    return NULL if value is None else INT.pack(len(value)) + value


def text(value: str) -> bytes:
    data = value.encode()
    return INT.pack(len(data)) + data


def texts(values: Iterable[str]) -> bytes:
    """Return a vector of texts."""
    parts = [text(value) for value in values]
    return INT.pack(len(parts)) + b"".join(parts)
