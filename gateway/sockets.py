"""WebSocket routes of installed apps and of Pulsar's data plane."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.urls import re_path
from django.utils.module_loading import import_string

from gateway.http.installed import app_attributes
from gateway.http.refusal import refuse
from gateway.ws.routing import websocket_urlpatterns


async def unknown(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Refuse a handshake on an unknown path with HTTP status 404."""
    await receive()
    await refuse(send, 404)


def router() -> URLRouter:
    """Return all WebSocket routes.

    Only those of apps read the user of a session. Pulsar's endpoints do not need it, and it takes 7 KB for each socket.
    """
    not_found: Any = unknown
    installed = [
        route for name in app_attributes("websocket_routes") for route in import_string(name)
    ]
    signed_in: Any = AuthMiddlewareStack(URLRouter([*installed, re_path("^.*$", not_found)]))
    return URLRouter([*websocket_urlpatterns, re_path("", signed_in)])
