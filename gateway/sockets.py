"""WebSocket routes: the console's live feed, and Pulsar's data-plane endpoints."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.routing import URLRouter
from django.urls import path, re_path


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
    from admin_ui.live import LiveFeed
    from gateway.ws.routing import websocket_urlpatterns

    live: Any = LiveFeed.as_asgi()
    rest: Any = unknown
    return URLRouter([path("api/v1/live", live), *websocket_urlpatterns, re_path("^.*$", rest)])
