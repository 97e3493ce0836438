"""The console's routes: its API, its live feed, and the page for every route of the front end."""

from typing import Any

from django.urls import include, path, re_path

from admin_ui import views
from admin_ui.calls import ClusterView
from admin_ui.live import LiveFeed
from admin_ui.mcp.mcp_view import McpView
from admin_ui.messages.tail import LiveTail
from admin_ui.resources import RESOURCES
from admin_ui.session import redirects

api_patterns = [
    path("schema", views.schema),
    *(
        path(
            f"clusters/<seg:cluster>/{route}" if issubclass(view, ClusterView) else route,
            view.as_view(),
        )
        for resource in RESOURCES
        for route, view in resource.routes.items()
    ),
]

PAGES = (
    "c|connect|analyses|changes|audit|alerts|views|settings|sign-in|set-up|people|account"
    "|payload-rules"
)
"""First segments of the front end's routes."""
urlpatterns = [
    path("api/v1/", include(api_patterns)),
    path("mcp", McpView.as_view()),
    path("sign-in/<seg:provider>", redirects.begin),
    path("sign-in/<seg:provider>/callback", redirects.callback),
    path("", views.page),
    re_path(rf"^(?:{PAGES})(?:/.*)?$", views.page),
]

# Channels' router accepts Django's patterns with ASGI callables; the types of Django do not allow them.
_live: Any = LiveFeed.as_asgi()
_tail: Any = LiveTail.as_asgi()
websocket_urlpatterns = [path("api/v1/live", _live), path("api/v1/tail", _tail)]
