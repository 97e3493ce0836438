"""BookKeeper V2 frames, built and parsed one at a time; runs of adds and replies are in ``kernels``. Pure.

All start ``u32 length | u32 version << 24 | opcode << 16 | flags``; ids are signed 64 bit, big-endian::

    read         ledger | entry [| master key 20]      the key is there exactly when DO_FENCING is set
    read reply   i32 rc | ledger | entry [| stored entry]
    batch read   ledger | first entry | request id | i32 count | i64 bytes [| master key 20]
    auth         protobuf AuthMessage, both ways
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from engine.base.errors import PeerError
from engine.wire import bookkeeper_pb2 as pb

VERSION = 2
ADD, READ, AUTH, BATCH_READ = 1, 2, 3, 7
DO_FENCING, RECOVERY_ADD, HIGH_PRIORITY = 1, 2, 4
HEAD_BYTES: Final = 8
"""Bytes of length and header word; enough to determine the kind of a frame."""
MASTER_KEY_BYTES = 20
LAST_ENTRY = -1
"""Entry id of a read of the last entry that the bookie has."""
FRAME_BYTES_MAX = 5_253_120
"""Length limit of a frame, as Pulsar configures its bookies."""
AUTH_DISABLED = "AuthDisabledPlugin"
"""Plugin name in a bookie's answer to AUTH when it has no authentication; clients take that as success."""


class ResultCode(IntEnum):
    """Results on the V2 wire."""

    EOK = 0
    ENOLEDGER = 1
    ENOENTRY = 2
    EBADREQ = 100
    EIO = 101
    EUA = 102
    EBADVERSION = 103
    EFENCED = 104
    EREADONLY = 105
    ETOOMANYREQUESTS = 106
    EUNKNOWNLEDGERSTATE = 107
    """A code that is never sent over V2, where EIO is answered: Java clients drop the connection on it."""


EOK = ResultCode.EOK
ENOLEDGER = ResultCode.ENOLEDGER
ENOENTRY = ResultCode.ENOENTRY
EBADREQ = ResultCode.EBADREQ
EIO = ResultCode.EIO
EUA = ResultCode.EUA
EBADVERSION = ResultCode.EBADVERSION
EFENCED = ResultCode.EFENCED
EREADONLY = ResultCode.EREADONLY
ETOOMANYREQUESTS = ResultCode.ETOOMANYREQUESTS
EUNKNOWNLEDGERSTATE = ResultCode.EUNKNOWNLEDGERSTATE


def code_name(code: int) -> str:
    """Return a result's name for messages, or its number when it has no name."""
    return ResultCode(code).name if code in ResultCode.__members__.values() else str(code)


_HEAD = Struct(">II")
_READ = Struct(">IIqq")
_BATCH_READ = Struct(">IIqqqiq")
_ADD = Struct(">II20sqq")
_REPLY = Struct(">IIiqq")
_BATCH_REPLY = Struct(">IIiqqq")
_LENGTH = Struct(">I")
_ADD_BYTES_MIN = HEAD_BYTES + MASTER_KEY_BYTES + 32


class BookieFrameError(PeerError):
    """A V2 frame whose content contradicts its header; the connection must be closed."""


@dataclass(slots=True)
class AddRequest:
    """An add. ``entry`` is what the bookie stores: 32-byte header, digest, payload."""

    version: int
    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes
    entry: bytes


@dataclass(slots=True)
class ReadRequest:
    """A read. ``entry_id`` LAST_ENTRY requests the last entry; ``master_key`` is None unless the read fences."""

    version: int
    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes | None


@dataclass(slots=True)
class BatchReadRequest:
    """A read of consecutive entries. ``count_max`` <= 0: no bound on entries; ``bytes_max`` bounds the reply."""

    version: int
    flags: int
    ledger_id: int
    first_entry: int
    request_id: int
    count_max: int
    bytes_max: int
    master_key: bytes | None


@dataclass(slots=True)
class AuthRequest:
    """An authentication message of either direction: a plugin's name and its payload."""

    version: int
    plugin: str
    payload: bytes


Request = AddRequest | ReadRequest | BatchReadRequest | AuthRequest


def header(opcode: int, flags: int = 0, version: int = VERSION) -> int:
    """Return the second word of a frame."""
    return version << 24 | opcode << 16 | flags


def is_v3(buf: bytes, pos: int) -> bool:
    """Return whether the frame at ``pos`` (at least five bytes) is a protobuf V3 request rather than V2."""
    return buf[pos + 4] == 0x0A


def add_request(
    ledger_id: int, entry_id: int, master_key: bytes, entry: bytes, flags: int = 0
) -> bytes:
    """Build an add of a complete stored entry (header and digest included), for recovery and re-replication."""
    size = 4 + MASTER_KEY_BYTES + len(entry)
    if entry[:16] != _REPLY.pack(0, 0, 0, ledger_id, entry_id)[12:]:
        raise ValueError(f"entry does not carry the ids {ledger_id}:{entry_id}")
    return _HEAD.pack(size, header(ADD, flags)) + master_key + entry


def read_request(
    ledger_id: int, entry_id: int, *, flags: int = 0, master_key: bytes | None = None
) -> bytes:
    """Build a read. With DO_FENCING in ``flags`` the 20-byte ``master_key`` is required; otherwise it is not sent."""
    if not flags & DO_FENCING:
        return _READ.pack(20, header(READ, flags), ledger_id, entry_id)
    if master_key is None or len(master_key) != MASTER_KEY_BYTES:
        raise ValueError("a fencing read needs the 20-byte master key")
    return _READ.pack(40, header(READ, flags), ledger_id, entry_id) + master_key


def read_last_request(ledger_id: int) -> bytes:
    """Build a read of the last entry that the bookie has, whose header has the last confirmed entry."""
    return read_request(ledger_id, LAST_ENTRY)


def fence_request(ledger_id: int, master_key: bytes) -> bytes:
    """Build a read that fences the ledger and returns its last entry."""
    return read_request(ledger_id, LAST_ENTRY, flags=DO_FENCING, master_key=master_key)


def batch_read_request(
    ledger_id: int, first_entry: int, request_id: int, count_max: int, bytes_max: int
) -> bytes:
    """Build a read of consecutive entries from ``first_entry`` on."""
    word = header(BATCH_READ)
    return _BATCH_READ.pack(40, word, ledger_id, first_entry, request_id, count_max, bytes_max)


def auth_message(plugin: str, payload: bytes = b"", version: int = VERSION) -> bytes:
    """Build an AUTH request or reply."""
    body = pb.AuthMessage(authPluginName=plugin, payload=payload).SerializeToString()
    return _HEAD.pack(4 + len(body), header(AUTH, 0, version)) + body


def add_reply(rc: int, ledger_id: int, entry_id: int, version: int = VERSION) -> bytes:
    """Build the answer to one add."""
    return _REPLY.pack(24, header(ADD, 0, version), rc, ledger_id, entry_id)


def read_reply(
    rc: int, ledger_id: int, entry_id: int, entry: bytes = b"", version: int = VERSION
) -> bytes:
    """Build the answer to a read: the entry id of the request and, when ``rc`` is EOK, the stored entry."""
    body = entry if rc == 0 else b""
    return _REPLY.pack(24 + len(body), header(READ, 0, version), rc, ledger_id, entry_id) + body


def batch_read_reply(
    rc: int,
    ledger_id: int,
    first_entry: int,
    request_id: int,
    entries: Sequence[bytes | memoryview],
    version: int = VERSION,
) -> list[bytes | memoryview]:
    """Build the answer to a batch read, in parts with the entries unchanged; without entries unless ``rc`` is EOK."""
    parts: list[bytes | memoryview] = [b""]
    size = 0
    if rc == EOK:
        for entry in entries:
            parts += (_LENGTH.pack(len(entry)), entry)
            size += _LENGTH.size + len(entry)
    word = header(BATCH_READ, 0, version)
    parts[0] = _BATCH_REPLY.pack(32 + size, word, rc, ledger_id, first_entry, request_id)
    return parts


def parse_request(buf: bytes, pos: int, stop: int) -> Request:
    """Return the request in the complete V2 frame ``buf[pos:stop]``. Raises BookieFrameError when the connection must
    be closed.

    Versions 1 and higher are parsed alike (a version other than 1 or 2 is answered EBADVERSION by the caller); version
    0 has no flags and is refused.
    """
    if stop - pos < HEAD_BYTES:
        raise BookieFrameError(f"frame of {stop - pos} bytes has no header")
    _, word = _HEAD.unpack_from(buf, pos)
    version, opcode, flags = word >> 24, word >> 16 & 0xFF, word & 0xFFFF
    if version == 0:
        raise BookieFrameError("protocol version 0 is not served")
    if opcode == ADD:
        if stop - pos < _ADD_BYTES_MIN:
            raise BookieFrameError(f"add of {stop - pos} bytes, at least {_ADD_BYTES_MIN}")
        _, _, add_key, ledger_id, entry_id = _ADD.unpack_from(buf, pos)
        return AddRequest(version, flags, ledger_id, entry_id, add_key, buf[pos + 28 : stop])
    if opcode == READ:
        key = _key(buf, pos, stop, _READ.size, flags)
        _, _, ledger_id, entry_id = _READ.unpack_from(buf, pos)
        return ReadRequest(version, flags, ledger_id, entry_id, key)
    if opcode == BATCH_READ:
        key = _key(buf, pos, stop, _BATCH_READ.size, flags)
        _, _, ledger_id, first, request_id, count, size = _BATCH_READ.unpack_from(buf, pos)
        return BatchReadRequest(version, flags, ledger_id, first, request_id, count, size, key)
    if opcode == AUTH:
        plugin, payload = parse_auth(buf, pos, stop)
        return AuthRequest(version, plugin, payload)
    raise BookieFrameError(f"opcode {opcode} is not served")


def _key(buf: bytes, pos: int, stop: int, fixed: int, flags: int) -> bytes | None:
    """Return the master key behind a read's fixed part when the read fences, else None. Checks the length."""
    if stop - pos < fixed:
        raise BookieFrameError(f"read of {stop - pos} bytes, at least {fixed}")
    if not flags & DO_FENCING:
        return None
    if stop - pos < fixed + MASTER_KEY_BYTES:
        raise BookieFrameError("fencing read without its master key")
    return buf[pos + fixed : pos + fixed + MASTER_KEY_BYTES]


def parse_auth(buf: bytes, pos: int, stop: int) -> tuple[str, bytes]:
    """Return (plugin name, payload) of an AUTH frame of either direction. Raises BookieFrameError."""
    try:
        message = pb.AuthMessage.FromString(buf[pos + HEAD_BYTES : stop])
    except DecodeError as error:
        raise BookieFrameError("AUTH frame does not hold an AuthMessage") from error
    if not message.IsInitialized():
        raise BookieFrameError("AuthMessage lacks its plugin name")
    return message.authPluginName, message.payload


@dataclass(slots=True)
class BatchReadReply:
    """A parsed answer to a batch read. ``spans`` is flat: entry ``first_entry + i`` is ``buf[spans[2 * i]:spans[2 * i +
    1]]``."""

    rc: int
    ledger_id: int
    first_entry: int
    request_id: int
    spans: list[int]


def parse_batch_read_reply(buf: bytes, pos: int, stop: int) -> BatchReadReply:
    """Return the reply in the complete frame ``buf[pos:stop]``. Raises BookieFrameError."""
    if stop - pos < _BATCH_REPLY.size:
        raise BookieFrameError(f"batch read reply of {stop - pos} bytes")
    _, _, rc, ledger_id, first, request_id = _BATCH_REPLY.unpack_from(buf, pos)
    spans: list[int] = []
    at = pos + _BATCH_REPLY.size
    while at < stop:
        if at + 4 > stop:
            raise BookieFrameError("batch read reply ends inside an entry's length")
        entry_stop = at + 4 + _LENGTH.unpack_from(buf, at)[0]
        if entry_stop > stop:
            raise BookieFrameError("batch read reply ends inside an entry")
        spans += (at + 4, entry_stop)
        at = entry_stop
    return BatchReadReply(rc, ledger_id, first, request_id, spans)
