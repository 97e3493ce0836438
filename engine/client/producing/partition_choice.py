"""The choice of a message's partition, as in Pulsar's Java client. Pure; the caller draws random numbers."""

from enum import Enum

import mmh3

from engine.client.producing.outgoing import OutgoingMessage

SWITCH_DELAYS = 10
"""Publish delays of a batching producer after which messages without a key go to the next partition."""


class Routing(Enum):
    """The partition of messages without a key."""

    SINGLE = "SinglePartition"
    ROUND_ROBIN = "RoundRobinPartition"


class Hashing(Enum):
    """The hash that determines the partition of a key."""

    JAVA_STRING = "JavaStringHash"
    MURMUR3 = "Murmur3_32Hash"


def key_hash(hashing: Hashing, key: str) -> int:
    """Return the hash of a key, from 0 to 2**31 - 1."""
    if hashing is Hashing.MURMUR3:
        return mmh3.hash(key.encode()) & 0x7FFFFFFF
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


class PartitionChoice:
    """The choices of one producer. ``start``: a random number; ``batch_delay_ms``: 0 when it does not batch."""

    def __init__(self, routing: Routing, hashing: Hashing, start: int, batch_delay_ms: int) -> None:
        self._routing = routing
        self._hashing = hashing
        self._next = start
        self._switch_ms = batch_delay_ms * SWITCH_DELAYS

    def of(self, message: OutgoingMessage, count: int, now_ms: int) -> int:
        """Return one of ``count`` partitions. A batching producer stays with one for a while, so that batches fill."""
        if message.key is not None:
            return key_hash(self._hashing, message.key) % count
        if self._routing is Routing.SINGLE:
            return self._next % count
        if self._switch_ms:
            return (now_ms // self._switch_ms + self._next) % count
        self._next += 1
        return (self._next - 1) % count
