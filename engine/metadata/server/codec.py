"""Bytes of ZooKeeper's client protocol: requests are decoded, answers and events encoded.

Decoders take a frame without its leading length, encoders return one with it. Bytes behind a request's last field are
ignored, as Apache's server does.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from engine.metadata.server.jute import (
    INT,
    JuteError,
    buffer,
    read_bool,
    read_buffer,
    read_int,
    read_long,
    read_optional_text,
    read_text,
    read_vector,
    text,
    texts,
)
from engine.metadata.server.protocol import (
    OPEN_ACL,
    Acl,
    AclAnswer,
    AclEntry,
    AddWatch,
    Answer,
    Auth,
    Check,
    Children,
    CloseSession,
    ConnectAnswer,
    ConnectRequest,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    ErrorCode,
    Event,
    Exists,
    FindWatches,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Identities,
    Multi,
    MultiAnswer,
    MultiRead,
    Number,
    Op,
    Path,
    Paths,
    Ping,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Stat,
    Sync,
    WhoAmI,
)

EVENT_XID = -1
SYNC_CONNECTED = 3

_REQUEST_HEAD = Struct(">ii")
_CONNECT_REQUEST = Struct(">iqiq")
_CONNECT_ANSWER = Struct(">iiiqi")
_ANSWER_HEAD = Struct(">iiqi")
_DATA_ANSWER_HEAD = Struct(">iiqii")
_EVENT_HEAD = Struct(">iiqiii")
_STAT = Struct(">qqqqiiiqiiq")
_MULTI_HEAD = Struct(">i?i")
_MULTI_ERROR = Struct(">i?ii")
_MODES = frozenset(CreateMode)
_CREATE_TTL = Op.CREATE_TTL
_WITH_TTL = (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)
_MULTI_HEADS = {op: _MULTI_HEAD.pack(op, False, 0) for op in Op}
_MULTI_END = _MULTI_HEAD.pack(Op.ERROR, True, -1)


def _acl_bytes(acl: Acl) -> bytes:
    entries = [INT.pack(entry[0]) + text(entry[1]) + text(entry[2]) for entry in acl]
    return INT.pack(len(entries)) + b"".join(entries)


_OPEN_ACL_BYTES = _acl_bytes(OPEN_ACL)


class RequestError(JuteError):
    """A request's body is not of its type's form: answered with MARSHALLING_ERROR."""

    def __init__(self, xid: int, reason: str) -> None:
        super().__init__(reason)
        self.xid = xid


class UnknownRequestError(Exception):
    """A request of a type that is not served: answered with zxid -1 and UNIMPLEMENTED, after which ZooKeeper closes.

    So is CHECK, which is only an operation of a multi.
    """

    def __init__(self, xid: int, op: int) -> None:
        super().__init__(f"requests of type {op} are not implemented")
        self.xid = xid
        self.op = op


def decode_connect(frame: bytes) -> ConnectRequest:
    """Return the first request of a connection. Raises JuteError."""
    if len(frame) < _CONNECT_REQUEST.size:
        raise JuteError("a connect request has at least 28 bytes")
    protocol, last_zxid, timeout_ms, session_id = _CONNECT_REQUEST.unpack_from(frame)
    password, at = read_buffer(frame, _CONNECT_REQUEST.size)
    has_read_only = at < len(frame)
    read_only = has_read_only and frame[at] != 0
    return ConnectRequest(
        protocol, last_zxid, timeout_ms, session_id, password or b"", read_only, has_read_only
    )


def encode_connect(answer: ConnectAnswer, with_read_only: bool) -> bytes:
    """Return the frame of an answer to the first request; the server is never read-only in the protocol's sense."""
    timeout_ms, session_id, password = answer
    size = 20 + len(password) + with_read_only
    head = _CONNECT_ANSWER.pack(size, 0, timeout_ms, session_id, len(password))
    return head + password + (b"\0" if with_read_only else b"")


def decode_request(frame: bytes) -> tuple[int, Request]:
    """Return the xid and the request of a frame.

    Raises RequestError (answered), UnknownRequestError (answered) or, when there is not even a header, JuteError.
    """
    if len(frame) < 8:
        raise JuteError("a request has at least 8 bytes")
    xid, op = _REQUEST_HEAD.unpack_from(frame)
    decode = _DECODERS.get(op)
    if decode is None:
        raise UnknownRequestError(xid, op)
    try:
        return xid, decode(frame, 8)[0]
    except JuteError as error:
        raise RequestError(xid, f"{Op(op).name}: {error}") from error


# Requests. Each decoder returns the request and the offset behind it, which a multi's next operation has.

Decoded = tuple[Request, int]


def _get_data(frame: bytes, at: int) -> tuple[GetData, int]:
    path, at = read_text(frame, at)
    watch, at = read_bool(frame, at)
    return GetData(path, watch), at


def _exists(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    watch, at = read_bool(frame, at)
    return Exists(path, watch), at


def _set_data(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    data, at = read_buffer(frame, at)
    version, at = read_int(frame, at)
    return SetData(path, data, version), at


def _acl_entry(frame: bytes, at: int) -> tuple[AclEntry, int]:
    permissions, at = read_int(frame, at)
    scheme, at = read_optional_text(frame, at)
    name, at = read_optional_text(frame, at)
    return AclEntry(permissions, scheme, name), at


def _read_acl(frame: bytes, at: int) -> tuple[Acl, int]:
    """Return an ACL; the most common one is always the same object."""
    if frame.startswith(_OPEN_ACL_BYTES, at):
        return OPEN_ACL, at + len(_OPEN_ACL_BYTES)
    return read_vector(frame, at, _acl_entry)


def _create(op: Op) -> Callable[[bytes, int], tuple[Create, int]]:
    def decode(frame: bytes, at: int) -> tuple[Create, int]:
        path, at = read_text(frame, at)
        data, at = read_buffer(frame, at)
        acl, at = _read_acl(frame, at)
        flags, at = read_int(frame, at)
        ttl_ms = 0
        if op is _CREATE_TTL:
            ttl_ms, at = read_long(frame, at)
        return Create(op, path, data, acl, flags, ttl_ms), at

    return decode


def _delete(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    version, at = read_int(frame, at)
    return Delete(path, version), at


def _check(frame: bytes, at: int) -> tuple[Check, int]:
    path, at = read_text(frame, at)
    version, at = read_int(frame, at)
    return Check(path, version), at


def _get_acl(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    return GetAcl(path), at


def _set_acl(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    acl, at = _read_acl(frame, at)
    version, at = read_int(frame, at)
    return SetAcl(path, acl, version), at


def _get_children(frame: bytes, at: int) -> tuple[GetChildren, int]:
    path, at = read_text(frame, at)
    watch, at = read_bool(frame, at)
    return GetChildren(path, watch, stat=False), at


def _get_children2(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    watch, at = read_bool(frame, at)
    return GetChildren(path, watch, stat=True), at


def _sync(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    return Sync(path), at


def _set_watches(frame: bytes, at: int) -> tuple[SetWatches, int]:
    relative_zxid, at = read_long(frame, at)
    data, at = read_vector(frame, at, read_text)
    exist, at = read_vector(frame, at, read_text)
    child, at = read_vector(frame, at, read_text)
    return SetWatches(relative_zxid, data, exist, child), at


def _set_watches2(frame: bytes, at: int) -> Decoded:
    request, at = _set_watches(frame, at)
    persistent, at = read_vector(frame, at, read_text)
    recursive, at = read_vector(frame, at, read_text)
    return request._replace(persistent=persistent, persistent_recursive=recursive), at


def _add_watch(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    mode, at = read_int(frame, at)
    return AddWatch(path, mode), at


def _check_watches(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    kind, at = read_int(frame, at)
    return FindWatches(path, kind, remove=False), at


def _remove_watches(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    kind, at = read_int(frame, at)
    return FindWatches(path, kind, remove=True), at


def _get_ephemerals(frame: bytes, at: int) -> Decoded:
    prefix, at = read_text(frame, at)
    return GetEphemerals(prefix), at


def _get_all_children_number(frame: bytes, at: int) -> Decoded:
    path, at = read_text(frame, at)
    return GetAllChildrenNumber(path), at


def _auth(frame: bytes, at: int) -> Decoded:
    _, at = read_int(frame, at)  # always 0
    scheme, at = read_optional_text(frame, at)
    auth, at = read_buffer(frame, at)
    return Auth(scheme, auth or b""), at


def _empty(request: Request) -> Callable[[bytes, int], Decoded]:
    return lambda _, at: (request, at)


def _multi_head(frame: bytes, at: int) -> tuple[int, bool, int]:
    """Return the type of the next operation, whether there is none, and the offset behind the header."""
    end = at + _MULTI_HEAD.size
    if end > len(frame):
        raise JuteError("the frame ends within the header of an operation")
    op, done, _ = _MULTI_HEAD.unpack_from(frame, at)
    return op, done, end


def _multi(frame: bytes, at: int) -> Decoded:
    ops: list[Any] = []
    while True:
        op, done, at = _multi_head(frame, at)
        if done:
            return Multi(tuple(ops)), at
        decode = _MULTI_DECODERS.get(op)
        if decode is None:
            raise JuteError(f"operation {len(ops)} has type {op}, which a multi cannot have")
        request, at = decode(frame, at)
        ops.append(_multi_create(request) if type(request) is Create else request)


def _multi_create(request: Create) -> Create:
    """Return a creation as ZooKeeper takes it in a multi, where the flags decide on the type."""
    op, flags = request.op, request.flags
    if not flags and op is not _CREATE_TTL:
        return request  # which most are
    if flags not in _MODES:
        raise JuteError(f"the flags {flags} of a creation are none")
    if flags in _WITH_TTL:
        if op is not _CREATE_TTL:
            raise JuteError("a creation with a time to live has another type")
    elif flags == CreateMode.CONTAINER:
        op = Op.CREATE_CONTAINER
    elif op is _CREATE_TTL:
        op = Op.CREATE
    return request if op is request.op else request._replace(op=op, ttl_ms=0)


def _multi_read(frame: bytes, at: int) -> Decoded:
    ops: list[GetData | GetChildren] = []
    while True:
        op, done, at = _multi_head(frame, at)
        if done:
            return MultiRead(tuple(ops)), at
        request: GetData | GetChildren
        if op == Op.GET_DATA:
            request, at = _get_data(frame, at)
        elif op == Op.GET_CHILDREN:
            request, at = _get_children(frame, at)
        else:
            raise JuteError(f"operation {len(ops)} has type {op}, which a multiRead cannot have")
        ops.append(request._replace(watch=False))  # ZooKeeper sets no watches there


_MULTI_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    Op.CREATE: _create(Op.CREATE),
    Op.CREATE2: _create(Op.CREATE2),
    Op.CREATE_CONTAINER: _create(Op.CREATE_CONTAINER),
    Op.CREATE_TTL: _create(Op.CREATE_TTL),
    Op.DELETE: _delete,
    Op.SET_DATA: _set_data,
    Op.CHECK: _check,
}
_DECODERS: dict[int, Callable[[bytes, int], Decoded]] = {
    **{op: decode for op, decode in _MULTI_DECODERS.items() if op != Op.CHECK},
    Op.GET_DATA: _get_data,
    Op.EXISTS: _exists,
    Op.PING: _empty(Ping()),
    Op.MULTI: _multi,
    Op.GET_CHILDREN: _get_children,
    Op.GET_CHILDREN2: _get_children2,
    Op.SYNC: _sync,
    Op.GET_ACL: _get_acl,
    Op.SET_ACL: _set_acl,
    Op.MULTI_READ: _multi_read,
    Op.SET_WATCHES: _set_watches,
    Op.SET_WATCHES2: _set_watches2,
    Op.ADD_WATCH: _add_watch,
    Op.CHECK_WATCHES: _check_watches,
    Op.REMOVE_WATCHES: _remove_watches,
    Op.GET_EPHEMERALS: _get_ephemerals,
    Op.GET_ALL_CHILDREN_NUMBER: _get_all_children_number,
    Op.AUTH: _auth,
    Op.WHO_AM_I: _empty(WhoAmI()),
    Op.CLOSE_SESSION: _empty(CloseSession()),
}


def encode_answer(xid: int, zxid: int, code: ErrorCode, answer: Answer | None) -> bytes:
    """Return the frame of an answer. ``answer`` is None for a failed request and for those without a body."""
    if answer is None:
        return _ANSWER_HEAD.pack(16, xid, zxid, code)
    if type(answer) is Data and (data := answer.data) is not None:
        size = len(data)
        head = _DATA_ANSWER_HEAD.pack(88 + size, xid, zxid, code, size)
        return b"".join((head, data, _STAT.pack(*answer.stat)))
    body = _ENCODERS[type(answer)](answer)
    return _ANSWER_HEAD.pack(16 + len(body), xid, zxid, code) + body


def encode_event(event: Event) -> bytes:
    """Return the frame of a watch event."""
    path = event.path.encode()
    size = 28 + len(path)
    head = _EVENT_HEAD.pack(size, EVENT_XID, event.zxid, 0, event.type, SYNC_CONNECTED)
    return head + INT.pack(len(path)) + path


# Bodies of answers.


def _stat_body(stat: Stat) -> bytes:
    return _STAT.pack(*stat)


def _created_body(answer: Created) -> bytes:
    path = text(answer.path)
    return path if answer.stat is None else path + _STAT.pack(*answer.stat)


def _data_body(answer: Data) -> bytes:
    return buffer(answer.data) + _STAT.pack(*answer.stat)


def _children_body(answer: Children) -> bytes:
    names = texts(answer.names)
    return names if answer.stat is None else names + _STAT.pack(*answer.stat)


def _acl_body(answer: AclAnswer) -> bytes:
    return _acl_bytes(answer.acl) + _STAT.pack(*answer.stat)


def _identities_body(answer: Identities) -> bytes:
    entries = [text(scheme) + text(user) for scheme, user in answer.identities]
    return INT.pack(len(entries)) + b"".join(entries)


def _multi_body(answer: MultiAnswer) -> bytes:
    parts = []
    for result in answer.results:
        if isinstance(result, ErrorCode):
            parts.append(_MULTI_ERROR.pack(Op.ERROR, False, result, result))
            continue
        op, part = result
        if type(part) is Created and part.stat is not None:
            op = Op.CREATE2  # also of containers and nodes with a TTL
        parts.append(_MULTI_HEADS[op])
        if part is not None:
            parts.append(_ENCODERS[type(part)](part))
    parts.append(_MULTI_END)
    return b"".join(parts)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Stat: _stat_body,
    Created: _created_body,
    Data: _data_body,
    Children: _children_body,
    AclAnswer: _acl_body,
    Paths: lambda answer: texts(answer.paths),
    Number: lambda answer: INT.pack(answer.number),
    Path: lambda answer: text(answer.path),
    Identities: _identities_body,
    MultiAnswer: _multi_body,
}
