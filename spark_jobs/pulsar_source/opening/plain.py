"""Metadata of consecutive entries with one message each, decoded together by numpy. Pure.

A plain entry is ``[0x0e01 u32 crc32c] u32 size metadata payload`` whose metadata begins with producer name, sequence id
and publish time, as all clients write them. What follows these is the same for many messages, and decoded by callers
once for each different one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.wire.kernels import CHECKSUM_MAGIC

_HEAD = 10
"""Bytes before the metadata: magic number, checksum, size."""
_NAME, _SEQUENCE_ID, _PUBLISH_TIME = 0x0A, 0x10, 0x18
"""Tags of the fields."""
_VARINT_BYTES = 9
"""Longest varint that is decoded here; it has 63 bits."""


@dataclass(frozen=True, slots=True)
class PlainEntries:
    """Entries of a run, as arrays with an item for each; ends and bodies are offsets in the run's buffer."""

    starts: Any
    names: Any
    """Offsets of the producers' names."""
    name_ends: Any
    sequence_ids: Any
    publish_ms: Any
    rests: Any
    """Offsets of the metadata after the publish time."""
    bodies: Any
    """Offsets of the payloads, where the metadata ends."""
    stops: Any


def plain_entries(run: Slice, first: int, most: int) -> PlainEntries:
    """Decode at most ``most`` entries of ``run`` from index ``first`` on, up to the first one that is not plain. Their
    checksums are not checked."""
    data = np.frombuffer(run.buf, np.uint8)
    spans = np.array(run.spans[2 * first : 2 * (first + most)], np.int64)
    starts, stops = spans[::2], spans[1::2]
    count = leading(stops - starts > _HEAD + 2)
    starts, stops = starts[:count], stops[:count]
    heads = starts + _HEAD
    bodies = heads + _number(data, heads - 4, 4)
    names = heads + 2
    # Longer names have a length of two bytes.
    lengths = data[heads + 1].astype(np.int64)
    name_ends = names + lengths
    plain = (_number(data, heads - _HEAD, 2) == CHECKSUM_MAGIC) & (bodies <= stops)
    plain &= (data[heads] == _NAME) & (lengths < 0x80) & (name_ends < bodies)
    count = leading(plain)
    count = leading(data[name_ends[:count]] == _SEQUENCE_ID)
    sequence_ids, places = _varints(data, name_ends[:count] + 1, bodies[:count])
    count = leading(places < bodies[: len(places)])
    count = leading(data[places[:count]] == _PUBLISH_TIME)
    publish_ms, rests = _varints(data, places[:count] + 1, bodies[:count])
    columns = starts, names, name_ends, sequence_ids, publish_ms, rests, bodies, stops
    return PlainEntries(*[column[: len(rests)] for column in columns])


def leading(flags: Any) -> int:
    """Return how many are set before the first that is not."""
    return len(flags) if flags.all() else int(flags.argmin())


def _number(data: Any, places: Any, width: int) -> Any:
    """Return the big-endian numbers of ``width`` bytes at ``places``."""
    number = data[places].astype(np.int64)
    for i in range(1, width):
        number = (number << 8) | data[places + i]
    return number


def _varints(data: Any, places: Any, ends: Any) -> tuple[Any, Any]:
    """Return the varints at ``places`` and the places after them, up to the first that does not end before ``ends`` or
    has more than _VARINT_BYTES."""
    numbers = np.zeros(len(places), np.int64)
    places = places.copy()
    going = np.ones(len(places), np.bool_)
    valid = going.copy()
    for i in range(_VARINT_BYTES):
        valid &= ~going | (places < ends)
        going &= valid
        read = data[np.where(going, places, 0)].astype(np.int64)
        numbers |= np.where(going, (read & 0x7F) << (7 * i), 0)
        places += going
        going &= read > 0x7F
        if not going.any():
            break
    count = leading(valid & ~going)
    return numbers[:count], places[:count]


def intact(run: Slice, entries: PlainEntries, count: int) -> int:
    """Return how many of the first ``count`` entries have the checksum that they state, before one that has not."""
    view = memoryview(run.buf)
    starts = entries.starts[:count]
    stops = entries.stops[:count].tolist()
    sums = [crc32c(view[a:b]) for a, b in zip((starts + 6).tolist(), stops, strict=True)]
    stated = _number(np.frombuffer(run.buf, np.uint8), starts + 2, 4)
    return leading(stated == np.array(sums, np.int64))


def same(buf: bytes, begins: Any, ends: Any, text: bytes) -> bool:
    """Return whether all of ``buf`` from ``begins`` to ``ends`` are ``text``."""
    if (ends - begins != len(text)).any():
        return False
    texts = np.frombuffer(buf, np.uint8)[begins[:, None] + np.arange(len(text))]
    return bool((texts == np.frombuffer(text, np.uint8)).all())
