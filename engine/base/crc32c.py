"""CRC-32C (Castagnoli), the checksum of frames, entries and journal records."""

from crc32c import crc32c

__all__ = ["crc32c"]
