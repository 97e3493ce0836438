"""Primitives of jute, ZooKeeper's serialization: big-endian numbers, and buffers, texts and vectors with a length.

Readers take a frame and an offset and return the value with the offset behind it. They raise JuteError when the frame
ends within a value.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

Frame = bytes | memoryview
T = TypeVar("T")

INT = Struct(">i")
LONG = Struct(">q")
NULL = INT.pack(-1)


class JuteError(ValueError):
    """A frame is not of the form that its type has."""


def read_int(frame: Frame, at: int) -> tuple[int, int]:
    if at + 4 > len(frame):
        raise JuteError("the frame ends within a number of 4 bytes")
    return INT.unpack_from(frame, at)[0], at + 4


def read_long(frame: Frame, at: int) -> tuple[int, int]:
    if at + 8 > len(frame):
        raise JuteError("the frame ends within a number of 8 bytes")
    return LONG.unpack_from(frame, at)[0], at + 8


def read_bool(frame: Frame, at: int) -> tuple[bool, int]:
    if at >= len(frame):
        raise JuteError("the frame ends before a truth value")
    return frame[at] != 0, at + 1


def read_buffer(frame: Frame, at: int) -> tuple[bytes | None, int]:
    """Return a buffer, None for null."""
    length, at = read_int(frame, at)
    if length == -1:
        return None, at
    end = at + length
    if length < 0 or end > len(frame):
        raise JuteError(f"a buffer of {length} bytes does not fit in its frame")
    return bytes(frame[at:end]), end


def read_text(frame: Frame, at: int) -> tuple[str, int]:
    """Return a text. Null is an error.

    Bytes that are not UTF-8 become U+FFFD, as in Java: no path may have that character, so they are refused there.
    """
    length, at = read_int(frame, at)
    end = at + length
    if length < 0 or end > len(frame):
        raise JuteError(f"a text of {length} bytes does not fit in its frame")
    return str(frame[at:end], "utf-8", "replace"), end


def read_optional_text(frame: Frame, at: int) -> tuple[str, int]:
    """Return a text, "" for null: kazoo sends empty ones as null."""
    value, at = read_buffer(frame, at)
    return "" if value is None else value.decode("utf-8", "replace"), at


def read_vector(
    frame: Frame, at: int, read: Callable[[Frame, int], tuple[T, int]]
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
