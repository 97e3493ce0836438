"""Headers of files that a later release wrote. Pure.

Every header of our files begins with eight bytes of magic and a version (u32), and ends with CRC-32C of all before it.
A later format keeps this, so that an earlier release recognises it and does not take it for damage (K6).
"""

from struct import Struct

from engine.base.crc32c import crc32c

_VERSION = Struct(">I")
_VERSION_AT, _SHORTEST = 8, 12
HEADER_BYTES_MAX = 256
"""Bytes within which a header of any version ends."""


def later_version(header: bytes, magic: bytes, known: int) -> int:
    """Return the version of a whole header that is later than ``known``; 0 for any other header, damaged ones too."""
    if len(header) < _SHORTEST or not header.startswith(magic):
        return 0
    version: int = _VERSION.unpack_from(header, _VERSION_AT)[0]
    if version <= known:
        return 0
    checksum = crc32c(header[:_SHORTEST])
    for size in range(_SHORTEST, min(len(header), HEADER_BYTES_MAX) - _VERSION.size + 1, 4):
        if _VERSION.unpack_from(header, size)[0] == checksum:
            return version
        checksum = crc32c(header[size : size + 4], checksum)
    return 0


def later_text(path: str, version: int, known: int) -> str:
    """Return the line for an operator about a file of a later version."""
    return (
        f"{path} has format {version}, and this release reads {known}: a later release wrote it. Start that release"
        " again, or restore a backup; remove no file"
    )
