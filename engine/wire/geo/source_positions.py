"""Marks by which a cluster identifies what another cluster's replicator sends (G1). Pure.

A replicator is a producer with a reserved name. It sends entries as they are stored in its cluster, with the cluster
and the position there in their metadata.
"""

import re

from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.kernels import SendRun, head_sequences, metadata_span
from engine.wire.varints import INT64_MAX, UINT64_MAX, varint

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


def name_positions(run: SendRun) -> int:
    """Replace the sequence ids of a replicator's SENDs by what their receipts have: ledger and entry of the origin.

    Of a marker, which has no place among the messages, the receipt has the sequence id as sent and MARKER_HIGHEST.
    Return the index of the first entry that names no position, to which all before it are changed; the number of
    entries when all do.
    """
    producer = b"\x08" + varint(run.producer_id) + b"\x10"
    for i in range(run.count):
        place = _place_in(run, i)
        if place is not None:
            ledger, entry = varint(int(place[2])), varint(int(place[3]))
            run.heads[i] = producer + ledger + b"\x20" + entry
            continue
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
