"""WebSocket routes: the console's live feed, and Pulsar's data-plane endpoints."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from channels.routing import URLRouter
from django.urls import path, re_path


async def unknown(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Refuse a handshake on a path that is none of ours (the client sees HTTP 403)."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def router() -> URLRouter:
    """All WebSocket routes, the most specific first."""
    from admin_ui.live import LiveFeed

    routes: list[Any] = [path("api/v1/live", LiveFeed.as_asgi())]
    if find_spec("gateway.ws") is not None and find_spec("gateway.ws.routing") is not None:
        routes.extend(import_module("gateway.ws.routing").websocket_urlpatterns)
    routes.append(re_path("^.*$", unknown))  # type: ignore[arg-type]
    return URLRouter(routes)
