"""WebSocket routes of Pulsar's data plane: all paths below ``/ws/``, and below ``/clusters/<cluster>/ws/`` for any
cluster but the default."""

from typing import Any

from django.urls import re_path

from engine.base.errors import NotFound
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import clusters_of
from gateway.ws import consumer, producer, sockets
from gateway.ws.frames import HandshakeRefusedError
from gateway.ws.paths import Target, parse, without_cluster


async def application(scope: sockets.Scope, receive: sockets.Receive, send: sockets.Send) -> None:
    """Serve the endpoint that the path names."""
    try:
        name, path = without_cluster(scope.get("raw_path") or scope["path"].encode())
        target = parse(path)
        cluster = _cluster(scope, name)
    except HandshakeRefusedError as error:
        await receive()
        await sockets.refuse(send, error)
        return
    await _endpoint(target)(scope, receive, send, target, cluster)


def _cluster(scope: sockets.Scope, name: str) -> Cluster:
    """Return the cluster that a path names. Raises HandshakeRefusedError."""
    try:
        return clusters_of(scope).named(name)
    except NotFound as error:
        raise HandshakeRefusedError(404, error.reason) from error


def _endpoint(target: Target) -> Any:
    if target.kind == "producer":
        return producer.application
    return consumer.consumer if target.kind == "consumer" else consumer.reader


# Channels' router expects Django's patterns with ASGI callables, which Django's types do not allow.
_pattern: Any = application
websocket_urlpatterns = [re_path(r"^(?:clusters/[^/]+/)?ws/", _pattern)]
