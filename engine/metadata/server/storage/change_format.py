"""Bytes of the log and of snapshots; layout in docs/formats/metadata-log.md. Pure.

Both kinds of file are a header and records. A record is a checksummed body: in a log one group of transactions, in a
snapshot a block of changes.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from struct import Struct, error
from typing import Any, NamedTuple

from engine.base.crc32c import crc32c
from engine.base.errors import MagnetarError
from engine.metadata.server.changes import (
    AclSet,
    Change,
    ChildrenChanged,
    DataSet,
    NodeDeleted,
    NodePut,
    SessionClosed,
    SessionOpened,
    Transaction,
)
from engine.metadata.server.protocol import Acl, AclEntry

VERSION = 1
LOG_MAGIC = b"MGMDLOG1"
SNAPSHOT_MAGIC = b"MGMDSNP1"
INSTANCE_BYTES = 16
SALT_BYTES = 8
_HEADER = Struct(f">8sI{INSTANCE_BYTES}s{SALT_BYTES}sQQQ")
_CRC = Struct(">I")
HEADER_BYTES = _HEADER.size + _CRC.size
_RECORD = Struct(f">{SALT_BYTES}sQII")
RECORD_HEAD_BYTES = _RECORD.size
_COUNTED = Struct(">QI")
"""The checksummed part of a record's head: sequence and length."""

_TRANSACTION = Struct(">qqI")
_NODE_PUT = Struct(">BIiIqqqqiiiqq")
_DATA_SET = Struct(">BIiqqi")
_ACL_SET = Struct(">BIIi")
_CHILDREN_CHANGED = Struct(">BIiq")
_NODE_DELETED = Struct(">BI")
_SESSION_OPENED = Struct(">BqiI")
_SESSION_CLOSED = Struct(">Bq")
_ENTRY = Struct(">iII")
NO_DATA = -1
"""Size of the data of a node that has none, which clients distinguish from empty data."""
NODE_PUT, DATA_SET, ACL_SET, CHILDREN_CHANGED, NODE_DELETED, SESSION_OPENED, SESSION_CLOSED = range(
    1, 8
)


class UnreadableRecordError(MagnetarError):
    """A record verifies, but its body cannot be decoded: another version of the program wrote it."""


class StoreFileHeader(NamedTuple):
    """Header of a file.

    ``instance``: identity of the store, equal in all of its files. ``salt``: drawn for this file, repeated in the head
    of each of its records. ``number``: of the segment; of a snapshot, the first segment that is applied to it.
    ``sequence``: of the first group of that segment. ``zxid``: no smaller than those of all earlier transactions.
    """

    magic: bytes
    instance: bytes
    salt: bytes
    number: int
    sequence: int
    zxid: int

    def encode(self) -> bytes:
        head = _HEADER.pack(
            self.magic, VERSION, self.instance, self.salt, self.number, self.sequence, self.zxid
        )
        return head + _CRC.pack(crc32c(head))


def decode_header(data: bytes, magic: bytes) -> StoreFileHeader | None:
    """Return the header; None when it does not verify or is of another kind or version."""
    if len(data) < HEADER_BYTES or data[:8] != magic:
        return None
    _, version, instance, salt, number, sequence, zxid = _HEADER.unpack_from(data)
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        return None
    if version != VERSION:
        return None
    return StoreFileHeader(magic, instance, salt, number, sequence, zxid)


class RecordHead(NamedTuple):
    """Unverified head of a record."""

    salt: bytes
    sequence: int
    length: int
    checksum: int


def encode_record(salt: bytes, sequence: int, body: bytes) -> bytes:
    checksum = crc32c(body, crc32c(_COUNTED.pack(sequence, len(body))))
    return _RECORD.pack(salt, sequence, len(body), checksum) + body


def decode_record_head(data: bytes, pos: int) -> RecordHead | None:
    """Return the head at ``pos``; None when the data ends before."""
    if len(data) - pos < RECORD_HEAD_BYTES:
        return None
    return RecordHead(*_RECORD.unpack_from(data, pos))


def verifies(head: RecordHead, body: bytes | memoryview) -> bool:
    """Return whether ``body`` is the one that ``head`` was written for."""
    if len(body) != head.length:
        return False
    return crc32c(body, crc32c(_COUNTED.pack(head.sequence, head.length))) == head.checksum


# Bodies


def encode_transactions(transactions: Iterable[Transaction]) -> bytes:
    """Return the body of a group."""
    parts: list[bytes] = []
    for zxid, time_ms, changes in transactions:
        parts.append(_TRANSACTION.pack(zxid, time_ms, len(changes)))
        for change in changes:
            _append_change(parts, change)
    return b"".join(parts)


def encode_changes(changes: Iterable[Change]) -> bytes:
    """Return the body of a snapshot's block."""
    parts: list[bytes] = []
    for change in changes:
        _append_change(parts, change)
    return b"".join(parts)


def _append_change(parts: list[bytes], change: Any) -> None:
    """Append the bytes of a change; the most frequent kinds come first."""
    kind = type(change)
    if kind is DataSet:
        path, data, mzxid, mtime, version = change
        name, size = path.encode(), NO_DATA if data is None else len(data)
        parts += (
            _DATA_SET.pack(DATA_SET, len(name), size, mzxid, mtime, version),
            name,
            data or b"",
        )
    elif kind is NodePut:
        path, data, acl, *numbers = change
        name, entries = path.encode(), _encode_acl(acl)
        size = NO_DATA if data is None else len(data)
        parts += (
            _NODE_PUT.pack(NODE_PUT, len(name), size, len(entries), *numbers),
            name,
            data or b"",
            entries,
        )
    elif kind is ChildrenChanged:
        path, cversion, pzxid = change
        name = path.encode()
        parts += (_CHILDREN_CHANGED.pack(CHILDREN_CHANGED, len(name), cversion, pzxid), name)
    elif kind is NodeDeleted:
        name = change[0].encode()
        parts += (_NODE_DELETED.pack(NODE_DELETED, len(name)), name)
    elif kind is AclSet:
        path, acl, aversion = change
        name, entries = path.encode(), _encode_acl(acl)
        parts += (_ACL_SET.pack(ACL_SET, len(name), len(entries), aversion), name, entries)
    elif kind is SessionOpened:
        session_id, timeout_ms, password = change
        parts += (
            _SESSION_OPENED.pack(SESSION_OPENED, session_id, timeout_ms, len(password)),
            password,
        )
    elif kind is SessionClosed:
        parts.append(_SESSION_CLOSED.pack(SESSION_CLOSED, change[0]))
    else:
        raise TypeError(f"{change!r} is not a change")


def decode_transactions(body: bytes) -> Iterator[Transaction]:
    """Yield the transactions of a group. Raises UnreadableRecordError."""
    pos = 0
    while pos < len(body):
        try:
            zxid, time_ms, count = _TRANSACTION.unpack_from(body, pos)
        except error as failure:
            raise UnreadableRecordError(f"transaction at byte {pos}: {failure}") from failure
        pos += _TRANSACTION.size
        changes = []
        for _ in range(count):
            change, pos = _change_at(body, pos)
            changes.append(change)
        yield Transaction(zxid, time_ms, tuple(changes))


def decode_changes(body: bytes) -> Iterator[Change]:
    """Yield the changes of a snapshot's block. Raises UnreadableRecordError."""
    pos = 0
    while pos < len(body):
        change, pos = _change_at(body, pos)
        yield change


def _change_at(body: bytes, pos: int) -> tuple[Change, int]:
    """Return the change at ``pos`` and the position behind it."""
    try:
        change, behind = _DECODERS[body[pos]](body, pos)
    except (error, KeyError, IndexError, UnicodeDecodeError) as failure:
        raise UnreadableRecordError(f"change at byte {pos}: {failure}") from failure
    if behind > len(body):
        raise UnreadableRecordError(f"change at byte {pos} ends behind its record")
    return change, behind


def _node_put(body: bytes, pos: int) -> tuple[Change, int]:
    _, path_size, data_size, acl_size, *numbers = _NODE_PUT.unpack_from(body, pos)
    data_at = pos + _NODE_PUT.size + path_size
    acl_at = data_at + max(data_size, 0)
    behind = acl_at + acl_size
    path = body[data_at - path_size : data_at].decode()
    data = None if data_size == NO_DATA else body[data_at:acl_at]
    return NodePut(path, data, _decode_acl(body[acl_at:behind]), *numbers), behind


def _data_set(body: bytes, pos: int) -> tuple[Change, int]:
    _, path_size, data_size, mzxid, mtime, version = _DATA_SET.unpack_from(body, pos)
    data_at = pos + _DATA_SET.size + path_size
    behind = data_at + max(data_size, 0)
    path = body[data_at - path_size : data_at].decode()
    data = None if data_size == NO_DATA else body[data_at:behind]
    return DataSet(path, data, mzxid, mtime, version), behind


def _acl_set(body: bytes, pos: int) -> tuple[Change, int]:
    _, path_size, acl_size, aversion = _ACL_SET.unpack_from(body, pos)
    acl_at = pos + _ACL_SET.size + path_size
    behind = acl_at + acl_size
    path = body[acl_at - path_size : acl_at].decode()
    return AclSet(path, _decode_acl(body[acl_at:behind]), aversion), behind


def _children_changed(body: bytes, pos: int) -> tuple[Change, int]:
    _, path_size, cversion, pzxid = _CHILDREN_CHANGED.unpack_from(body, pos)
    behind = pos + _CHILDREN_CHANGED.size + path_size
    return ChildrenChanged(body[behind - path_size : behind].decode(), cversion, pzxid), behind


def _node_deleted(body: bytes, pos: int) -> tuple[Change, int]:
    _, path_size = _NODE_DELETED.unpack_from(body, pos)
    behind = pos + _NODE_DELETED.size + path_size
    return NodeDeleted(body[behind - path_size : behind].decode()), behind


def _session_opened(body: bytes, pos: int) -> tuple[Change, int]:
    _, session_id, timeout_ms, size = _SESSION_OPENED.unpack_from(body, pos)
    behind = pos + _SESSION_OPENED.size + size
    return SessionOpened(session_id, timeout_ms, body[behind - size : behind]), behind


def _session_closed(body: bytes, pos: int) -> tuple[Change, int]:
    return SessionClosed(_SESSION_CLOSED.unpack_from(body, pos)[1]), pos + _SESSION_CLOSED.size


_DECODERS = {
    NODE_PUT: _node_put,
    DATA_SET: _data_set,
    ACL_SET: _acl_set,
    CHILDREN_CHANGED: _children_changed,
    NODE_DELETED: _node_deleted,
    SESSION_OPENED: _session_opened,
    SESSION_CLOSED: _session_closed,
}


@lru_cache(maxsize=64)
def _encode_acl(acl: Acl) -> bytes:
    parts = []
    for permissions, scheme, identity in acl:
        name, user = scheme.encode(), identity.encode()
        parts += [_ENTRY.pack(permissions, len(name), len(user)), name, user]
    return b"".join(parts)


@lru_cache(maxsize=64)  # nodes with equal lists share one
def _decode_acl(data: bytes) -> Acl:
    entries = []
    pos = 0
    while pos < len(data):
        permissions, name_size, user_size = _ENTRY.unpack_from(data, pos)
        user_at = pos + _ENTRY.size + name_size
        pos = user_at + user_size
        name = data[user_at - name_size : user_at].decode()
        entries.append(AclEntry(permissions, name, data[user_at:pos].decode()))
    return tuple(entries)
