"""Payload codecs by Pulsar's numbers. A payload whose uncompressed size differs from the claimed size is refused.

NONE 0; LZ4 1, a raw block without size or frame; ZLIB 2; ZSTD 3, a frame; SNAPPY 4, a raw block that begins with its
size. Pure, but heavy: import it late where payloads are seldom decoded.
cramjam has all three that Python lacks in 4 MB.
"""

import zlib

import cramjam

from engine.base.errors import PeerError
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import read_varint

UNCOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Default bound of one uncompressed payload, checked before anything is uncompressed."""

ZSTD_LEVEL = 3
"""The level of Pulsar's clients, zstd's default."""

NONE, LZ4, ZLIB, ZSTD, SNAPPY = pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY


class CompressionError(PeerError, ValueError):
    """A payload whose uncompressed size is not the one in its metadata, or that claims too large a size."""


def codec_name(kind: int) -> str:
    """Return Pulsar's name of a codec number. Raises CompressionError for an unknown number."""
    if kind not in pb.CompressionType.values():
        raise CompressionError(f"compression {kind} is not known")
    return str(pb.CompressionType.Name(kind))


def compress(kind: int, data: bytes) -> bytes:
    """Compress ``data`` as clients do."""
    if kind == NONE:
        return data
    if kind == LZ4:
        return bytes(cramjam.lz4.compress_block(data, store_size=False))
    if kind == ZLIB:
        return zlib.compress(data)
    if kind == ZSTD:
        return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL))
    if kind == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    raise CompressionError(f"compression {kind} is not known")


def decompress(kind: int, data: bytes, size: int, size_max: int = UNCOMPRESSED_BYTES_MAX) -> bytes:
    """Uncompress ``data`` to exactly ``size`` bytes (the metadata's uncompressed_size; ignored for NONE).

    Raises CompressionError. At most ``size`` bytes, and one more to detect a larger payload, are ever produced.
    """
    if kind == NONE:
        return data
    name = codec_name(kind)
    if size > size_max:
        raise CompressionError(f"{name} payload claims {size} bytes, at most {size_max}")
    try:
        unpacked = _unpack(kind, data, size)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise CompressionError(f"{name} payload does not unpack: {error}") from error
    if len(unpacked) != size:
        raise CompressionError(f"{name} payload unpacks to other than the {size} bytes it claims")
    return unpacked


def _unpack(kind: int, data: bytes, size: int) -> bytes:
    if kind == ZLIB:
        return zlib.decompressobj().decompress(data, size + 1)
    if kind == SNAPPY:
        claimed, at = read_varint(data, 0, len(data))
        if at < 0 or claimed != size:
            return b"" if size else b"\x00"
        return bytes(cramjam.snappy.decompress_raw(data))
    if not data:
        return b""
    unpack_into = cramjam.lz4.decompress_block_into if kind == LZ4 else cramjam.zstd.decompress_into
    # cramjam takes a given size for a hint, but never writes more than a buffer holds.
    buffer = bytearray(size + 1)
    del buffer[unpack_into(data, buffer) :]
    return bytes(buffer)
