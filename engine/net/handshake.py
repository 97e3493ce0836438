"""The serving side's handshake: CONNECT, maybe AUTH_CHALLENGE and AUTH_RESPONSE, then CONNECTED or the end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

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
"""Characters of a client's version that are kept."""


class HandshakeError(PeerError):
    """The other side did not become connected: too slow, or refused."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """More is needed of the client than it sent."""

    method: str
    data: bytes


Verdict = Challenge | None
"""None: the credentials are good."""
Authenticate = Callable[[str, bytes], Verdict | Awaitable[Verdict]]
"""Judges what one connection's client shows (method name, data), now or later. Raises CodedError: its text and number
are the client's answer."""


def anyone(method: str, data: bytes) -> Verdict:
    """Authentication is off: any method and credentials will do."""
    return None


@dataclass(slots=True)
class Client:
    """What a connection's client said of itself in CONNECT."""

    version: str = ""
    protocol_version: int = 0
    takes_broker_metadata: bool = False
    partial_producers: bool = False
    """Its producers of a partitioned topic may leave partitions out."""
    connected: bool = False
    """CONNECTED was sent."""


class Handshake:
    """Of one connection, whose frames its owner takes through ``peer``, at most while ``waiting`` is False.

    While credentials are being judged nothing is read, and what was read already is put off with ``put_off``: it is
    received again, in its order, once the answer is out, and judged by the state that the answer makes. A handshake
    that is not over within ``deadline_s`` of ``start`` ends the connection. ``connected`` is called at its end.
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
        self._behind: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self, deadline_s: float) -> None:
        """The connection stands: CONNECT must come."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline_s, self._too_slow, deadline_s)

    def stop(self) -> None:
        """It is over, or the connection gone. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()

    def _too_slow(self, deadline_s: float) -> None:
        missing = "no CONNECT" if self._peer.state is State.START else "not authenticated"
        self._connection.close(HandshakeError(f"{missing} within {deadline_s:g} s"))

    def connect(self, body: pb.CommandConnect) -> None:
        """CONNECT came."""
        self.client.version = body.client_version[:VERSION_LENGTH_MAX]
        self.client.protocol_version = body.protocol_version
        self.client.takes_broker_metadata = body.feature_flags.supports_broker_entry_metadata
        self.client.partial_producers = body.feature_flags.supports_partial_producer
        self._judge(body.auth_method_name, body.auth_data)

    def auth_response(self, body: pb.CommandAuthResponse) -> None:
        """AUTH_RESPONSE came; outside a handshake, nobody asked for it."""
        if self._peer.state is State.CONNECTING:
            self._judge(body.response.auth_method_name, body.response.auth_data)

    def put_off(self, data: bytes) -> None:
        """Bytes that came behind what is being judged."""
        self._behind.append(data)

    def _judge(self, method: str, data: bytes) -> None:
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
            judged = await verdict
        except CodedError as error:
            self._refuse(error)
            return
        self._answer(judged)
        self.waiting = False
        self._connection.release(HOLD)
        behind, self._behind = self._behind, []
        if behind:
            self._connection.data_received(b"".join(behind))

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
    CommandType.CONNECT: Route(Handshake.connect),
    CommandType.AUTH_RESPONSE: Route(Handshake.auth_response),
}
