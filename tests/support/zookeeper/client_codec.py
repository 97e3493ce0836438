"""The client's side of ZooKeeper's protocol: requests are encoded, answers and events decoded."""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from engine.metadata.server.codec import EVENT_XID
from engine.metadata.server.jute import (
    INT,
    LONG,
    buffer,
    read_buffer,
    read_int,
    read_text,
    read_vector,
    text,
    texts,
)
from engine.metadata.server.protocol import (
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
    Data,
    Delete,
    ErrorCode,
    Event,
    EventType,
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

PING_XID, AUTH_XID, SET_WATCHES_XID = -2, -4, -8
STAT = Struct(">qqqqiiiqiiq")
MULTI_HEAD = Struct(">i?i")
CODES: dict[int, ErrorCode] = {code.value: code for code in ErrorCode}


class Reply(NamedTuple):
    """An answer as received. ``code`` is an int when it is none of ErrorCode."""

    xid: int
    zxid: int
    code: int
    answer: Answer | None


def op_of(request: Request) -> Op:
    """Return the type that a request has on the wire."""
    match request:
        case Create():
            return request.op
        case GetChildren():
            return Op.GET_CHILDREN2 if request.stat else Op.GET_CHILDREN
        case SetWatches():
            later = request.persistent or request.persistent_recursive
            return Op.SET_WATCHES2 if later else Op.SET_WATCHES
        case FindWatches():
            return Op.REMOVE_WATCHES if request.remove else Op.CHECK_WATCHES
        case _:
            return OPS[type(request)]


OPS: dict[type, Op] = {
    Delete: Op.DELETE,
    Exists: Op.EXISTS,
    GetData: Op.GET_DATA,
    SetData: Op.SET_DATA,
    GetAcl: Op.GET_ACL,
    SetAcl: Op.SET_ACL,
    Sync: Op.SYNC,
    Check: Op.CHECK,
    Multi: Op.MULTI,
    MultiRead: Op.MULTI_READ,
    AddWatch: Op.ADD_WATCH,
    GetEphemerals: Op.GET_EPHEMERALS,
    GetAllChildrenNumber: Op.GET_ALL_CHILDREN_NUMBER,
    Auth: Op.AUTH,
    WhoAmI: Op.WHO_AM_I,
    Ping: Op.PING,
    CloseSession: Op.CLOSE_SESSION,
}


def framed(body: bytes) -> bytes:
    return INT.pack(len(body)) + body


def encode_connect_request(request: ConnectRequest) -> bytes:
    """Return the first frame of a connection."""
    head = Struct(">iqiq").pack(
        request.protocol, request.last_zxid, request.timeout_ms, request.session_id
    )
    tail = (b"\1" if request.read_only else b"\0") if request.has_read_only else b""
    return framed(head + buffer(request.password) + tail)


def encode_request(xid: int, request: Request) -> bytes:
    """Return the frame of a request."""
    return framed(INT.pack(xid) + INT.pack(op_of(request)) + body_of(request))


def body_of(request: Request) -> bytes:
    match request:
        case Create(op, path, data, acl, flags, ttl_ms):
            body = text(path) + buffer(data) + acl_bytes(acl) + INT.pack(flags)
            return body + LONG.pack(ttl_ms) if op is Op.CREATE_TTL else body
        case SetAcl(path, acl, version):
            return text(path) + acl_bytes(acl) + INT.pack(version)
        case SetData(path, data, version):
            return text(path) + buffer(data) + INT.pack(version)
        case Delete(path, version) | Check(path, version):
            return text(path) + INT.pack(version)
        case Exists(path, watch) | GetData(path, watch) | GetChildren(path, watch, _):
            return text(path) + (b"\1" if watch else b"\0")
        case GetAcl(path) | Sync(path) | GetEphemerals(path) | GetAllChildrenNumber(path):
            return text(path)
        case AddWatch(path, mode):
            return text(path) + INT.pack(mode)
        case FindWatches(path, kind, _):
            return text(path) + INT.pack(kind)
        case Auth(scheme, auth):
            return INT.pack(0) + text(scheme) + buffer(auth)
        case Multi(ops) | MultiRead(ops):
            parts = [MULTI_HEAD.pack(op_of(part), False, -1) + body_of(part) for part in ops]
            return b"".join(parts) + MULTI_HEAD.pack(-1, True, -1)
        case SetWatches():
            vectors = list(request[1:4])
            if op_of(request) is Op.SET_WATCHES2:
                vectors += request[4:]
            return LONG.pack(request.relative_zxid) + b"".join(map(texts, vectors))
        case _:
            return b""


def acl_bytes(acl: Acl) -> bytes:
    entries = [INT.pack(entry.permissions) + text(entry.scheme) + text(entry.id) for entry in acl]
    return INT.pack(len(entries)) + b"".join(entries)


def decode_connect_answer(frame: bytes) -> tuple[ConnectAnswer, bool]:
    """Return the answer to the first request, and whether its frame has the flag of a read-only server."""
    _, timeout_ms, session_id = Struct(">iiq").unpack_from(frame)
    password, at = read_buffer(frame, 16)
    return ConnectAnswer(timeout_ms, session_id, password or b""), at < len(frame)


def xid_of(frame: bytes) -> int:
    return read_int(frame, 0)[0]


def decode_event(frame: bytes) -> Event:
    """Return a watch event; its frame has EVENT_XID."""
    xid, zxid, code, kind, state = Struct(">iqiii").unpack_from(frame)
    assert (xid, code, state) == (EVENT_XID, 0, 3), frame.hex()
    path, at = read_text(frame, 24)
    assert at == len(frame), frame.hex()
    return Event(EventType(kind), path, zxid)


def decode_reply(frame: bytes, request: Request) -> Reply:
    """Return the answer to a request. Every byte of the frame is accounted for."""
    xid, zxid, number = Struct(">iqi").unpack_from(frame)
    code = CODES.get(number, number)
    read = BODIES.get(op_of(request))
    if code != ErrorCode.OK or read is None:
        assert len(frame) == 16, frame.hex()
        return Reply(xid, zxid, code, None)
    answer, at = read(frame, 16)
    assert at == len(frame), frame.hex()
    return Reply(xid, zxid, code, answer)


def read_stat(frame: bytes, at: int) -> tuple[Stat, int]:
    return Stat(*STAT.unpack_from(frame, at)), at + STAT.size


def read_created(frame: bytes, at: int) -> tuple[Created, int]:
    path, at = read_text(frame, at)
    return Created(path, None), at


def read_created2(frame: bytes, at: int) -> tuple[Created, int]:
    path, at = read_text(frame, at)
    stat, at = read_stat(frame, at)
    return Created(path, stat), at


def read_data(frame: bytes, at: int) -> tuple[Data, int]:
    data, at = read_buffer(frame, at)
    stat, at = read_stat(frame, at)
    return Data(data, stat), at


def read_children(frame: bytes, at: int) -> tuple[Children, int]:
    names, at = read_vector(frame, at, read_text)
    return Children(names, None), at


def read_children2(frame: bytes, at: int) -> tuple[Children, int]:
    names, at = read_vector(frame, at, read_text)
    stat, at = read_stat(frame, at)
    return Children(names, stat), at


def read_pair(frame: Any, at: int) -> tuple[tuple[str, str], int]:
    first, at = read_text(frame, at)
    second, at = read_text(frame, at)
    return (first, second), at


def read_acl_entry(frame: Any, at: int) -> tuple[AclEntry, int]:
    permissions, at = read_int(frame, at)
    pair, at = read_pair(frame, at)
    return AclEntry(permissions, *pair), at


def read_acl(frame: bytes, at: int) -> tuple[AclAnswer, int]:
    acl, at = read_vector(frame, at, read_acl_entry)
    stat, at = read_stat(frame, at)
    return AclAnswer(acl, stat), at


def read_paths(frame: bytes, at: int) -> tuple[Paths, int]:
    paths, at = read_vector(frame, at, read_text)
    return Paths(paths), at


def read_number(frame: bytes, at: int) -> tuple[Number, int]:
    number, at = read_int(frame, at)
    return Number(number), at


def read_path(frame: bytes, at: int) -> tuple[Path, int]:
    path, at = read_text(frame, at)
    return Path(path), at


def read_identities(frame: bytes, at: int) -> tuple[Identities, int]:
    pairs, at = read_vector(frame, at, read_pair)
    return Identities(pairs), at


def read_multi(frame: bytes, at: int) -> tuple[MultiAnswer, int]:
    results: list[Any] = []
    while True:
        kind, done, code = MULTI_HEAD.unpack_from(frame, at)
        at += MULTI_HEAD.size
        if done:
            assert (kind, code) == (-1, -1), frame.hex()
            return MultiAnswer(tuple(results)), at
        if kind == Op.ERROR:
            again, at = read_int(frame, at)
            assert again == code, frame.hex()
            results.append(CODES.get(code, code))
            continue
        assert code == 0, frame.hex()
        part = None
        if kind in BODIES:
            part, at = BODIES[kind](frame, at)
        results.append((Op(kind), part))


BODIES: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    Op.CREATE: read_created,
    Op.CREATE2: read_created2,
    Op.CREATE_CONTAINER: read_created2,
    Op.CREATE_TTL: read_created2,
    Op.EXISTS: read_stat,
    Op.GET_DATA: read_data,
    Op.SET_DATA: read_stat,
    Op.GET_ACL: read_acl,
    Op.SET_ACL: read_stat,
    Op.ADD_WATCH: read_number,
    Op.GET_CHILDREN: read_children,
    Op.GET_CHILDREN2: read_children2,
    Op.SYNC: read_path,
    Op.MULTI: read_multi,
    Op.MULTI_READ: read_multi,
    Op.GET_EPHEMERALS: read_paths,
    Op.GET_ALL_CHILDREN_NUMBER: read_number,
    Op.WHO_AM_I: read_identities,
}
