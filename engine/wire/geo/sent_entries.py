"""Entries as a replicator sends them: as stored, with the cluster and position of their origin in the metadata. Pure.

Fields are added behind the stored metadata, of which the last occurrence of a field counts, so that nothing of it is
decoded and the payload is not touched.
"""

from struct import Struct

from engine.base.crc32c import crc32c
from engine.base.slices import Slice
from engine.wire.geo.source_positions import SOURCE_POSITION
from engine.wire.kernels import CHECKSUM_MAGIC, metadata_span
from engine.wire.varints import varint

_FRONT = Struct(">HI")
_SIZE = Struct(">I")
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
