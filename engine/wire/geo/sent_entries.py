"""Entries as a replicator sends them: as stored, with the cluster and position of their origin in the metadata. Pure.

Fields are added behind the stored metadata, of which the last occurrence of a field counts, so that nothing of it is
decoded and the payload is not touched.
"""

from collections.abc import Collection, Mapping
from struct import Struct

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.geo.source_positions import common_metadata_size, place_field
from engine.wire.kernels import CHECKSUM_MAGIC, LARGE_ENTRY_BYTES, metadata_span
from engine.wire.varints import LOW14, consecutive, varint

_HEAD = Struct(">IIHBB")
"""Front of a SEND: size of the frame and of the command, type, tag and size of its fields."""
_FRONT = Struct(">HI")
_SIZE = Struct(">I")
_PLAIN = Struct(">HII")
"""Front of an entry with a checksum and without broker metadata: magic, checksum, size of the metadata."""

_ALIKE_MIN = 4
"""Number of entries from which looking for their shape pays."""


def sent_entry(run: Slice, i: int, origin: bytes, schema_version: bytes | None = None) -> bytes:
    """Return entry ``i`` for another cluster: ``origin`` is this cluster's ``origin_field``.

    ``schema_version``: the version there of the entry's schema; None where it has none. An entry of a non-persistent
    topic has no position. Raises ValueError for an entry without metadata.
    """
    start, stop = run.spans[2 * i], run.spans[2 * i + 1]
    span = metadata_span(run.buf, start, stop)
    if span is None:
        raise ValueError(f"entry {run.position(i)} has no metadata")
    added = origin
    if run.ledger_id >= 0:
        entry_id = b"%d" % (run.first + i)
        added += place_field(run.ledger_id, len(entry_id)) + entry_id
    if schema_version is not None:
        added += b"\x82\x01" + varint(len(schema_version)) + schema_version
    metadata = run.buf[span[0] : span[1]] + added
    body = b"".join((_SIZE.pack(len(metadata)), metadata, run.buf[span[1] : stop]))
    return _FRONT.pack(CHECKSUM_MAGIC, crc32c(body)) + body


def sent_frames(
    run: Slice,
    indexes: range,
    origin: bytes,
    versions: Mapping[int, bytes],
    producer_id: int,
    sequence: int,
) -> tuple[list[bytes | memoryview], list[int]]:
    """Return SEND frames of the entries at ``indexes``, in parts, and the bytes of each entry in them.

    The entries are those that ``sent_entry`` returns; ``versions``: schema versions by index. ``sequence``: sequence id
    of the first one. What entries of one shape have in common is computed once.
    """
    producer = b"\x08" + varint(producer_id) + b"\x10"
    if not versions:
        alike = _alike_frames(run, indexes, origin, producer, sequence)
        if alike is not None:
            return alike
    buf, spans, first, counts = run.buf, run.spans, run.first, run.counts
    unpack, pack_front = _PLAIN.unpack_from, _FRONT.pack
    parts: list[bytes | memoryview] = []
    sizes: list[int] = []
    shape: tuple[int, ...] = ()
    prefix = behind_number = whole = place = b""
    sent, is_large = 0, False
    for i in indexes:
        start, stop = spans[2 * i], spans[2 * i + 1]
        magic, size = 0, 0
        if stop - start >= _PLAIN.size:
            magic, _, size = unpack(buf, start)
        behind = start + 10 + size
        number = (
            varint(sequence)
            if sequence < 16384
            else LOW14[sequence & 16383] + varint(sequence >> 14)
        )
        sequence += 1
        messages = 1 if counts is None else counts[i]
        if magic != CHECKSUM_MAGIC or behind > stop or i in versions or run.ledger_id < 0:
            entry = sent_entry(run, i, origin, versions.get(i))
            head = producer + number + _messages_field(messages)
            parts += (_front_of_frame(len(head), len(entry)) + head, entry)
            sizes.append(len(entry))
            continue
        entry_id = b"%d" % (first + i)
        of_entry = stop - start, size, len(entry_id), len(number), messages
        if of_entry != shape:
            shape = of_entry
            place = origin + place_field(run.ledger_id, len(entry_id))
            added = len(place) + len(entry_id)
            sent, whole = stop - start + added, _SIZE.pack(size + added)
            behind_number = _messages_field(messages)
            head_bytes = len(producer) + len(number) + len(behind_number)
            prefix = _front_of_frame(head_bytes, sent) + producer
            is_large = stop - behind >= LARGE_ENTRY_BYTES
        if is_large:
            body = b"".join((whole, buf[start + 10 : behind], place, entry_id))
            payload = memoryview(buf)[behind:stop]
            checksum = crc32c(payload, crc32c(body))
            parts += (prefix, number, behind_number, pack_front(magic, checksum), body, payload)
        else:
            body = b"".join((whole, buf[start + 10 : behind], place, entry_id, buf[behind:stop]))
            parts += (prefix, number, behind_number, pack_front(magic, crc32c(body)), body)
        sizes.append(sent)
    return parts, sizes


def without_transactions(run: Slice, indexes: Collection[int]) -> Slice:
    """Return the entries of ``run`` without the transaction ids of those at ``indexes``, which mean nothing in another
    cluster. Raises ValueError for an entry without metadata."""
    parts: list[bytes] = []
    spans: list[int] = []
    size = 0
    for i in range(run.count):
        entry = run.entry(i)
        if i in indexes:
            entry = _without_transaction(entry)
        parts.append(entry)
        spans += (size, size + len(entry))
        size += len(entry)
    return Slice(b"".join(parts), spans, size, run.counts, run.ledger_id, run.first)


def _without_transaction(entry: bytes) -> bytes:
    span = metadata_span(entry, 0, len(entry))
    if span is None:
        raise ValueError("an entry of a transaction has no metadata")
    metadata = pb.MessageMetadata.FromString(entry[span[0] : span[1]])
    metadata.ClearField("txnid_most_bits")
    metadata.ClearField("txnid_least_bits")
    own = metadata.SerializeToString()
    body = b"".join((_SIZE.pack(len(own)), own, entry[span[1] :]))
    return _FRONT.pack(CHECKSUM_MAGIC, crc32c(body)) + body


def _alike_frames(
    run: Slice, indexes: range, origin: bytes, producer: bytes, sequence: int
) -> tuple[list[bytes | memoryview], list[int]] | None:
    """Return what ``sent_frames`` does for entries of one shape, most of which it computes once; None for others."""
    count, start, stop = len(indexes), indexes.start, indexes.stop
    if count < _ALIKE_MIN or indexes.step != 1 or run.ledger_id < 0:
        return None
    starts, stops = run.spans[2 * start : 2 * stop : 2], run.spans[2 * start + 1 : 2 * stop : 2]
    buf, first, stored = run.buf, run.first + start, stops[0] - starts[0]
    counts = (1,) if run.counts is None else run.counts[start:stop]
    id_bytes, numbers = len(b"%d" % first), consecutive(sequence, count)
    if (
        stored >= LARGE_ENTRY_BYTES
        or stops != [at + stored for at in starts]
        or id_bytes != len(b"%d" % (first + count - 1))
        or len(numbers[0]) != len(numbers[-1])
        or counts.count(counts[0]) != len(counts)
    ):
        return None
    size = common_metadata_size(run, start, stop)
    if size is None:
        return None
    behind = _PLAIN.size + size
    place = origin + place_field(run.ledger_id, id_bytes)
    added = len(place) + id_bytes
    whole, sent = _SIZE.pack(size + added), stored + added
    bodies = [
        b"".join((whole, buf[at + 10 : at + behind], place, b"%d" % entry, buf[at + behind : end]))
        for at, end, entry in zip(starts, stops, range(first, first + count), strict=True)
    ]
    messages, pack = _messages_field(counts[0]), _FRONT.pack
    head_bytes = len(producer) + len(numbers[0]) + len(messages)
    prefix = _front_of_frame(head_bytes, sent) + producer
    parts: list[bytes | memoryview] = [b""] * (2 * count)
    parts[::2] = [
        prefix + number + messages + pack(CHECKSUM_MAGIC, crc32c(body))
        for number, body in zip(numbers, bodies, strict=True)
    ]
    parts[1::2] = bodies
    return parts, [sent] * count


def _messages_field(messages: int) -> bytes:
    """Return the number of messages of a SEND, which is left out for a single one."""
    return b"\x18" + varint(messages) if messages > 1 else b""


def _front_of_frame(head_bytes: int, entry_bytes: int) -> bytes:
    """Return what precedes the fields of a SEND."""
    return _HEAD.pack(head_bytes + 8 + entry_bytes, head_bytes + 4, 0x0806, 0x32, head_bytes)
