"""Judgement of what clients of the metadata server saw: a promise that was broken is reported when it is seen.

The zxid orders all changes. What a call must at least show is what was known when it began, so every call keeps a copy
of that.
"""

from collections.abc import Iterator
from typing import NamedTuple

from engine.metadata.server.protocol import (
    Answer,
    CloseSession,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    ErrorCode,
    Event,
    EventType,
    Exists,
    GetData,
    Multi,
    MultiAnswer,
    MultiRead,
    Request,
    SetData,
    Stat,
)
from tests.support.zookeeper.client_codec import Reply

State = tuple[int, int, int]
"""czxid, mzxid and version of a node that exists."""


class Call(NamedTuple):
    """A request of a session, and what was known when it began."""

    session_id: int
    request: Request
    began_s: float
    floors: dict[str, int]
    """Greatest zxid known of each path."""
    ended: dict[int, None]
    """Sessions whose end was known."""


class Watched(NamedTuple):
    """A watch that a client has: the state of the node when it was set; None when there was none."""

    state: State | None
    existence: bool


class Truth:
    """Knowledge of all clients together. ``wrong`` has the violations."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.floors: dict[str, int] = {}
        self.ended: dict[int, None] = {}
        self.attempts: dict[str, int] = {}
        """Writes of a path that were sent."""
        self.acknowledged: dict[str, int] = {}
        self.deletions: set[str] = set()
        """Paths that a client has tried to delete."""
        self.owners: dict[str, int] = {}
        """Sessions of ephemeral nodes that were created, by path."""
        self._values: dict[tuple[str, int, int], tuple[int, bytes]] = {}
        self._zxids: dict[int, str] = {}
        self.sequences: dict[str, None] = {}
        """Names of sequential nodes that were given."""
        self._absent: list[tuple[str, int, float]] = []

    def begin(self, session_id: int, request: Request, now_s: float) -> Call:
        """Note that a request is sent."""
        for path in _written(request):
            self.attempts[path] = self.attempts.get(path, 0) + 1
        if isinstance(request, Delete):
            self.deletions.add(request.path)
        return Call(session_id, request, now_s, dict(self.floors), dict(self.ended))

    def replied(self, call: Call, reply: Reply, who: str, now_s: float) -> None:
        """Judge an answer, which arrives now."""
        request, answer = call.request, reply.answer
        self._alive(call)
        writes = isinstance(request, SetData | Create | Delete | Multi | CloseSession)
        if writes and reply.code != ErrorCode.NOT_READ_ONLY:
            self._claim(reply.zxid, f"{who}:{reply.xid}")
        if isinstance(request, CloseSession):
            self.ended[call.session_id] = None
        elif isinstance(request, Create) and isinstance(answer, Created):
            self._created(call, request, answer, reply.zxid)
        elif isinstance(request, Create) and reply.code == ErrorCode.NODE_EXISTS:
            if request.flags & CreateMode.PERSISTENT_SEQUENTIAL:
                self.wrong.append(f"Z5 the next sequential name of {request.path} exists")
        elif isinstance(request, Delete) and reply.code == ErrorCode.OK:
            self._raise(request.path, reply.zxid)
        elif isinstance(request, Exists | GetData):
            self._read(call, request.path, reply.code, answer, now_s)
        elif isinstance(request, MultiRead) and isinstance(answer, MultiAnswer):
            self._read_together(call, request, answer)
        elif reply.code == ErrorCode.OK:
            for path, stat in _changed(request, answer):
                self._wrote(call, path, stat, reply.zxid)

    def expired(self, session_id: int, proven_s: float, timeout_s: float, now_s: float) -> None:
        """Judge the end of a session whose last answered request was sent at ``proven_s``."""
        self.ended[session_id] = None
        if now_s < proven_s + timeout_s:
            self.wrong.append(
                f"Z7 session {session_id:x} expired {now_s - proven_s:.2f} s after a request, not {timeout_s:g}"
            )

    def event(self, event: Event) -> None:
        """Note a change that an event shows: later reads must show it."""
        if event.zxid > 0 and event.type in (EventType.CREATED, EventType.DATA_CHANGED):
            self._raise(event.path, event.zxid)

    def _claim(self, zxid: int, who: str) -> None:
        other = self._zxids.setdefault(zxid, who)
        if other != who:
            self.wrong.append(f"Z6 zxid {zxid:x} is of {other} and of {who}")

    def _created(self, call: Call, request: Create, answer: Created, zxid: int) -> None:
        path = answer.path
        if path != request.path:
            if path in self.sequences:
                self.wrong.append(f"Z5 sequential name {path} was given twice")
            self.sequences[path] = None
        if request.flags & 1:
            self.owners[path] = call.session_id
        self._raise(path, zxid)

    def _read(self, call: Call, path: str, code: int, answer: Answer | None, now_s: float) -> None:
        if isinstance(answer, Stat):
            self._seen(call, path, answer, None)
        elif isinstance(answer, Data):
            self._seen(call, path, answer.stat, answer.data or b"")
        elif code == ErrorCode.NO_NODE and path in call.floors and path not in self.deletions:
            owner = self.owners.get(path)
            if owner is None:
                self.wrong.append(f"Z1 {path} is gone, and nobody deleted it")
            else:
                self._absent.append((path, owner, now_s))

    def _read_together(self, call: Call, request: MultiRead, answer: MultiAnswer) -> None:
        values = []
        for op, result in zip(request.ops, answer.results, strict=True):
            if isinstance(result, tuple) and isinstance(result[1], Data):
                data = result[1]
                values.append(data.data)
                self._seen(call, op.path, data.stat, data.data or b"")
        if len(set(values)) > 1:
            self.wrong.append(f"Z3 nodes that change together differ: {values}")

    def _seen(self, call: Call, path: str, stat: Stat, data: bytes | None) -> None:
        """Judge a state of a node that a call showed."""
        floor = call.floors.get(path, 0)
        if stat.mzxid < floor:
            self.wrong.append(f"Z1 {path} shows {stat.mzxid:x}, earlier {floor:x} was seen")
        self._raise(path, stat.mzxid)
        if stat.ephemeral_owner and stat.ephemeral_owner in call.ended:
            self.wrong.append(f"Z5 {path} outlives its session {stat.ephemeral_owner:x}")
        if stat.version > self.attempts.get(path, 0):
            self.wrong.append(f"Z2 {path} has version {stat.version}, which nobody wrote")
        if data is not None:
            key = (path, stat.czxid, stat.version)
            known = self._values.setdefault(key, (stat.mzxid, data))
            if known != (stat.mzxid, data):
                self.wrong.append(f"Z2 {key} is {known} and {(stat.mzxid, data)}")

    def _wrote(self, call: Call, path: str, stat: Stat | None, zxid: int) -> None:
        """Judge a successful write."""
        if zxid <= call.floors.get(path, 0):
            self.wrong.append(f"Z6 {path} was written as {zxid:x}, which is not new")
        self._raise(path, zxid)
        self.acknowledged[path] = self.acknowledged.get(path, 0) + 1
        request = call.request
        if isinstance(request, SetData) and stat is not None:
            self._seen(call, path, stat, request.data or b"")

    def _raise(self, path: str, zxid: int) -> None:
        self.floors[path] = max(self.floors.get(path, 0), zxid)

    def _alive(self, call: Call) -> None:
        """Note that a session existed when a request of it was answered: what is its own must have been there."""
        for path, owner, read_s in self._absent:
            if owner == call.session_id and read_s < call.began_s:
                self.wrong.append(f"Z5 {path} was gone while its session {owner:x} lived")

    def final(self, path: str, stat: Stat) -> None:
        """Judge the version of a node that is only written to, after all calls have ended."""
        least, most = self.acknowledged.get(path, 0), self.attempts.get(path, 0)
        if not least <= stat.version <= most:
            self.wrong.append(
                f"Z2 {path} has version {stat.version} after {least} to {most} writes"
            )


class Watching:
    """Watches of one session, as its client knows them. Violations are added to those of a Truth."""

    def __init__(self, truth: Truth, who: str) -> None:
        self._truth = truth
        self._who = who
        self.watched: dict[str, Watched] = {}

    def replied(self, request: Request, reply: Reply) -> None:
        """Judge a state that an answer shows, then note the watch that it sets."""
        if isinstance(request, SetData) and isinstance(reply.answer, Stat):
            self.shown(request.path, _state(reply.answer))
        if not isinstance(request, Exists | GetData):
            return
        state = _state(reply.answer)
        if state is None and reply.code != ErrorCode.NO_NODE:
            return
        self.shown(request.path, state)
        if not request.watch:
            return
        existence = isinstance(request, Exists)
        if state is not None or existence:
            self.watched[request.path] = Watched(state, existence and state is None)

    def shown(self, path: str, state: State | None) -> None:
        """Judge a state of a node that the client sees: its event must have been received before."""
        watched = self.watched.get(path)
        if watched is not None and watched.state != state:
            del self.watched[path]
            self._truth.wrong.append(
                f"Z4 {self._who} watches {path} at {watched.state} and sees {state} without an event"
            )

    def event(self, event: Event) -> None:
        if self.watched.pop(event.path, None) is None:
            self._truth.wrong.append(f"Z4 {self._who} received {event} and watches nothing there")


def _state(answer: Answer | None) -> State | None:
    stat = answer.stat if isinstance(answer, Data) else answer
    return (stat.czxid, stat.mzxid, stat.version) if isinstance(stat, Stat) else None


def _written(request: Request) -> Iterator[str]:
    if isinstance(request, SetData):
        yield request.path
    elif isinstance(request, Multi):
        for op in request.ops:
            yield from _written(op)


def _changed(request: Request, answer: Answer | None) -> Iterator[tuple[str, Stat | None]]:
    """Yield the paths that a successful write set, with the state of each."""
    if isinstance(request, SetData):
        yield request.path, answer if isinstance(answer, Stat) else None
    elif isinstance(request, Multi):
        for op in request.ops:
            yield from _changed(op, None)
