"""The server's side of the handshake: CONNECT, maybe AUTH_CHALLENGE and AUTH_RESPONSE, then CONNECTED or an error.

Credentials that expire are asked for again while the connection is used, and a client that does not renew them is
disconnected (T2).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from inspect import isawaitable

from engine.auth.credentials import (
    NO_METHOD,
    AuthenticationFailed,
    Challenge,
    Credentials,
    RolesRefused,
)
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.rights import PUBLIC
from engine.base.clock import Clock
from engine.base.errors import MagnetarError, PeerError
from engine.base.tasks import TaskScope
from engine.net.routing import Route, Routes
from engine.net.transport import Connection
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import CodedError, ServerError
from engine.wire.peer import Peer
from engine.wire.states import CommandType, State

HOLD = "handshake"
VERSION_LENGTH_MAX = 256
"""Stored characters of a client's version."""
REFRESH_EARLY_S = 10.0
"""Time before the end of credentials at which new ones are asked for. Clients that then repeat the old ones are asked
again at the end."""
REFRESH_GRACE_S = 5.0
"""Time after the end of credentials, or after a later challenge, at which a connection is closed."""
RECHECK_S = 600.0
"""Longest sleep of the expiry timer, because the wall clock may be set and machines may be suspended."""


class HandshakeError(PeerError):
    """The client did not complete the handshake: it was too slow, or refused."""


Verdict = Identity | Challenge
Authenticate = Callable[[Credentials], Verdict | Awaitable[Verdict]]
"""Establishes the identity of a connection's client, at once or as an awaitable. Raises AuthenticationFailed,
RolesRefused, or CodedError, whose texts are sent to the client."""
OLD_METHODS = {pb.AuthMethod.AuthMethodYcaV1: "ycav1", pb.AuthMethod.AuthMethodAthens: "athens"}
"""Names of the methods that clients of old state by number."""
Refused = (AuthenticationFailed, RolesRefused, CodedError)


def allow_all(credentials: Credentials) -> Verdict:
    """Accept any credentials, for when authentication is off."""
    return UNAUTHENTICATED


@dataclass(slots=True)
class Client:
    """A connection's client as described by its CONNECT, and its identity."""

    identity: Identity = UNAUTHENTICATED
    """The identity by the last accepted credentials."""
    version: str = ""
    proxy_version: str = ""
    """Version of the proxy that CONNECT came through; empty without one."""
    protocol_version: int = 0
    takes_broker_metadata: bool = False
    partial_producers: bool = False
    """True when its producers of a partitioned topic may leave partitions out."""
    replicates_by_source: bool = False
    """True when it expects receipts of replicated entries to name their position in the cluster of origin."""
    refreshes: bool = False
    """True when it answers a challenge with new credentials on a connected connection."""
    connected: bool = False
    """True once CONNECTED was sent."""


class Handshake:
    """Handshake of one connection, whose owner passes frames through ``peer`` only while ``waiting`` is False.

    While credentials are being checked nothing is read. The owner defers bytes that were already read with ``defer``;
    they are received again, in order, after the answer was sent, and so in the state that follows it. A handshake that
    is not complete within ``deadline_s`` of ``start`` ends the connection. ``connected`` is called at its end.

    Afterwards commands are handled as usual while new credentials are awaited or checked. There is one timer per
    connection: the deadline of the handshake, then that of credentials that expire, and otherwise none. Without
    ``max_message_size`` CONNECTED states none.
    """

    def __init__(
        self,
        connection: Connection,
        peer: Peer,
        tasks: TaskScope,
        authenticate: Authenticate,
        *,
        clock: Clock,
        server_version: str,
        max_message_size: int | None,
        feature_flags: dict[str, bool],
        connected: Callable[[], None],
    ) -> None:
        self.client = Client()
        self.waiting = False
        self._connection = connection
        self._peer = peer
        self._tasks = tasks
        self._authenticate = authenticate
        self._clock = clock
        self._server_version = server_version
        self._max_message_size = max_message_size
        self._feature_flags = feature_flags
        self._connected = connected
        self._credentials: Credentials | None = None
        self._deferred: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self, deadline_s: float) -> None:
        """Start the deadline, when the connection is established."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline_s, self._time_out, deadline_s)

    def stop(self) -> None:
        """Stop the timer, at the end of the connection. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, deadline_s: float) -> None:
        missing = "no CONNECT" if self._peer.state is State.START else "not authenticated"
        self._connection.close(HandshakeError(f"{missing} within {deadline_s:g} s"))

    def connect(self, body: pb.CommandConnect) -> None:
        """Handle CONNECT."""
        self.client.version = body.client_version[:VERSION_LENGTH_MAX]
        self.client.proxy_version = body.proxy_version[:VERSION_LENGTH_MAX]
        self.client.protocol_version = body.protocol_version
        self.client.takes_broker_metadata = body.feature_flags.supports_broker_entry_metadata
        self.client.partial_producers = body.feature_flags.supports_partial_producer
        self.client.replicates_by_source = body.feature_flags.supports_repl_dedup_by_lid_and_eid
        self.client.refreshes = body.feature_flags.supports_auth_refresh
        self._check(
            Credentials(
                body.auth_method_name or OLD_METHODS.get(body.auth_method, NO_METHOD),
                body.auth_data,
                body.original_principal or None,
                body.original_auth_method or None,
                body.original_auth_data.encode() or None,
                self._connection.certificate,
                self._connection.peer_name,
                body.proxy_version,
            )
        )

    def auth_response(self, body: pb.CommandAuthResponse) -> None:
        """Handle AUTH_RESPONSE; one that answers no challenge is ignored."""
        if self._credentials is None:
            return
        given = body.response
        if not (given.HasField("auth_method_name") and given.HasField("auth_data")):
            self._connection.close(HandshakeError("AUTH_RESPONSE without a method or data"))
            return
        method, data = given.auth_method_name, given.auth_data
        if self.client.identity.original_method:
            self._check(replace(self._credentials, original_method=method, original_data=data))
        else:
            self._check(replace(self._credentials, method=method, data=data))

    def defer(self, data: bytes) -> None:
        """Store bytes that arrived behind the credentials being checked."""
        self._deferred.append(data)

    def _check(self, credentials: Credentials) -> None:
        self._credentials = None
        try:
            verdict = self._authenticate(credentials)
        except Refused as error:
            self.refuse(error)
            return
        if not isawaitable(verdict):
            self._answer(verdict, credentials)
        elif self.client.connected:
            self._tasks.spawn("refresh", self._check_later(verdict, credentials))
        else:
            self.waiting = True
            self._connection.hold(HOLD)
            self._tasks.spawn("handshake", self._wait(verdict, credentials))

    async def _wait(self, verdict: Awaitable[Verdict], credentials: Credentials) -> None:
        if not await self._check_later(verdict, credentials):
            return
        # Deferred bytes come before those that the connection reads next: they are passed on in this turn of the loop.
        self.waiting = False
        self._connection.release(HOLD)
        deferred, self._deferred = self._deferred, []
        if deferred:
            self._connection.data_received(b"".join(deferred))

    async def _check_later(self, verdict: Awaitable[Verdict], credentials: Credentials) -> bool:
        """Answer the credentials once they were checked; return False when they were refused."""
        try:
            result = await verdict
        except Refused as error:
            self.refuse(error)
            return False
        self._answer(result, credentials)
        return True

    def _answer(self, verdict: Verdict, credentials: Credentials) -> None:
        if isinstance(verdict, Challenge):
            self._challenge(verdict, credentials)
        elif self.client.connected:
            self.renew(verdict, credentials)
        else:
            self.complete(verdict, credentials)

    def complete(self, identity: Identity, credentials: Credentials) -> None:
        """Answer CONNECT after its credentials were accepted. A subclass may answer later."""
        self.client.identity = identity
        self._peer.sent_connected()
        self.client.connected = True
        self._connection.send(
            commands.connected(
                server_version=self._server_version,
                protocol_version=self._version,
                max_message_size=self._max_message_size,
                feature_flags=self._feature_flags,
            )
        )
        self._watch_expiry(credentials)
        self._connected()

    def _challenge(self, challenge: Challenge, credentials: Credentials) -> None:
        self._credentials = credentials
        self._peer.sent_challenge()
        self._connection.send(
            commands.auth_challenge(challenge.method, challenge.data, self._version)
        )

    @property
    def _version(self) -> int:
        """The protocol version that both sides understand."""
        return max(0, min(self.client.protocol_version, commands.PROTOCOL_VERSION))

    def refuse(self, error: MagnetarError) -> None:
        """Send the reason and close the connection."""
        code = ServerError.AuthenticationError
        if isinstance(error, CodedError):
            code = error.code
        elif isinstance(error, RolesRefused):
            code = ServerError.AuthorizationError
        self._connection.send(commands.error(commands.NO_REQUEST, code, str(error)))
        self._connection.close(HandshakeError(f"refused: {error}"))

    # Expiry

    def renew(self, identity: Identity, credentials: Credentials) -> None:
        """Use the identity by new credentials, which must have the roles of the old ones: what the client has opened
        was permitted to those."""
        before = self.client.identity
        if (identity.role, identity.original) != (before.role, before.original):
            roles = f"{before.role!r} to {identity.role!r}"
            self._connection.close(HandshakeError(f"new credentials change the role from {roles}"))
            return
        self.client.identity = identity
        if identity.expires_at is not None and identity.expires_at <= self._now:
            self.end()
        else:
            self._watch_expiry(credentials)

    def _watch_expiry(self, credentials: Credentials) -> None:
        self.stop()
        expires_at = self.client.identity.expires_at
        if expires_at is None:
            return
        early = expires_at - REFRESH_EARLY_S
        at = early if self._now < early else expires_at
        self.call_at(at, lambda: self._expire(credentials, expires_at))

    def _expire(self, credentials: Credentials, expires_at: float) -> None:
        """Ask for new credentials, or close the connection when the client cannot send any."""
        original_method = self.client.identity.original_method
        forwarded = credentials.original_principal is None or original_method
        if self.client.refreshes and forwarded:
            method = original_method or credentials.method
            self._challenge(Challenge(method, commands.AUTH_REFRESH), credentials)
            self.call_at(max(self._now, expires_at) + REFRESH_GRACE_S, self.end)
        elif self._now < expires_at:
            self.call_at(expires_at, self.end)
        else:
            self.end()

    def end(self) -> None:
        """Close the connection, because the client's credentials have expired."""
        self._connection.close(HandshakeError("the client's credentials have expired"))

    @property
    def _now(self) -> float:
        """Seconds since the Unix epoch."""
        return self._clock.wall_ms() / 1000

    def call_at(self, wall_s: float, callback: Callable[[], None]) -> None:
        """Make ``callback`` the timer of the connection, at ``wall_s`` seconds since the Unix epoch."""
        left_s = wall_s - self._now
        if left_s <= 0:
            callback()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(left_s, RECHECK_S), self.call_at, wall_s, callback)


ROUTES: Routes = {
    # By name, so that a subclass is served.
    CommandType.CONNECT: Route(lambda handshake, body: handshake.connect(body), PUBLIC),
    CommandType.AUTH_RESPONSE: Route(lambda handshake, body: handshake.auth_response(body), PUBLIC),
}
