"""The gateway's front door: HTTP to Django, WebSockets to their consumers. A server of ``gateway.servers`` runs
``application``."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402 - apps must be loaded first
from channels.routing import ProtocolTypeRouter  # noqa: E402 - apps must be loaded first

from gateway.http.security import SameOriginSockets  # noqa: E402 - apps must be loaded first
from gateway.sockets import router  # noqa: E402 - apps must be loaded first

application = ProtocolTypeRouter(
    {"http": http, "websocket": SameOriginSockets(AuthMiddlewareStack(router()))}
)
