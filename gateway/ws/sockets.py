"""What the three data-plane endpoints share: the client, refusals, and one loop around a socket's life.

They are plain ASGI callables under Channels' router and authentication: a Channels consumer starts a task and hops
to a thread for every frame.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from engine.base.errors import MagnetarError
from engine.client import errors
from engine.client.errors import ServerError
from gateway.http import refusal
from gateway.http.socket_port import SocketPort, port_of
from gateway.ws.frames import RefusedError

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


def refused(error: MagnetarError) -> RefusedError:
    """What the engine's client says, as an HTTP refusal."""
    status, reason = 500, str(error)
    if isinstance(error, errors.RefusedError):
        status, reason = _STATUS.get(error.code, 500), reason or error.code.name
    elif isinstance(error, errors.NoAnswerError):
        status = 504
    elif isinstance(error, errors.ClientError):
        status = 503
    return RefusedError(status, f"Failed to create producer/consumer: {reason}")


class Endpoint(Protocol):
    """What a socket is for, once it is open."""

    def accepted(self, port: SocketPort) -> None:
        """The handshake is done."""
        ...

    async def close(self) -> None:
        """The socket has ended."""
        ...


async def run(
    scope: Scope, receive: Receive, send: Send, open_endpoint: Callable[[], Awaitable[Endpoint]]
) -> None:
    """Open the endpoint, accept, and close it when the socket has ended, whatever happens."""
    await receive()  # websocket.connect
    try:
        endpoint = await open_endpoint()
    except RefusedError as error:
        await refuse(send, error)
        return
    except MagnetarError as error:
        await refuse(send, refused(error))
        return
    try:
        await send({"type": "websocket.accept"})
        endpoint.accepted(port_of(scope))
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        await asyncio.shield(endpoint.close())


async def refuse(send: Send, error: RefusedError) -> None:
    """Turn a handshake down; the connect event was received."""
    await refusal.refuse(send, error.status, error.text)
