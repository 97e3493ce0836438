"""Entries of a compacted ledger: entries kept of a topic, in the topic's order, each with its position. Pure.

An entry is ``u32 size MessageIdData u32 size entry``; the last part has the form of a topic's entry. Apache's brokers
write and read the same format.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from engine.base.errors import PeerError
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import batch_sizes

_SIZE = Struct(">I")

GAP_MAX = 64
"""Largest distance between two entry ids that are returned in one slice."""


class CompactedFormatError(PeerError, ValueError):
    """An entry of a compacted ledger that cannot be decoded."""


class KeptEntry(NamedTuple):
    """An entry whose position in the topic is ``position``: ``buf[start:stop]`` of the buffer it was read from."""

    position: Position
    start: int
    stop: int


def pack_kept(position: Position, partition: int, entry: bytes) -> bytes:
    """Encode an entry of a compacted ledger. ``partition``: index of the topic's partition, or -1."""
    place = pb.MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, partition=partition
    ).SerializeToString()
    return b"".join((_SIZE.pack(len(place)), place, _SIZE.pack(len(entry)), entry))


def read_kept(buf: bytes, start: int, stop: int) -> KeptEntry:
    """Decode the entry of a compacted ledger at ``buf[start:stop]``. Raises CompactedFormatError."""
    at = start + _SIZE.size
    if at <= stop:
        behind = at + _SIZE.unpack_from(buf, start)[0]
        first = behind + _SIZE.size
        if first <= stop and first + _SIZE.unpack_from(buf, behind)[0] <= stop:
            try:
                place = pb.MessageIdData.FromString(buf[at:behind])
            except DecodeError as error:
                raise CompactedFormatError("the place of a compacted entry") from error
            last = first + _SIZE.unpack_from(buf, behind)[0]
            return KeptEntry(Position(place.ledgerId, place.entryId), first, last)
    raise CompactedFormatError(f"a compacted entry of {stop - start} bytes is cut off")


def kept_entries(run: Slice) -> list[KeptEntry]:
    """Decode all entries of a compacted ledger's slice. Raises CompactedFormatError."""
    spans = run.spans
    return [read_kept(run.buf, spans[i], spans[i + 1]) for i in range(0, len(spans), 2)]


def as_in_topic(run: Slice, kept: Sequence[KeptEntry]) -> list[tuple[Slice, list[int]]]:
    """Return the ``kept`` entries of ``run``, which are in order, as slices by their positions in the topic.

    Each slice comes with the indexes at which it has an entry; the other indexes are empty.
    """
    slices: list[tuple[Slice, list[int]]] = []
    i = 0
    while i < len(kept):
        (ledger_id, first), _, _ = kept[i]
        j, previous = i + 1, first
        while j < len(kept):
            place = kept[j].position
            if place.ledger_id != ledger_id or not 0 < place.entry_id - previous <= GAP_MAX:
                break
            previous = place.entry_id
            j += 1
        slices.append(_placed(run.buf, kept[i:j]))
        i = j
    return slices


def _placed(buf: bytes, kept: Sequence[KeptEntry]) -> tuple[Slice, list[int]]:
    """Return a slice of entries of one ledger whose ids are near each other, and their indexes."""
    first = kept[0].position.entry_id
    indexes = [entry.position.entry_id - first for entry in kept]
    spans = [0, 0] * (indexes[-1] + 1)
    dense: list[int] = []
    for i, (_, start, stop) in zip(indexes, kept, strict=True):
        spans[2 * i] = start
        spans[2 * i + 1] = stop
        dense += (start, stop)
    sizes = batch_sizes(buf, dense)
    counts = None
    if sizes is not None:
        counts = [1] * (indexes[-1] + 1)
        for i, size in zip(indexes, sizes, strict=True):
            counts[i] = size
    size = sum(stop - start for _, start, stop in kept)
    return Slice(buf, spans, size, counts, kept[0].position.ledger_id, first), indexes
