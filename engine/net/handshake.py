"""The server's side of the handshake: CONNECT, maybe AUTH_CHALLENGE and AUTH_RESPONSE, then CONNECTED or an error."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

from engine.auth.rights import PUBLIC
from engine.base.errors import PeerError
from engine.base.tasks import TaskScope
from engine.net.routing import Route, Routes
from engine.net.transport import Connection
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import CodedError
from engine.wire.peer import Peer
from engine.wire.states import CommandType, State

HOLD = "handshake"
VERSION_LENGTH_MAX = 256
"""Stored characters of a client's version."""


class HandshakeError(PeerError):
    """The client did not complete the handshake: it was too slow, or refused."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A request for more authentication data than the client sent."""

    method: str
    data: bytes


Verdict = Challenge | None
"""Result of an authentication step; None when the credentials are valid."""
Authenticate = Callable[[str, bytes], Verdict | Awaitable[Verdict]]
"""Checks the credentials (method name, data) of one connection's client, at once or as an awaitable. Raises CodedError,
whose text and code are sent to the client."""


def allow_all(method: str, data: bytes) -> Verdict:
    """Accept any method and credentials, for when authentication is off."""
    return None


@dataclass(slots=True)
class Client:
    """A connection's client as described by its CONNECT."""

    version: str = ""
    protocol_version: int = 0
    takes_broker_metadata: bool = False
    partial_producers: bool = False
    """True when its producers of a partitioned topic may leave partitions out."""
    connected: bool = False
    """True once CONNECTED was sent."""


class Handshake:
    """Handshake of one connection, whose owner passes frames through ``peer`` only while ``waiting`` is False.

    While credentials are being checked nothing is read. The owner defers bytes that were already read with ``defer``;
    they are received again, in order, after the answer was sent, and so in the state that follows it. A handshake that
    is not complete within ``deadline_s`` of ``start`` ends the connection. ``connected`` is called at its end.
    """

    def __init__(
        self,
        connection: Connection,
        peer: Peer,
        tasks: TaskScope,
        authenticate: Authenticate,
        *,
        server_version: str,
        max_message_size: int,
        feature_flags: dict[str, bool],
        connected: Callable[[], None],
    ) -> None:
        self.client = Client()
        self.waiting = False
        self._connection = connection
        self._peer = peer
        self._tasks = tasks
        self._authenticate = authenticate
        self._server_version = server_version
        self._max_message_size = max_message_size
        self._feature_flags = feature_flags
        self._connected = connected
        self._deferred: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self, deadline_s: float) -> None:
        """Start the deadline, when the connection is established."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline_s, self._time_out, deadline_s)

    def stop(self) -> None:
        """Stop the deadline, at the end of the handshake or of the connection. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_out(self, deadline_s: float) -> None:
        missing = "no CONNECT" if self._peer.state is State.START else "not authenticated"
        self._connection.close(HandshakeError(f"{missing} within {deadline_s:g} s"))

    def connect(self, body: pb.CommandConnect) -> None:
        """Handle CONNECT."""
        self.client.version = body.client_version[:VERSION_LENGTH_MAX]
        self.client.protocol_version = body.protocol_version
        self.client.takes_broker_metadata = body.feature_flags.supports_broker_entry_metadata
        self.client.partial_producers = body.feature_flags.supports_partial_producer
        self._check(body.auth_method_name, body.auth_data)

    def auth_response(self, body: pb.CommandAuthResponse) -> None:
        """Handle AUTH_RESPONSE; outside a handshake it answers no challenge and is ignored."""
        if self._peer.state is State.CONNECTING:
            self._check(body.response.auth_method_name, body.response.auth_data)

    def defer(self, data: bytes) -> None:
        """Store bytes that arrived behind the credentials being checked."""
        self._deferred.append(data)

    def _check(self, method: str, data: bytes) -> None:
        try:
            verdict = self._authenticate(method, data)
        except CodedError as error:
            self._refuse(error)
            return
        if isawaitable(verdict):
            self.waiting = True
            self._connection.hold(HOLD)
            self._tasks.spawn("handshake", self._wait(verdict))
        else:
            self._answer(verdict)

    async def _wait(self, verdict: Awaitable[Verdict]) -> None:
        try:
            result = await verdict
        except CodedError as error:
            self._refuse(error)
            return
        self._answer(result)
        # Deferred bytes come before those that the connection reads next: they are passed on in this turn of the loop.
        self.waiting = False
        self._connection.release(HOLD)
        deferred, self._deferred = self._deferred, []
        if deferred:
            self._connection.data_received(b"".join(deferred))

    def _answer(self, verdict: Verdict) -> None:
        version = max(0, min(self.client.protocol_version, commands.PROTOCOL_VERSION))
        if verdict is not None:
            self._peer.sent_challenge()
            self._connection.send(commands.auth_challenge(verdict.method, verdict.data, version))
            return
        self.stop()
        self._peer.sent_connected()
        self.client.connected = True
        self._connection.send(
            commands.connected(
                server_version=self._server_version,
                protocol_version=version,
                max_message_size=self._max_message_size,
                feature_flags=self._feature_flags,
            )
        )
        self._connected()

    def _refuse(self, error: CodedError) -> None:
        self._connection.send(commands.error(commands.NO_REQUEST, error.code, str(error)))
        self._connection.close(HandshakeError(f"refused: {error}"))


ROUTES: Routes = {
    CommandType.CONNECT: Route(Handshake.connect, PUBLIC),
    CommandType.AUTH_RESPONSE: Route(Handshake.auth_response, PUBLIC),
}
