"""Marks by which a cluster identifies what another cluster's replicator sends (G1). Pure.

A replicator is a producer with a reserved name. It sends entries as they are stored in its cluster, with the cluster
and the position there in their metadata.
"""

import re
from operator import sub
from struct import Struct

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.kernels import CHECKSUM_MAGIC, SendRun, head_sequences, metadata_span, tagged
from engine.wire.varints import INT64_MAX, UINT64_MAX, consecutive, varint

REPLICATOR = "pulsar.repl."
"""Prefix of the names of replicators, in front of the cluster that they read."""
SOURCE_POSITION = "__MSG_PROP_REPL_SOURCE_POSITION"
"""Property of a sent entry: its position in the cluster that the replicator reads, as ``ledger:entry``."""
MARKER_HIGHEST = -(1 << 63)
"""Highest sequence id of a marker's receipt, by which a replicator distinguishes it from a message."""
MARKER_RECEIPT = MARKER_HIGHEST & UINT64_MAX
"""The same as the field without a sign holds it."""
_PROPERTY = SOURCE_POSITION.encode()
_PAIR = re.compile(
    rb"\x22.\x0a"
    + re.escape(bytes([len(_PROPERTY)]) + _PROPERTY)
    + rb"\x12(.)([0-9]{1,18}):([0-9]{1,18})",
    re.DOTALL,
)
"""The property in its encoded form. Numbers of 19 digits may be too large, and are decoded."""
_KEY = b"\x0a" + varint(len(_PROPERTY)) + _PROPERTY + b"\x12"
"""The property's key, and the tag of its value."""
_PLAIN = Struct(">HII")
"""Front of an entry with a checksum and without broker metadata: magic, checksum, size of the metadata."""
_MARKER_TYPE = b"\xa0\x01"
_FORM = re.compile(r"([0-9]{1,19}):([0-9]{1,19})\Z")


def origin_of(producer_name: str) -> str:
    """Return the cluster that a replicator of this name reads; empty for other producers."""
    if not producer_name.startswith(REPLICATOR):
        return ""
    return producer_name[len(REPLICATOR) :].partition("-->")[0]


def replicator_name(origin: str, destination: str) -> str:
    """Return the name under which the replicator of ``origin`` sends to ``destination``."""
    return f"{REPLICATOR}{origin}-->{destination}"


def origin_field(cluster: str) -> bytes:
    """Return the field replicated_from."""
    name = cluster.encode()
    return b"\x2a" + varint(len(name)) + name


def place_field(ledger_id: int, digits: int) -> bytes:
    """Return the property of a position up to its entry id, which is as many bytes long."""
    ledger = b"%d:" % ledger_id
    pair = _KEY + varint(len(ledger) + digits) + ledger
    return b"\x22" + varint(len(pair) + digits) + pair


def common_metadata_size(run: Slice, start: int, stop: int) -> int | None:
    """Return the size of the metadata of entries ``start`` to ``stop`` if it is one, and each has a checksum and no
    metadata of a broker before it; else None."""
    buf, starts, stops = (
        run.buf,
        run.spans[2 * start : 2 * stop : 2],
        run.spans[2 * start + 1 : 2 * stop : 2],
    )
    front = buf[starts[0] : starts[0] + _PLAIN.size]
    fronts = b"".join([buf[at : at + _PLAIN.size] for at in starts])
    if len(fronts) != _PLAIN.size * len(starts):
        return None
    # The checksum, at 2 to 6, is each entry's own.
    for i in (0, 1, 6, 7, 8, 9):
        if fronts[i :: _PLAIN.size] != front[i : i + 1] * len(starts):
            return None
    magic, _, size = _PLAIN.unpack(front)
    is_whole = min(map(sub, stops, starts)) >= _PLAIN.size + size
    return size if magic == CHECKSUM_MAGIC and is_whole else None


def _follow(run: Slice, front: bytes, entry_id: int) -> bool:
    """Return whether the metadata of all entries of a run ends with ``front`` and the entry ids from this one on, found
    without a look at each; False also where that is not certain."""
    digits = len(b"%d" % entry_id)
    size = common_metadata_size(run, 0, run.count)
    if (
        size is None
        or size < len(front) + digits
        or digits != len(b"%d" % (entry_id + run.count - 1))
    ):
        return False
    buf, end = run.buf, _PLAIN.size + size
    begin = end - len(front) - digits
    ends = b"".join([buf[at + begin : at + end] for at in run.spans[::2]])
    return ends == b"".join([front + b"%d" % n for n in range(entry_id, entry_id + run.count)])


def common_origin(run: Slice) -> str:
    """Return the cluster that all entries come from if each ends as a replicator of ours adds it; else an empty name.

    Only the first entry is decoded.
    """
    buf, spans = run.buf, run.spans
    if buf.find(_PROPERTY, spans[0], spans[-1]) < 0:
        return ""
    metadata = read_metadata(run.entry(0))
    if metadata is None or not metadata.replicated_from:
        return ""
    field = origin_field(metadata.replicated_from)
    place = source_position(metadata)
    if place is not None:
        digits = len(b"%d" % place.entry_id)
        if _follow(run, field + place_field(place.ledger_id, digits), place.entry_id):
            return metadata.replicated_from
    origin = field + b"\x22"
    value_at = len(_KEY) + 1
    for i in range(0, len(spans), 2):
        start, stop = spans[i], spans[i + 1]
        if stop - start < _PLAIN.size:
            return ""
        magic, _, size = _PLAIN.unpack_from(buf, start)
        end = start + _PLAIN.size + size
        at = buf.rfind(_KEY, start, end)
        if magic != CHECKSUM_MAGIC or end > stop or at < 0 or at + value_at > end:
            return ""
        if at + value_at + buf[at + value_at - 1] != end or at + buf[at - 1] != end:
            return ""
        if not buf.startswith(origin, at - 1 - len(origin)):
            return ""
    return metadata.replicated_from


def source_position(metadata: pb.MessageMetadata) -> Position | None:
    """Return the position in the cluster of origin; None where it is missing or malformed."""
    for item in metadata.properties:
        if item.key == SOURCE_POSITION:
            match = _FORM.match(item.value)
            if match is None:
                return None
            ledger, entry = int(match[1]), int(match[2])
            return Position(ledger, entry) if max(ledger, entry) <= INT64_MAX else None
    return None


def _place_in(run: SendRun, i: int) -> re.Match[bytes] | None:
    """Return ledger and entry that an entry names, found without decoding its metadata; None where that is not certain.

    It is certain for one property of the name, of the usual form, and no bytes that a marker's type begins with.
    """
    buf = run.buf
    span = metadata_span(buf, run.spans[2 * i], run.spans[2 * i + 1])
    if span is None or buf.count(_PROPERTY, *span) != 1 or buf.find(_MARKER_TYPE, *span) >= 0:
        return None
    pair = _PAIR.match(buf, buf.find(_PROPERTY, *span) - 4, span[1])
    return pair if pair and pair[1][0] == pair.end() - pair.start(2) else None


def _heads(run: SendRun, producer: bytes) -> list[bytes] | None:
    """Return what receipts of a run are to have, found without decoding its metadata; None where that is not certain.

    Most entries follow the one before, and end with their position.
    """
    buf, spans = run.buf, run.spans
    # Together with a position found in each entry this means that none has two.
    if buf.count(_PROPERTY, spans[0], spans[-1]) != run.count or tagged(
        buf, spans, (_MARKER_TYPE,)
    ):
        return None
    place = _place_in(run, 0)
    if place is None:
        return None
    ledger_id, entry_id, digits = int(place[2]), int(place[3]), len(place[3])
    front, head = place_field(ledger_id, digits), producer + varint(ledger_id) + b"\x20"
    if _follow(run, front, entry_id):
        return [head + number for number in consecutive(entry_id, run.count)]
    heads: list[bytes] = []
    entry_id -= 1
    unpack = _PLAIN.unpack_from
    for i in range(run.count):
        start, stop = spans[2 * i], spans[2 * i + 1]
        entry_id += 1
        text = b"%d" % entry_id
        if len(text) == digits and stop - start >= 10:
            magic, _, size = unpack(buf, start)
            behind, expected = start + 10 + size, front + text
            if (
                magic == CHECKSUM_MAGIC
                and behind <= stop
                and buf.startswith(expected, behind - len(expected))
                and len(expected) <= size
            ):
                heads.append(head + varint(entry_id))
                continue
        place = _place_in(run, i)
        if place is None:
            return None
        ledger_id, entry_id, digits = int(place[2]), int(place[3]), len(place[3])
        front = place_field(ledger_id, digits)
        head = producer + varint(ledger_id) + b"\x20"
        heads.append(head + varint(entry_id))
    return heads


def name_positions(run: SendRun) -> int:
    """Replace the sequence ids of a replicator's SENDs by what their receipts have: ledger and entry of the origin.

    Of a marker, which has no place among the messages, the receipt has the sequence id as sent and MARKER_HIGHEST.
    Return the index of the first entry that names no position, to which all before it are changed; the number of
    entries when all do.
    """
    producer = b"\x08" + varint(run.producer_id) + b"\x10"
    heads = _heads(run, producer)
    if heads is not None:
        run.heads = heads
        return run.count
    for i in range(run.count):
        metadata = read_metadata(run.entry(i))
        if metadata is None:
            return i
        if metadata.HasField("marker_type"):
            ((sequence, _),) = head_sequences(run.heads[i : i + 1])
            run.heads[i] = producer + varint(sequence) + b"\x20" + varint(MARKER_HIGHEST)
            continue
        position = source_position(metadata)
        if position is None:
            return i
        ledger, entry = varint(position.ledger_id), varint(position.entry_id)
        run.heads[i] = producer + ledger + b"\x20" + entry
    return run.count


def place_of(ledger_id: int, entry_id: int) -> int:
    """Return one number for a position, so that positions are ordered as these numbers are."""
    return ledger_id << 63 | entry_id


def position_at(place: int) -> Position:
    """Return the position of a number that ``place_of`` returned."""
    return Position(place >> 63, place & INT64_MAX)
