"""The common part of the producer, consumer and reader endpoints: refusals, and the life cycle of a socket.

They are plain ASGI callables below Channels' router and authentication. They are no Channels consumers, which start a
task and switch to a thread for every frame.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.base.errors import Forbidden, MagnetarError
from engine.client import errors
from engine.client.client import PulsarClient
from engine.client.errors import ServerError
from gateway.clusters.acting_clients import ActingClient
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import clusters_of
from gateway.http import refusal
from gateway.http.auth.access import acting_role, needs_of
from gateway.http.auth.handshakes import identify_socket
from gateway.http.auth.levels import check_socket_level, level_of_socket
from gateway.http.auth.payloads import check_payloads, is_ruled, record_reveal
from gateway.http.socket_port import SocketPort, port_of
from gateway.services.source import Ability
from gateway.ws.admission import Admission, admit
from gateway.ws.frames import HandshakeRefusedError
from gateway.ws.rights import RIGHTS, Opening

NO_LONGER_ADMITTED = 1008
"""Code of the close frame (policy violation) when a right or the credentials have ended."""
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_STATUS = {
    ServerError.ProducerBusy: 409,
    ServerError.ConsumerBusy: 409,
    ServerError.TopicNotFound: 404,
    ServerError.AuthenticationError: 401,
    ServerError.AuthorizationError: 403,
    ServerError.InvalidTopicName: 400,
    ServerError.TooManyRequests: 429,
    ServerError.ProducerBlockedQuotaExceededError: 429,
    ServerError.ProducerBlockedQuotaExceededException: 429,
    ServerError.ServiceNotReady: 503,
    ServerError.TopicTerminatedError: 503,
}


def refused(error: HandshakeRefusedError | MagnetarError | TimeoutError) -> HandshakeRefusedError:
    """Return an error before the handshake as its refusal."""
    if isinstance(error, HandshakeRefusedError):
        return error
    if isinstance(error, AuthenticationFailed | RolesRefused):
        return HandshakeRefusedError(401, str(error))
    if isinstance(error, Forbidden):
        return HandshakeRefusedError(403, f"Not authorized: {error}")
    if isinstance(error, TimeoutError):
        return HandshakeRefusedError(503, "No answer in time")
    status, reason = 500, str(error)
    if isinstance(error, errors.RefusedError):
        status, reason = _STATUS.get(error.code, 500), reason or error.code.name
    elif isinstance(error, errors.NoAnswerError):
        status = 504
    elif isinstance(error, errors.ClientError) or error.retriable:
        status = 503
    return HandshakeRefusedError(status, f"Failed to create producer/consumer: {reason}")


class SocketEndpoint(Protocol):
    """The handler of an open socket."""

    def accepted(self, port: SocketPort) -> None:
        """Start to use the socket, whose handshake is complete."""
        ...

    async def close(self) -> None:
        """Release the endpoint's resources after the socket has ended."""
        ...


async def run(
    scope: Scope,
    receive: Receive,
    send: Send,
    kind: str,
    cluster: Cluster,
    names: Callable[[], Opening],
    open_endpoint: Callable[[PulsarClient], Awaitable[SocketEndpoint]],
) -> None:
    """Identify the client, check its rights on ``names()`` (A3), open the endpoint and accept the handshake.

    The endpoint is closed when the socket has ended, also after an error or a cancellation.
    """
    await receive()  # websocket.connect
    admission: Admission | None = None
    acting: ActingClient | None = None
    try:
        identity = await identify_socket(scope)
        level, opening = level_of_socket(scope), names()
        check_socket_level(kind, level)
        admission = await admit(kind, opening, identity, cluster, scope)
        if kind != "producer" and is_ruled(identity, level):
            places = [place for _, place in needs_of(RIGHTS[kind], opening)]
            await check_payloads(clusters_of(scope), identity, level, places)
            await record_reveal(scope, identity, cluster.name, places)
        cluster.require(Ability.SOCKETS)
        acting = cluster.clients.use(acting_role(identity))
        endpoint = await open_endpoint(acting.client)
    except BaseException as error:
        if admission is not None:
            admission.close()
        if acting is not None:
            acting.close()
        if not isinstance(error, HandshakeRefusedError | MagnetarError | TimeoutError):
            raise
        await refuse(send, refused(error))
        return
    try:
        await send({"type": "websocket.accept"})
        port = port_of(scope)
        endpoint.accepted(port)
        admission.guard(lambda reason: port.close(NO_LONGER_ADMITTED, reason))
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        admission.close()
        acting.close()
        await asyncio.shield(endpoint.close())


async def refuse(send: Send, error: HandshakeRefusedError) -> None:
    """Refuse a handshake whose connect event was received."""
    await refusal.refuse(send, error.status, error.text)
