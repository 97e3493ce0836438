"""What the three data-plane endpoints share: the client, refusals, and one loop around a socket's life.

They are plain ASGI callables under Channels' router and authentication: a Channels consumer starts a task and hops
to a thread for every frame.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import _pulsar
import pulsar.asyncio

from engine.base.errors import MagnetarError
from engine.client import errors
from engine.client.errors import ServerError
from gateway.http import refusal
from gateway.http.socket_port import SocketPort, port_of
from gateway.services import brokers
from gateway.services.engine_link import link
from gateway.ws.frames import RefusedError

log = logging.getLogger(__name__)
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

OPERATION_TIMEOUT_S = 10

STATUS = {
    "ProducerBusy": 409,
    "ConsumerBusy": 409,
    "TopicNotFound": 404,
    "AuthenticationError": 401,
    "AuthorizationError": 403,
    "InvalidTopicName": 400,
    "InvalidConfiguration": 400,
    "TooManyLookupRequestException": 429,
    "ProducerBlockedQuotaExceededError": 429,
    "ProducerBlockedQuotaExceededException": 429,
    "ServiceUnitNotReady": 503,
    "Timeout": 504,
    "ConnectError": 503,
}

_clients: dict[asyncio.AbstractEventLoop, tuple[list[str], pulsar.asyncio.Client]] = {}


async def client() -> pulsar.asyncio.Client:
    """The process' client of the registered brokers, one per event loop.

    It looks topics up at those it was made with, so it lives until all of them are gone; then its producers and
    consumers could only fail, and end with it. Raises RefusedError.
    """
    try:
        addresses = await link().arun(brokers.advertised)
    except (MagnetarError, TimeoutError) as error:
        raise RefusedError(503, f"The metadata store does not answer: {error}") from error
    if not addresses:
        raise RefusedError(503, "No broker is registered")
    loop = asyncio.get_running_loop()
    known, found = _clients.get(loop, ([], None))
    if found is not None and not set(known).isdisjoint(addresses):
        return found
    made = pulsar.asyncio.Client(
        brokers.service_url(addresses),
        operation_timeout_seconds=OPERATION_TIMEOUT_S,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    _clients[loop] = (addresses, made)
    if found is not None:
        await asyncio.to_thread(found.shutdown)
    return made


def refusal_of(error: pulsar.asyncio.PulsarException) -> RefusedError:
    """The client's error as an HTTP refusal."""
    name = error.error().name
    return RefusedError(STATUS.get(name, 500), f"Failed to create producer/consumer: {error}")


class Socket:
    """One accepted WebSocket: text frames in, text frames out."""

    def __init__(self, receive: Receive, port: SocketPort) -> None:
        self._receive = receive
        self._port = port

    @property
    def closed(self) -> bool:
        return self._port.closed

    async def send_text(self, text: str) -> None:
        """Send a frame once a slow reader left room; nothing when the peer is gone (its loop ends by the event)."""
        if not self._port.writable:
            await self._port.drained()
        self._port.send_text(text)

    async def close(self, code: int, reason: str = "") -> None:
        self._port.close(code, reason)

    async def next_text(self) -> str | None:
        """The next text frame, binary ones skipped; None when the socket ended, or was idle too long."""
        while True:  # what came before the end is still told
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                return None
            text = event.get("text")
            if text is None:
                continue
            return str(text)


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
}


def refused(error: MagnetarError) -> RefusedError:
    """What the engine's client says, as an HTTP refusal."""
    status = 500
    if isinstance(error, errors.RefusedError):
        status = _STATUS.get(error.code, 500)
    elif isinstance(error, errors.NoAnswerError):
        status = 504
    elif isinstance(error, errors.ClientError):
        status = 503
    return RefusedError(status, f"Failed to create producer/consumer: {error}")


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


async def serve(
    scope: Scope,
    receive: Receive,
    send: Send,
    open_peer: Callable[[], Awaitable[Any]],
    talk: Callable[[Socket, Any], Awaitable[None]],
) -> None:
    """Open the peer (producer, consumer, reader), accept, talk, close the peer whatever happens."""
    await receive()  # websocket.connect
    try:
        peer = await open_peer()
    except RefusedError as error:
        await refuse(send, error)
        return
    except pulsar.asyncio.PulsarException as error:
        await refuse(send, refusal_of(error))
        return
    except (ValueError, TypeError) as error:  # the client's own checks of parameters
        await refuse(send, RefusedError(400, f"Invalid query params: {error}"))
        return
    try:
        await send({"type": "websocket.accept"})
        await talk(Socket(receive, port_of(scope)), peer)
    finally:
        await asyncio.shield(_close(peer))


async def refuse(send: Send, error: RefusedError) -> None:
    """Turn a handshake down; the connect event was received."""
    await refusal.refuse(send, error.status, error.text)


async def _close(peer: Any) -> None:
    try:
        await peer.close()
    except pulsar.asyncio.PulsarException as error:
        if error.error() != _pulsar.Result.AlreadyClosed:
            log.warning("closing %s: %s", type(peer).__name__, error)
