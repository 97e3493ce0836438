"""Bytes of requests, answers and events: what a client encodes is decoded, and the other way round."""

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import ACL, Id

from engine.metadata.server.codec import (
    RequestError,
    UnknownRequestError,
    decode_connect,
    decode_request,
    encode_answer,
    encode_connect,
    encode_event,
)
from engine.metadata.server.jute import INT, NULL, JuteError
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
from tests.support.zookeeper.client_codec import (
    Reply,
    decode_connect_answer,
    decode_event,
    decode_reply,
    encode_connect_request,
    encode_request,
    op_of,
)

STAT = Stat(1 << 40, 2, 3, 4, 5, -6, 7, -(1 << 63), 9, 10, 11)
DIGEST: Acl = (AclEntry(31, "digest", "a:b"), AclEntry(1, "auth", ""))
CREATE = Create(Op.CREATE, "/ä", b"x", OPEN_ACL, 3)

PAIRS: list[tuple[Request, Answer | None]] = [
    (CREATE, Created("/ä0000000001", None)),
    (Create(Op.CREATE2, "/a", None, DIGEST, 0), Created("/a", STAT)),
    (Create(Op.CREATE_CONTAINER, "/a", b"", (), 4), Created("/a", STAT)),
    (Create(Op.CREATE_TTL, "/a", b"", OPEN_ACL, 5, 1 << 39), Created("/a", STAT)),
    (Delete("/a", -1), None),
    (Exists("/a", True), STAT),
    (GetData("/a", False), Data(b"\0" * 3, STAT)),
    (GetData("", True), Data(None, STAT)),
    (SetData("/a", b"y" * 70_000, 7), STAT),
    (SetData("/a", None, 7), STAT),
    (GetAcl("/a"), AclAnswer(DIGEST, STAT)),
    (SetAcl("/a", DIGEST, 2), STAT),
    (GetChildren("/a", True, False), Children(("b", "ü"), None)),
    (GetChildren("/a", False, True), Children((), STAT)),
    (Sync("/a"), Path("/a")),
    (Ping(), None),
    (
        Multi((CREATE, Create(Op.CREATE_TTL, "/t", b"", (), 6, 5), Delete("/d", 1), Check("/", 0))),
        MultiAnswer(
            (
                (Op.CREATE, Created("/ä1", None)),
                (Op.CREATE2, Created("/t", STAT)),
                (Op.DELETE, None),
                (Op.CHECK, None),
            )
        ),
    ),
    (
        Multi((SetData("/a", b"1", 0), SetData("/b", b"1", 0))),
        MultiAnswer(((Op.SET_DATA, STAT), (Op.SET_DATA, STAT))),
    ),
    (
        Multi((Check("/a", 1), Delete("/b", 1), Check("/c", 1))),
        MultiAnswer((ErrorCode.OK, ErrorCode.BAD_VERSION, ErrorCode.RUNTIME_INCONSISTENCY)),
    ),
    (Multi(()), MultiAnswer(())),
    (
        MultiRead((GetData("/a", False), GetChildren("/b", False, False), GetData("/c", False))),
        MultiAnswer(
            (
                (Op.GET_DATA, Data(b"1", STAT)),
                (Op.GET_CHILDREN, Children(("x",), None)),
                ErrorCode.NO_NODE,
            )
        ),
    ),
    (SetWatches(5, ("/a",), (), ("/b", "/c")), None),
    (SetWatches(5, (), ("/e",), (), ("/p",), ("/r",)), None),
    (AddWatch("/a", 1), Number(0)),
    (FindWatches("/a", 3, remove=False), None),
    (FindWatches("/a", 1, remove=True), None),
    (GetEphemerals("/a"), Paths(("/a/b", "/a/c"))),
    (GetAllChildrenNumber("/a"), Number(70)),
    (Auth("digest", b"u:p"), None),
    (WhoAmI(), Identities((("ip", "127.0.0.1"), ("digest", "u")))),
    (CloseSession(), None),
]


def body(frame: bytes) -> bytes:
    """Return a frame without its length, which is checked."""
    assert INT.unpack_from(frame)[0] == len(frame) - 4
    return frame[4:]


def test_every_type_of_request_has_an_example() -> None:
    assert {op_of(request) for request, _ in PAIRS} == set(Op) - {Op.ERROR, Op.CHECK}


@pytest.mark.parametrize(("request_", "answer"), PAIRS, ids=lambda value: type(value).__name__)
def test_a_request_and_its_answer_keep_their_values(
    request_: Request, answer: Answer | None
) -> None:
    frame = body(encode_request(-8, request_))
    assert decode_request(frame) == (-8, request_)
    reply = body(encode_answer(-8, 1 << 33, ErrorCode.OK, answer))
    assert decode_reply(reply, request_) == Reply(-8, 1 << 33, ErrorCode.OK, answer)


@pytest.mark.parametrize(("request_", "answer"), PAIRS, ids=lambda value: type(value).__name__)
def test_a_request_that_ends_early_is_refused_with_its_xid(
    request_: Request, answer: Answer | None
) -> None:
    frame = body(encode_request(9, request_))
    for size in range(8, len(frame)) if len(frame) < 1000 else (8, 20, len(frame) - 1):
        with pytest.raises(RequestError) as refused:
            decode_request(frame[:size])
        assert refused.value.xid == 9


def test_a_failure_has_only_a_header() -> None:
    reply = body(encode_answer(3, 7, ErrorCode.NO_NODE, None))
    assert decode_reply(reply, GetData("/a", False)) == Reply(3, 7, ErrorCode.NO_NODE, None)


@pytest.mark.parametrize("kind", EventType)
def test_an_event_keeps_its_values(kind: EventType) -> None:
    event = Event(kind, "/ä", 1 << 32)
    assert decode_event(body(encode_event(event))) == event


@pytest.mark.parametrize(
    "request_",
    [
        ConnectRequest(0, 1 << 40, 30_000, 0, bytes(16)),
        ConnectRequest(0, 0, 1, -5, b"p" * 16, read_only=True),
        ConnectRequest(0, 0, 1, 5, b"", has_read_only=False),
    ],
)
def test_a_connect_request_keeps_its_values(request_: ConnectRequest) -> None:
    assert decode_connect(body(encode_connect_request(request_))) == request_


def test_a_connect_request_that_ends_early_is_refused() -> None:
    frame = body(encode_connect_request(ConnectRequest(0, 0, 1, 5, bytes(16), has_read_only=False)))
    for size in range(len(frame)):
        with pytest.raises(JuteError):
            decode_connect(frame[:size])


@pytest.mark.parametrize("with_read_only", [False, True])
def test_a_connect_answer_has_the_flag_that_the_request_had(with_read_only: bool) -> None:
    answer = ConnectAnswer(30_000, -3, b"p" * 16)
    frame = body(encode_connect(answer, with_read_only))
    assert decode_connect_answer(frame) == (answer, with_read_only)


@pytest.mark.parametrize("op", [Op.CHECK, 16, 102])
def test_a_type_that_is_not_served_is_named(op: int) -> None:
    with pytest.raises(UnknownRequestError) as refused:
        decode_request(INT.pack(5) + INT.pack(op) + body(encode_request(1, Check("/a", 4))))
    assert (refused.value.xid, refused.value.op) == (5, op)


def test_a_null_path_is_refused() -> None:
    with pytest.raises(RequestError):
        decode_request(INT.pack(5) + INT.pack(Op.GET_DATA) + NULL + b"\0")


def test_a_frame_without_a_header_is_refused() -> None:
    with pytest.raises(JuteError) as refused:
        decode_request(b"\0\0\0\5")
    assert not isinstance(refused.value, RequestError)


@pytest.mark.parametrize(
    "parts",
    [
        Multi((GetData("/a", False),)),  # type: ignore[arg-type]
        Multi((Create(Op.CREATE, "/a", b"", OPEN_ACL, 7),)),
        Multi((Create(Op.CREATE2, "/a", b"", OPEN_ACL, 5),)),
        MultiRead((Delete("/a", 0),)),  # type: ignore[arg-type]
    ],
)
def test_a_multi_with_a_foreign_part_is_refused(parts: Multi | MultiRead) -> None:
    with pytest.raises(RequestError):
        decode_request(body(encode_request(1, parts)))


@pytest.mark.parametrize(
    ("op", "flags", "taken"),
    [
        (Op.CREATE, 4, Op.CREATE_CONTAINER),
        (Op.CREATE2, 4, Op.CREATE_CONTAINER),
        (Op.CREATE_CONTAINER, 1, Op.CREATE_CONTAINER),
        (Op.CREATE_TTL, 4, Op.CREATE_CONTAINER),
        (Op.CREATE_TTL, 1, Op.CREATE),
    ],
)
def test_the_flags_of_a_creation_decide_on_its_type_in_a_multi(
    op: Op, flags: int, taken: Op
) -> None:
    frame = body(encode_request(1, Multi((Create(op, "/a", b"", OPEN_ACL, flags, 7),))))
    [request] = decode_request(frame)[1].ops  # type: ignore[union-attr]
    assert (request.op, request.flags) == (taken, flags)
    assert decode_request(body(encode_request(1, Multi((request,))))) == (1, Multi((request,)))


def test_nodes_that_all_may_use_share_their_acl() -> None:
    frame = body(encode_request(1, CREATE))
    first, second = (decode_request(frame)[1] for _ in range(2))
    assert first.acl == OPEN_ACL  # type: ignore[union-attr]
    assert first.acl is second.acl  # type: ignore[union-attr]


def test_a_vector_longer_than_its_frame_is_refused() -> None:
    frame = INT.pack(1) + INT.pack(Op.SET_WATCHES) + bytes(8) + INT.pack(1 << 30)
    with pytest.raises(RequestError, match="1073741824 elements"):
        decode_request(frame)


KAZOO_ACL = [ACL(31, Id("world", "anyone")), ACL(1, Id("auth", ""))]
OUR_ACL = (AclEntry(31, "world", "anyone"), AclEntry(1, "auth", ""))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kazoo.Create("/a", b"", KAZOO_ACL, 1), Create(Op.CREATE, "/a", b"", OUR_ACL, 1)),
        (kazoo.Create2("/a", b"d", KAZOO_ACL, 2), Create(Op.CREATE2, "/a", b"d", OUR_ACL, 2)),
        (kazoo.Delete("/a", 1), Delete("/a", 1)),
        (kazoo.Exists("/a", None), Exists("/a", False)),
        (kazoo.GetData("/a", print), GetData("/a", True)),
        (kazoo.SetData("/a", b"", -1), SetData("/a", b"", -1)),
        (kazoo.GetACL("/a"), GetAcl("/a")),
        (kazoo.SetACL("/a", KAZOO_ACL, 3), SetAcl("/a", OUR_ACL, 3)),
        (kazoo.GetChildren("/a", print), GetChildren("/a", True, False)),
        (kazoo.GetChildren2("/a", None), GetChildren("/a", False, True)),
        (kazoo.Sync("/a"), Sync("/a")),
        (kazoo.Auth(0, "digest", "u:p"), Auth("digest", b"u:p")),
        (
            kazoo.Transaction([kazoo.CheckVersion("/a", 2), kazoo.Delete("/b", 1)]),
            Multi((Check("/a", 2), Delete("/b", 1))),
        ),
        (kazoo.PingInstance, Ping()),
        (kazoo.CloseInstance, CloseSession()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_requests_of_kazoo_have_their_values(theirs: kazoo.Create, ours: Request) -> None:
    frame = INT.pack(1) + INT.pack(theirs.type) + bytes(theirs.serialize())
    assert decode_request(frame) == (1, ours)
