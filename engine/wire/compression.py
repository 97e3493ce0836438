"""Payload codecs by Pulsar's numbers, with the claimed size enforced: what unpacks to anything else is refused.

NONE 0; LZ4 1, a raw block without size or frame; ZLIB 2; ZSTD 3, a frame; SNAPPY 4, a raw block with its size in front.
Pure, but heavy to import: import late where payloads are seldom opened.
"""

import zlib

import lz4.block
import snappy
import zstandard

from engine.base.errors import PeerError
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import read_varint

UNCOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Default bound of what one payload may unpack to, checked before anything is unpacked."""

NONE, LZ4, ZLIB, ZSTD, SNAPPY = pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY


class CompressionError(PeerError, ValueError):
    """A payload does not unpack to the size its metadata claims, or claims too much."""


def codec_name(kind: int) -> str:
    """Pulsar's name of a codec number. Raises CompressionError for one we do not know."""
    if kind not in pb.CompressionType.values():
        raise CompressionError(f"compression {kind} is not known")
    return str(pb.CompressionType.Name(kind))


def compress(kind: int, data: bytes) -> bytes:
    """``data`` packed as clients do it."""
    if kind == NONE:
        return data
    if kind == LZ4:
        return bytes(lz4.block.compress(data, store_size=False))
    if kind == ZLIB:
        return zlib.compress(data)
    if kind == ZSTD:
        return zstandard.ZstdCompressor().compress(data)
    if kind == SNAPPY:
        return bytes(snappy.compress(data))
    raise CompressionError(f"compression {kind} is not known")


def decompress(kind: int, data: bytes, size: int, size_max: int = UNCOMPRESSED_BYTES_MAX) -> bytes:
    """``data`` unpacked to exactly ``size`` bytes (metadata's uncompressed_size; not looked at for NONE).

    Raises CompressionError. At most ``size`` bytes (and one more, to find out) are ever made.
    """
    if kind == NONE:
        return data
    name = codec_name(kind)
    if size > size_max:
        raise CompressionError(f"{name} payload claims {size} bytes, at most {size_max}")
    try:
        unpacked = _unpack(kind, data, size)
    except (
        lz4.block.LZ4BlockError,
        zlib.error,
        zstandard.ZstdError,
        snappy.UncompressError,
    ) as error:
        raise CompressionError(f"{name} payload does not unpack: {error}") from error
    if len(unpacked) != size:
        raise CompressionError(f"{name} payload unpacks to other than the {size} bytes it claims")
    return unpacked


def _unpack(kind: int, data: bytes, size: int) -> bytes:
    if kind == LZ4:
        return bytes(lz4.block.decompress(data, uncompressed_size=size)) if data else b""
    if kind == ZLIB:
        return zlib.decompressobj().decompress(data, size + 1)
    if kind == ZSTD:
        # The frame's own size wins over max_output_size, so that it must be compared before.
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            return b"" if size else b"\x00"
        reader = zstandard.ZstdDecompressor().stream_reader(data)
        return bytes(reader.read(size + 1))
    claimed, found = read_varint(data, 0, len(data))
    if found < 0 or claimed != size:
        return b"" if size else b"\x00"
    return bytes(snappy.uncompress(data))
