"""WebSocket routes: the console's live feed, and Pulsar's data-plane endpoints."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.routing import URLRouter
from django.urls import re_path
from django.utils.module_loading import import_string

from gateway.ws.routing import websocket_urlpatterns

CONSOLE = "admin_ui.routing.websocket_urlpatterns"
"""By name, as ``gateway.urls`` includes the console's HTTP routes: the gateway does not know what the console is."""


async def unknown(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Refuse a handshake on a path that is none of ours (the client sees HTTP 404)."""
    await receive()
    await send({"type": "websocket.close", "code": 4404, "reason": "Not Found"})


def router() -> URLRouter:
    """All WebSocket routes, the most specific first."""
    rest: Any = unknown
    return URLRouter([*import_string(CONSOLE), *websocket_urlpatterns, re_path("^.*$", rest)])
