"""The hash that clients and brokers of Pulsar agree on. Pure."""

_MASK = 0xFFFFFFFF


def murmur3_32(data: bytes) -> int:
    """Murmur3 x86 32-bit, seed 0, with the sign bit cleared: 0..2^31-1."""
    h = 0
    blocks = len(data) & ~3
    for at in range(0, blocks, 4):
        h ^= _mix(int.from_bytes(data[at : at + 4], "little"))
        h = ((h << 13) | (h >> 19)) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    tail = data[blocks:]
    if tail:
        h ^= _mix(int.from_bytes(tail, "little"))
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return (h ^ (h >> 16)) & 0x7FFFFFFF


def _mix(k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    return (k * 0x1B873593) & _MASK
