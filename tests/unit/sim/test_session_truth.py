"""Violations of the metadata server's promises that clients can see are reported, and a correct history is not."""

import pytest

from engine.metadata.server.protocol import (
    OPEN_ACL,
    Create,
    Created,
    CreateMode,
    Data,
    ErrorCode,
    Event,
    EventType,
    Exists,
    GetData,
    MultiAnswer,
    MultiRead,
    Op,
    Ping,
    Request,
    SetData,
    Stat,
)
from tests.sim.sessions.truth import Truth, Watching
from tests.support.zookeeper.client_codec import Reply

FIRST, SECOND = 1, 2


def stat(mzxid: int, version: int, owner: int = 0) -> Stat:
    return Stat(1, mzxid, 0, 0, version, 0, 0, owner, 0, 0, 1)


class Story:
    """Calls that are answered one after another, at times a second apart."""

    def __init__(self) -> None:
        self.truth = Truth()
        self._now_s = 0.0
        self._xid = 0

    def call(
        self,
        request: Request,
        answer: object = None,
        *,
        zxid: int = 0,
        code: ErrorCode = ErrorCode.OK,
        session: int = FIRST,
    ) -> None:
        self._now_s += 1
        self._xid += 1
        call = self.truth.begin(session, request, self._now_s)
        reply = Reply(self._xid, zxid, code, answer)  # type: ignore[arg-type]
        self.truth.replied(call, reply, f"client-{session}", self._now_s + 0.5)

    def broken(self) -> list[str]:
        return [text.partition(" ")[0] for text in self.truth.wrong]


def write(story: Story, zxid: int, version: int) -> None:
    story.call(SetData("/d", b"%d" % version, -1), stat(zxid, version), zxid=zxid)


def made(path: str, flags: int) -> Create:
    return Create(Op.CREATE, path, b"", OPEN_ACL, flags)


def test_a_correct_history_breaks_nothing() -> None:
    story = Story()
    write(story, 5, 1)
    story.call(GetData("/d", False), Data(b"1", stat(5, 1)), session=SECOND)
    story.call(made("/s-", CreateMode.PERSISTENT_SEQUENTIAL), Created("/s-1", None), zxid=6)
    story.call(made("/e", CreateMode.EPHEMERAL), Created("/e", None), zxid=7)
    story.call(Exists("/e", False), stat(7, 0, FIRST), session=SECOND)
    story.truth.final("/d", stat(5, 1))
    story.truth.expired(FIRST, 4.0, 3.0, 8.0)
    assert story.broken() == []


def test_a_state_before_one_that_was_seen() -> None:
    story = Story()
    write(story, 5, 1)
    story.call(GetData("/d", False), Data(b"0", stat(4, 0)), session=SECOND)
    assert story.broken() == ["Z1"]


def test_a_missing_node_that_no_session_deleted_is_reported() -> None:
    story = Story()
    write(story, 5, 1)
    story.call(GetData("/d", False), code=ErrorCode.NO_NODE)
    assert story.broken() == ["Z1"]


def test_a_version_without_a_write_and_one_with_two_values_are_reported() -> None:
    story = Story()
    write(story, 5, 2)
    write(story, 6, 2)
    assert story.broken() == ["Z2", "Z2"]


def test_writes_that_are_missing_in_the_end() -> None:
    story = Story()
    write(story, 5, 1)
    write(story, 6, 2)
    story.truth.final("/d", stat(6, 1))
    assert story.broken() == ["Z2"]


def test_nodes_of_a_multi_that_differ() -> None:
    story = Story()
    reads = tuple(GetData(path, False) for path in ("/a", "/b"))
    results = tuple((Op.GET_DATA, Data(value, stat(5, 0))) for value in (b"1", b"2"))
    story.call(MultiRead(reads), MultiAnswer(results))
    assert story.broken() == ["Z3"]


def test_a_zxid_that_is_used_twice() -> None:
    story = Story()
    write(story, 5, 1)
    story.call(SetData("/x", b"", -1), stat(5, 1), zxid=5)
    assert story.broken() == ["Z6"]


def test_a_sequential_name_that_is_given_twice_or_exists() -> None:
    story = Story()
    create = made("/s-", CreateMode.PERSISTENT_SEQUENTIAL)
    story.call(create, Created("/s-1", None), zxid=5)
    story.call(create, Created("/s-1", None), zxid=6)
    story.call(create, code=ErrorCode.NODE_EXISTS, zxid=7)
    assert story.broken() == ["Z5", "Z5"]


def test_an_ephemeral_node_that_outlives_its_session() -> None:
    story = Story()
    story.call(made("/e", CreateMode.EPHEMERAL), Created("/e", None), zxid=5)
    story.truth.expired(FIRST, 0.0, 1.0, 9.0)
    story.call(Exists("/e", False), stat(5, 0, FIRST), session=SECOND)
    assert story.broken() == ["Z5"]


def test_an_ephemeral_node_that_is_gone_while_its_session_lives() -> None:
    story = Story()
    story.call(made("/e", CreateMode.EPHEMERAL), Created("/e", None), zxid=5)
    story.call(Exists("/e", False), code=ErrorCode.NO_NODE, session=SECOND)
    assert story.broken() == []
    story.call(Ping(), session=FIRST)
    assert story.broken() == ["Z5"]


def test_a_session_that_expires_too_early() -> None:
    truth = Truth()
    truth.expired(FIRST, 5.0, 3.0, 7.0)
    assert [text[:2] for text in truth.wrong] == ["Z7"]


def watching() -> tuple[Truth, Watching]:
    truth = Truth()
    watching = Watching(truth, "client")
    reply = Reply(1, 5, ErrorCode.OK, Data(b"", stat(5, 1)))
    watching.replied(GetData("/d", True), reply)
    return truth, watching


def test_an_event_before_the_state_that_it_is_about() -> None:
    truth, watches = watching()
    watches.event(Event(EventType.DATA_CHANGED, "/d", 6))
    watches.replied(GetData("/d", False), Reply(2, 6, ErrorCode.OK, Data(b"", stat(6, 2))))
    assert truth.wrong == []


@pytest.mark.parametrize("code", [ErrorCode.OK, ErrorCode.NO_NODE])
def test_a_change_without_an_event(code: ErrorCode) -> None:
    truth, watches = watching()
    answer = Data(b"", stat(6, 2)) if code is ErrorCode.OK else None
    watches.replied(GetData("/d", False), Reply(2, 6, code, answer))
    assert [text[:2] for text in truth.wrong] == ["Z4"]


def test_an_event_without_a_watch() -> None:
    truth, watches = watching()
    for zxid in (6, 7):
        watches.event(Event(EventType.DATA_CHANGED, "/d", zxid))
    assert [text[:2] for text in truth.wrong] == ["Z4"]
