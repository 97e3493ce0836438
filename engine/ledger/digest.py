"""Entry envelope: ledgerId, entryId, lac, length (i64 each), digest, payload; and the keys derived from a password.
Pure.

The digest covers the 32 header bytes followed by the payload (BookKeeper's ``DigestManager``). An entry that fails its
check, ids included, is never delivered: every reader sees the same payload for an entry id (I4, I32).
"""

import hashlib
import hmac
import zlib
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from engine.base.crc32c import crc32c

HEADER = Struct(">qqqq")
HEADER_BYTES = HEADER.size
_SIZE = Struct(">I")
_SIZED_CRC32C = Struct(">Iqq16xI")
VIEWED_BYTES = 512
"""Entries below this size are cheaper to copy for their checksum than to view."""


class DigestType(IntEnum):
    """Digest types by their numbers in ledger metadata."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


DIGEST_BYTES = {
    DigestType.CRC32: 8,
    DigestType.HMAC: 20,
    DigestType.CRC32C: 4,
    DigestType.DUMMY: 0,
}


def master_key(password: bytes) -> bytes:
    """Return the 20 bytes that authorise adds and fencing at a bookie."""
    return hashlib.sha1(b"ledger" + password).digest()


def mac_key(password: bytes) -> bytes:
    """Return the 20-byte key of the HMAC digest."""
    return hashlib.sha1(b"mac" + password).digest()


class Header(NamedTuple):
    """First 32 bytes of an entry. ``length`` is the payload bytes of the ledger up to and including this entry."""

    ledger_id: int
    entry_id: int
    lac: int
    length: int


class Digest:
    """Seals and checks entries of one ledger."""

    def __init__(self, kind: DigestType, password: bytes) -> None:
        self.kind = kind
        self.size = DIGEST_BYTES[kind]
        self.overhead = HEADER_BYTES + self.size
        self._mac_key = mac_key(password)

    def compute(self, header: bytes | memoryview, payload: bytes | memoryview) -> bytes:
        """Return the digest bytes of a header and payload."""
        match self.kind:
            case DigestType.CRC32C:
                return crc32c(payload, crc32c(header)).to_bytes(4, "big")
            case DigestType.CRC32:
                return zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")
            case DigestType.HMAC:
                mac = hmac.new(self._mac_key, header, "sha1")
                mac.update(payload)
                return mac.digest()
            case DigestType.DUMMY:
                return b""

    def seal(self, header: Header, payload: bytes) -> bytes:
        """Return the entry as bookies store it."""
        head = HEADER.pack(*header)
        return head + self.compute(head, payload) + payload

    def check(self, buf: bytes, start: int, stop: int, ledger_id: int, entry_id: int) -> bool:
        """Return whether ``buf[start:stop]`` is the intact entry ``entry_id`` of ledger ``ledger_id``."""
        body = start + self.overhead
        if stop < body:
            return False
        header = HEADER.unpack_from(buf, start)
        if header[0] != ledger_id or header[1] != entry_id:
            return False
        view = memoryview(buf)
        head = view[start : start + HEADER_BYTES]
        payload = view[body:stop]
        if self.kind is DigestType.CRC32C:
            stored_crc = int.from_bytes(view[start + HEADER_BYTES : body], "big")
            return crc32c(payload, crc32c(head)) == stored_crc
        expected = self.compute(head, payload)
        return hmac.compare_digest(expected, view[start + HEADER_BYTES : body])

    def check_batch(
        self, buf: bytes, start: int, stop: int, ledger_id: int, first: int
    ) -> tuple[list[int], bool]:
        """Check the entries in ``buf[start:stop]``, each behind its 32-bit size, with ids rising from ``first``.

        Returns the payload spans of the intact entries before the first damaged or unexpected one, and whether the
        whole range was intact.
        """
        spans: list[int] = []
        if self.kind is DigestType.CRC32C:
            return spans, self._check_crc32c_batch(buf, start, stop, ledger_id, first, spans)
        entry = first
        while start + 4 <= stop:
            at = start + 4
            end = at + _SIZE.unpack_from(buf, start)[0]
            if end > stop or not self.check(buf, at, end, ledger_id, entry):
                return spans, False
            spans += (at + self.overhead, end)
            entry += 1
            start = end
        return spans, start == stop

    def _check_crc32c_batch(
        self, buf: bytes, start: int, stop: int, ledger_id: int, entry: int, spans: list[int]
    ) -> bool:
        add, unpack, fixed_bytes = spans.append, _SIZED_CRC32C.unpack_from, _SIZED_CRC32C.size
        source: bytes | memoryview = buf
        while start + fixed_bytes <= stop:
            size, ledger, entry_id, crc = unpack(buf, start)
            if size >= VIEWED_BYTES and source is buf:
                source = memoryview(buf)
            body = start + fixed_bytes
            end = start + 4 + size
            if (
                ledger != ledger_id
                or entry_id != entry
                or end > stop
                or end < body
                or crc32c(source[body:end], crc32c(source[start + 4 : start + 36])) != crc
            ):
                return False
            add(body)
            add(end)
            entry += 1
            start = end
        return start == stop


def header_of(buf: bytes, start: int = 0) -> Header:
    """Return the header of the entry at ``start``; at least 32 bytes must follow ``start``."""
    return Header(*HEADER.unpack_from(buf, start))
