"""Plays a sequence of operations against a server and keeps what each connection receives, in order."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.metadata.server.protocol import (
    CloseSession,
    Create,
    Delete,
    ErrorCode,
    Multi,
    Ping,
    Request,
    SetAcl,
    SetData,
    SetWatches,
)
from tests.oracle.metadata.steps import EXPIRING_MS, Ask, Drop, Enter, Expire, Leave, Return, Step
from tests.support.zookeeper.client_codec import Reply
from tests.support.zookeeper.raw_connection import (
    NO_PASSWORD,
    ConnectionClosedError,
    RawConnection,
    Received,
)

ANSWER_S_MAX = 60.0
EXPIRY_WAIT_S = EXPIRING_MS / 1000 + 1.0
"""Time after which a session has expired: servers round it up."""
WRITES = (Create, Delete, SetData, SetAcl, Multi, CloseSession)


class Connected(NamedTuple):
    """Outcome of a connection's first request."""

    slot: int
    timeout_ms: int
    exists: bool
    same_session: bool
    password_size: int


class Ended(NamedTuple):
    """The server closed the connection, ``unanswered`` requests before its answer."""

    unanswered: int


Item = tuple[Request | None, Received] | Connected | Ended


class Window(NamedTuple):
    """Times between which a write was executed."""

    from_ms: float
    to_ms: float


@dataclass
class Transcript:
    """Received messages: a list per connection, with the request of each answer."""

    connections: list[list[Item]] = field(default_factory=list)
    sessions: dict[int, int] = field(default_factory=dict)
    """Slot of each session id, numbered from 1; a new session of the same slot has the next hundred."""
    writes: list[int] = field(default_factory=list)
    """Transaction ids of the own writes, rising."""
    windows: dict[int, Window] = field(default_factory=dict)
    closes: set[int] = field(default_factory=set)
    """Transaction ids of ends of sessions."""


@dataclass
class Slot:
    """One client: its session, and its connection while there is one."""

    number: int
    session_id: int = 0
    password: bytes = NO_PASSWORD
    timeout_ms: int = 0
    connection: RawConnection | None = None
    items: list[Item] = field(default_factory=list)
    asked: dict[int, Request] = field(default_factory=dict)
    recorded: int = 0


class OrderError(AssertionError):
    """The server broke an order that does not depend on which server it is."""


class Player:
    """Plays steps against the server at ``port``."""

    def __init__(self, port: int, slots: int) -> None:
        self.transcript = Transcript()
        self._port = port
        self._slots = [Slot(number) for number in range(slots)]
        self._left: list[tuple[int, bytes]] = []
        """Earlier sessions of slots with their passwords, maybe alive."""

    async def play(self, steps: list[Step]) -> Transcript:
        """Play the steps, end every session and return what was received."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                for step in steps:
                    await self._step(step)
                await self._ping_all()
                for slot in self._slots:
                    await self._end(slot)
                for session_id, password in self._left:
                    await self._end_left(session_id, password)
        finally:
            for slot in self._slots:
                if slot.connection is not None:
                    slot.connection.abort()
        return self.transcript

    async def _ping_all(self) -> None:
        """Receive what every connection has been sent."""
        for slot in self._slots:
            if slot.connection is not None:
                await self._exchange(slot, (Ping(),))

    async def _step(self, step: Step) -> None:
        slot = self._slots[step.slot]
        match step:
            case Enter(_, timeout_ms):
                self._left.append((slot.session_id, slot.password))
                slot.session_id, slot.password, slot.timeout_ms = 0, NO_PASSWORD, timeout_ms
                await self._connect(slot, slot.password)
            case Return(_, right_password):
                wrong = bytes(16) if right_password else bytes([1] * 16)
                await self._connect(slot, slot.password if right_password else wrong)
            case Drop():
                if slot.connection is not None:
                    slot.connection.abort()
                    slot.connection = None
            case Expire():
                if slot.connection is not None:
                    slot.connection.abort()
                    slot.connection = None
                await asyncio.sleep(EXPIRY_WAIT_S)
                await self._ping_all()
            case Ask(_, requests):
                await self._exchange(slot, requests)
            case Leave(_, requests):
                await self._exchange(slot, (*requests, CloseSession()))
                await self._drain(slot)

    async def _connect(self, slot: Slot, password: bytes) -> None:
        previous = slot.connection
        connection = await RawConnection.open(
            self._port, timeout_ms=slot.timeout_ms, session_id=slot.session_id, password=password
        )
        if previous is not None:  # the server closes it
            await self._drain(slot)
        session = connection.session
        exists = session.session_id != 0
        same = session.session_id == slot.session_id
        slot.items = [
            Connected(slot.number, session.timeout_ms, exists, same, len(session.password))
        ]
        self.transcript.connections.append(slot.items)
        slot.connection, slot.recorded, slot.asked = connection, 0, {}
        if not exists:
            await self._drain(slot)
            return
        if not same:
            name = slot.number + 1 + 100 * len(self.transcript.sessions)
            self.transcript.sessions[session.session_id] = name
        slot.session_id, slot.password = session.session_id, session.password

    async def _exchange(self, slot: Slot, requests: tuple[Request, ...]) -> None:
        """Send the requests at once and receive their answers."""
        connection = slot.connection
        if connection is None:
            return
        start_ms = time.time() * 1000
        left: list[int] = []
        for request in requests:
            sent = request
            if isinstance(request, SetWatches):
                sent = request._replace(relative_zxid=self._zxid_ago(request.relative_zxid))
            xid = connection.send(sent)
            slot.asked[xid] = request
            left.append(xid)
        try:
            while left:
                message = await connection.receive()
                if isinstance(message, Reply):
                    left.remove(message.xid)
                    self._record_write(slot, message, start_ms)
                self._record(slot)
        except ConnectionClosedError:
            self._record(slot)
            slot.items.append(Ended(len(left)))
            connection.abort()
            slot.connection = None

    def _zxid_ago(self, count: int) -> int:
        writes = self.transcript.writes
        return writes[-1 - count] if count < len(writes) else 0

    def _record_write(self, slot: Slot, reply: Reply, start_ms: float) -> None:
        request = slot.asked[reply.xid]
        if not isinstance(request, WRITES) or reply.code == ErrorCode.MARSHALLING_ERROR:
            return
        writes = self.transcript.writes
        if writes and reply.zxid <= writes[-1]:
            raise OrderError(f"{reply} of {request} after zxid {writes[-1]}")
        writes.append(reply.zxid)
        if isinstance(request, CloseSession):
            self.transcript.closes.add(reply.zxid)
        self.transcript.windows[reply.zxid] = Window(start_ms, time.time() * 1000)

    def _record(self, slot: Slot) -> None:
        connection = slot.connection
        assert connection is not None
        for message in connection.received[slot.recorded :]:
            request = slot.asked[message.xid] if isinstance(message, Reply) else None
            slot.items.append((request, message))
        slot.recorded = len(connection.received)

    async def _drain(self, slot: Slot) -> None:
        """Receive what is left on a connection that the server closes."""
        connection = slot.connection
        if connection is None:
            return
        await connection.drained()
        self._record(slot)
        slot.items.append(Ended(0))
        slot.connection = None

    async def _end_left(self, session_id: int, password: bytes) -> None:
        """Close an earlier session, so that it does not expire while others are compared."""
        if session_id != 0:
            connection = await RawConnection.open(
                self._port, session_id=session_id, password=password
            )
            if connection.session.session_id != 0:
                await connection.call(CloseSession())
            await connection.drained()

    async def _end(self, slot: Slot) -> None:
        """Close the slot's session, so that it does not expire later."""
        if slot.connection is None and slot.session_id != 0:
            await self._connect(slot, slot.password)
        if slot.connection is not None:
            await self._exchange(slot, (CloseSession(),))
            await self._drain(slot)
