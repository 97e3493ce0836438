"""ClientRequests of connections that have a session: executed on the machine, answered in order."""

from collections.abc import Callable, Iterable
from typing import Any

from engine.base.clock import Clock
from engine.metadata.server.codec import encode_answer, encode_event
from engine.metadata.server.machine import Machine, WriteOutcome
from engine.metadata.server.node_reads import paths_of
from engine.metadata.server.protocol import (
    AddWatch,
    Answer,
    Auth,
    Check,
    CloseSession,
    Create,
    Delete,
    ErrorCode,
    Exists,
    FindWatches,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Number,
    Path,
    Ping,
    Read,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    WatchRequest,
    WhoAmI,
    Write,
)
from engine.metadata.server.serving.client_connection import ConnectedClient, ZooKeeperConnection
from engine.metadata.server.serving.group_commit import GroupCommit
from engine.metadata.server.watch_table import WatchNotice

NO_ZXID = -1
"""Zxid of an answer to a request of an unknown type."""

Handler = Callable[[ConnectedClient, int, Any], None]


class ClientRequests:
    """Executes requests, and makes what they change durable. ``ended(client)`` is called when a client ends its
    session."""

    def __init__(
        self,
        machine: Machine,
        commits: GroupCommit,
        clock: Clock,
        ended: Callable[[ConnectedClient], None],
    ) -> None:
        self._machine = machine
        self._commits = commits
        self._clock = clock
        self._ended = ended
        self.received = 0
        self.answered = 0
        self._handlers: dict[type, Handler] = {
            **dict.fromkeys((GetData, Exists, GetChildren, MultiRead), self._read),
            **dict.fromkeys((GetAcl, GetEphemerals, GetAllChildrenNumber), self._read),
            **dict.fromkeys((SetData, Create, Delete, Multi, Check, SetAcl), self._write),
            **dict.fromkeys((SetWatches, AddWatch, FindWatches), self._watch),
            CloseSession: self._close_session,
            Ping: self._ping,
            Sync: self._sync,
            Auth: self._authenticate,
            WhoAmI: self._who_am_i,
        }

    def execute(self, client: ConnectedClient, xid: int, request: Request) -> None:
        self.received += 1
        self._handlers[type(request)](client, xid, request)

    def refuse(
        self, connection: ZooKeeperConnection, xid: int, code: ErrorCode, *, last: bool = False
    ) -> None:
        """Answer a request that cannot be executed; ``last``: then close the connection."""
        self.received += 1
        self.answer(connection, xid, code, zxid=NO_ZXID if last else None, last=last)

    def answer(
        self,
        connection: ZooKeeperConnection,
        xid: int,
        code: ErrorCode,
        answer: Answer | None = None,
        shown: int = 0,
        *,
        zxid: int | None = None,
        last: bool = False,
    ) -> None:
        """Send an answer that shows the group ``shown``, in its order; ``last``: then close the connection.

        ``zxid``: the one in its head, else that of the last change that the client has seen.
        """
        self.answered += 1
        commits = self._commits
        zxid = commits.zxid_for(connection, shown) if zxid is None else zxid
        frame = encode_answer(xid, zxid, code, answer)
        if last:
            connection.finish(frame, shown)
        else:
            commits.emit(connection, frame, shown)

    def commit(self, outcome: WriteOutcome) -> int:
        """Make the outcome of a write durable. Return the group that does."""
        commits = self._commits
        commits.add(outcome.transaction)
        group = commits.open_group
        if outcome.notices:
            self._notify(outcome.notices, group)
        return group

    def _notify(self, notices: Iterable[WatchNotice], group: int) -> None:
        """Send events; each before the answers of later requests, none before its change is durable."""
        event, frame = None, b""
        for notice in notices:
            if notice.event is not event:
                event, frame = notice.event, encode_event(notice.event)
            self._commits.emit(notice.client.connection, frame, group)  # type: ignore[attr-defined]

    def _read(self, client: ConnectedClient, xid: int, request: Read) -> None:
        code, answer = self._machine.read(client, request)
        shown = 0 if self._commits.idle else self._commits.showing(paths_of(request))
        self.answer(client.connection, xid, code, answer, shown)

    def _write(self, client: ConnectedClient, xid: int, request: Write) -> None:
        if not self._commits.has_room:
            self.answer(client.connection, xid, ErrorCode.NOT_READ_ONLY)
            return
        machine = self._machine
        outcome = machine.write(client, request, machine.last_zxid + 1, self._clock.wall_ms())
        group = self.commit(outcome)
        self.answer(client.connection, xid, outcome.code, outcome.answer, group)

    def _close_session(self, client: ConnectedClient, xid: int, request: CloseSession) -> None:
        """End a session also when the disk is full, from the reserve of the log."""
        machine = self._machine
        outcome = machine.write(client, request, machine.last_zxid + 1, self._clock.wall_ms())
        group = self.commit(outcome)
        self._ended(client)
        self.answer(client.connection, xid, outcome.code, None, group, last=True)

    def _watch(self, client: ConnectedClient, xid: int, request: WatchRequest) -> None:
        code, notices = self._machine.watch(client, request)
        shown = self._commits.showing(paths_of(request))
        self._notify(notices, shown)
        # Clients ignore the code of SET_WATCHES, but must not continue without its watches.
        last = code is ErrorCode.THROTTLED and type(request) is SetWatches
        added = code is ErrorCode.OK and type(request) is AddWatch
        self.answer(client.connection, xid, code, Number(0) if added else None, shown, last=last)

    def _ping(self, client: ConnectedClient, xid: int, request: Ping) -> None:
        self.answer(client.connection, xid, ErrorCode.OK)

    def _sync(self, client: ConnectedClient, xid: int, request: Sync) -> None:
        shown = self._commits.showing(None)
        self.answer(client.connection, xid, ErrorCode.OK, Path(request.path), shown)

    def _authenticate(self, client: ConnectedClient, xid: int, request: Auth) -> None:
        code = self._machine.authenticate(client, request)
        # As in ZooKeeper, whose authentication goes before all requests that have a place in the order.
        self.answer(client.connection, xid, code, zxid=0, last=code is not ErrorCode.OK)

    def _who_am_i(self, client: ConnectedClient, xid: int, request: WhoAmI) -> None:
        self.answer(client.connection, xid, ErrorCode.OK, self._machine.who_am_i(client))
