"""Entries as a replicator sends them: as stored, with the cluster and position of their origin in the metadata. Pure.

Fields are added behind the stored metadata, of which the last occurrence of a field counts, so that nothing of it is
decoded and the payload is not touched.
"""

from collections.abc import Mapping, Sequence
from struct import Struct

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.wire.geo.source_positions import SOURCE_POSITION
from engine.wire.kernels import CHECKSUM_MAGIC, metadata_span
from engine.wire.varints import varint

_FRONT = Struct(">HI")
_SIZE = Struct(">I")
_PLAIN = Struct(">HII")
"""Front of an entry with a checksum and without broker metadata: magic, checksum, size of the metadata."""
_KEY = b"\x0a" + varint(len(SOURCE_POSITION)) + SOURCE_POSITION.encode() + b"\x12"


def origin_field(cluster: str) -> bytes:
    """Return the field replicated_from."""
    name = cluster.encode()
    return b"\x2a" + varint(len(name)) + name


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
        text = b"%d:%d" % run.position(i)
        pair = _KEY + varint(len(text)) + text
        added += b"\x22" + varint(len(pair)) + pair
    if schema_version is not None:
        added += b"\x82\x01" + varint(len(schema_version)) + schema_version
    metadata = run.buf[span[0] : span[1]] + added
    body = b"".join((_SIZE.pack(len(metadata)), metadata, run.buf[span[1] : stop]))
    return _FRONT.pack(CHECKSUM_MAGIC, crc32c(body)) + body


def sent_entries(
    run: Slice, indexes: Sequence[int], origin: bytes, versions: Mapping[int, bytes]
) -> list[bytes]:
    """Return the entries at ``indexes`` as ``sent_entry`` does; ``versions``: schema versions by index.

    Entries of a persistent topic in the form that clients send take a third of the time of single ones.
    """
    if run.ledger_id < 0:
        return [sent_entry(run, i, origin, versions.get(i)) for i in indexes]
    buf, spans, first = run.buf, run.spans, run.first
    unpack, pack_size, pack_front = _PLAIN.unpack_from, _SIZE.pack, _FRONT.pack
    ledger = b"%d:" % run.ledger_id
    fronts: dict[int, bytes] = {}
    entries: list[bytes] = []
    for i in indexes:
        start, stop = spans[2 * i], spans[2 * i + 1]
        magic, size = 0, 0
        if stop - start >= 10:
            magic, _, size = unpack(buf, start)
        behind = start + 10 + size
        if magic != CHECKSUM_MAGIC or behind > stop or i in versions:
            entries.append(sent_entry(run, i, origin, versions.get(i)))
            continue
        entry_id = b"%d" % (first + i)
        digits = len(entry_id)
        front = fronts.get(digits)
        if front is None:
            place_bytes = len(ledger) + digits
            pair = _KEY + varint(place_bytes) + ledger
            front = fronts[digits] = origin + b"\x22" + varint(len(pair) + digits) + pair
        size += len(front) + digits
        body = b"".join(
            (pack_size(size), buf[start + 10 : behind], front, entry_id, buf[behind:stop])
        )
        entries.append(pack_front(CHECKSUM_MAGIC, crc32c(body)) + body)
    return entries
