"""WebSocket routes of the console."""

from typing import Any

from django.urls import path

from admin_ui.live import LiveFeed

# Channels' router takes Django's patterns with ASGI callables, which Django's types know nothing of
_live: Any = LiveFeed.as_asgi()
websocket_urlpatterns = [path("api/v1/live", _live)]
