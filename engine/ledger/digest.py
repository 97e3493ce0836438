"""Entry envelope: ledgerId, entryId, lac, length (i64 each), digest, payload; and the keys made of a password. Pure.

The digest covers the 32 header bytes followed by the payload (BookKeeper's ``DigestManager``). Nothing is read that
does not pass its check, ids included: a slot has one payload for everybody (I4, I32).
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
    """Numbers as in ledger metadata."""

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
    """20 bytes that authorise adds and fencing at a bookie."""
    return hashlib.sha1(b"ledger" + password).digest()


def mac_key(password: bytes) -> bytes:
    """Key of the HMAC digest."""
    return hashlib.sha1(b"mac" + password).digest()


class Header(NamedTuple):
    """First 32 bytes of an entry. ``length`` is the payload bytes of the ledger up to and with this entry."""

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
        """Digest bytes of a header and payload."""
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
        """The stored entry."""
        head = HEADER.pack(*header)
        return head + self.compute(head, payload) + payload

    def check(self, buf: bytes, start: int, stop: int, ledger_id: int, entry_id: int) -> bool:
        """Whether ``buf[start:stop]`` is the intact entry of this slot."""
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
            found = int.from_bytes(view[start + HEADER_BYTES : body], "big")
            return crc32c(payload, crc32c(head)) == found
        expected = self.compute(head, payload)
        return hmac.compare_digest(expected, view[start + HEADER_BYTES : body])

    def take_batch(
        self, buf: bytes, start: int, stop: int, ledger_id: int, first: int
    ) -> tuple[list[int], bool]:
        """Payload spans of the entries in ``buf[start:stop]``, each behind its 32-bit size, ids rising from ``first``;
        and whether all of it was intact. Ends before the first entry that is not what it should be."""
        spans: list[int] = []
        if self.kind is DigestType.CRC32C:
            return spans, self._take_crc32c(buf, start, stop, ledger_id, first, spans)
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

    def _take_crc32c(
        self, buf: bytes, start: int, stop: int, ledger_id: int, entry: int, spans: list[int]
    ) -> bool:
        add, unpack, whole = spans.append, _SIZED_CRC32C.unpack_from, _SIZED_CRC32C.size
        source: bytes | memoryview = buf
        while start + whole <= stop:
            size, ledger, found, crc = unpack(buf, start)
            if size >= VIEWED_BYTES and source is buf:
                source = memoryview(buf)
            body = start + whole
            end = start + 4 + size
            if (
                ledger != ledger_id
                or found != entry
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
    """Header of the entry at ``start``; at least 32 bytes must be there."""
    return Header(*HEADER.unpack_from(buf, start))
