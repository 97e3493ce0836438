"""Marks by which a cluster identifies what another cluster's replicator sends (G1). Pure.

A replicator is a producer with a reserved name. It sends entries as they are stored in its cluster, with the cluster
and the position there in their metadata.
"""

import re

from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.kernels import SendRun, head_sequences
from engine.wire.varints import INT64_MAX, varint

REPLICATOR = "pulsar.repl."
"""Prefix of the names of replicators, in front of the cluster that they read."""
SOURCE_POSITION = "__MSG_PROP_REPL_SOURCE_POSITION"
"""Property of a sent entry: its position in the cluster that the replicator reads, as ``ledger:entry``."""
MARKER_HIGHEST = -(1 << 63)
"""Highest sequence id of a marker's receipt, by which a replicator distinguishes it from a message."""
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


def name_positions(run: SendRun) -> int:
    """Replace the sequence ids of a replicator's SENDs by what their receipts have: ledger and entry of the origin.

    Of a marker, which has no place among the messages, the receipt has the sequence id as sent and MARKER_HIGHEST.
    Return the index of the first entry that names no position, to which all before it are changed; the number of
    entries when all do.
    """
    producer = b"\x08" + varint(run.producer_id) + b"\x10"
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
