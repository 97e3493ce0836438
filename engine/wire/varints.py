"""Protobuf base-128 integers, shared by the kernels. Pure."""

UINT64_MAX = (1 << 64) - 1
INT64_MAX = (1 << 63) - 1
"""The largest number that clients, records and statistics can have where it is signed."""

LOW14 = tuple(bytes((i & 127 | 128, i >> 7 | 128)) for i in range(1 << 14))
"""The two low groups of a continued varint: ``LOW14[n & 16383] + varint(n >> 14)`` is n >= 16384 in one addition."""

SHORT14 = tuple(bytes((i,)) for i in range(128)) + tuple(
    bytes((i & 127 | 128, i >> 7)) for i in range(128, 1 << 14)
)
"""Varints of 0 to 16383: loops over entries index it, which is cheaper than calling ``varint``."""


def varint(n: int) -> bytes:
    """Return ``n`` as a varint; negative numbers as protobuf writes them, in ten bytes."""
    if 0 <= n < 16384:
        return SHORT14[n]
    n &= UINT64_MAX
    out = b""
    while n >= 16384:
        out += LOW14[n & 16383]
        n >>= 14
    return out + SHORT14[n]


def consecutive(first: int, count: int) -> list[bytes] | tuple[bytes, ...]:
    """Return the varints of ``count`` numbers that follow one another, from ``first`` >= 0 on."""
    low, high = first & 16383, first >> 14
    if low + count > 16384:
        return [varint(n) for n in range(first, first + count)]
    if not high:
        return SHORT14[low : low + count]
    behind = varint(high)
    return [number + behind for number in LOW14[low : low + count]]


def read_varint(buf: bytes, pos: int, stop: int) -> tuple[int, int]:
    """Return (value, position behind it); the position is -1 when the number is truncated by ``stop`` or longer than
    ten bytes.

    Values are unsigned, cut to 64 bits as protobuf does.
    """
    result = shift = 0
    limit = stop if stop - pos < 10 else pos + 10
    while pos < limit:
        byte = buf[pos]
        pos += 1
        if byte < 128:
            return (result | byte << shift) & UINT64_MAX, pos
        result |= (byte & 127) << shift
        shift += 7
    return 0, -1


def skip_field(buf: bytes, pos: int, stop: int, wire_type: int) -> int:
    """Return the position behind the value of a field whose tag has been read; -1 when it is malformed or exceeds
    ``stop``."""
    if wire_type == 0:
        return read_varint(buf, pos, stop)[1]
    if wire_type == 2:
        size, pos = read_varint(buf, pos, stop)
        if pos < 0:
            return -1
        pos += size
    elif wire_type == 1:
        pos += 8
    elif wire_type == 5:
        pos += 4
    else:
        return -1
    return pos if pos <= stop else -1
