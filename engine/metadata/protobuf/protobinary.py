"""Protobuf's binary format without generated code, for the few stored records whose exact bytes matter. Pure."""

from collections.abc import Iterator


def varint(n: int) -> bytes:
    """Encode ``n`` as a varint of 64 bits; negative numbers are in two's complement."""
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def put_int(out: bytearray, number: int, value: int) -> None:
    """Append an integer, bool or enum field."""
    out += varint(number << 3) + varint(value)


def put_bytes(out: bytearray, number: int, value: bytes) -> None:
    """Append a string, bytes or message field."""
    out += varint(number << 3 | 2) + varint(len(value)) + value


def take_varint(buf: bytes, pos: int) -> tuple[int, int]:
    """Return the value at ``pos`` and the position behind it. Raises ValueError, IndexError."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, pos
        if shift > 63:
            raise ValueError("varint longer than 64 bits")


def take_fields(buf: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field in order; integers are signed 64 bits. Raises ValueError, IndexError."""
    pos = 0
    while pos < len(buf):
        tag, pos = take_varint(buf, pos)
        if tag & 7 == 0:
            value, pos = take_varint(buf, pos)
            yield tag >> 3, value - (1 << 64) if value >> 63 else value
        elif tag & 7 == 2:
            size, pos = take_varint(buf, pos)
            if pos + size > len(buf):
                raise ValueError(f"field {tag >> 3} runs over the end")
            yield tag >> 3, buf[pos : pos + size]
            pos += size
        else:
            raise ValueError(f"field {tag >> 3} has wire type {tag & 7}")
