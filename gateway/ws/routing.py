"""WebSocket routes of Pulsar's data plane: all paths below ``/ws/``."""

from typing import Any

from django.urls import re_path

from gateway.ws import consumer, producer, sockets
from gateway.ws.frames import HandshakeRefusedError
from gateway.ws.paths import Target, parse


async def application(scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send) -> None:
    """Serve the endpoint that the path names."""
    try:
        target = parse(scope.get("raw_path") or scope["path"].encode())
    except HandshakeRefusedError as error:
        await receive()
        await sockets.refuse(send, error)
        return
    await _endpoint(target)(scope, receive, send, target)


def _endpoint(target: Target) -> Any:
    if target.kind == "producer":
        return producer.application
    return consumer.consumer if target.kind == "consumer" else consumer.reader


# Channels' router expects Django's patterns with ASGI callables, which Django's types do not allow.
_pattern: Any = application
websocket_urlpatterns = [re_path(r"^ws/", _pattern)]
