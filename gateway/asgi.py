"""The ASGI application, which a server of ``gateway.servers`` runs: HTTP by Django, WebSockets by their endpoints."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

import django

django.setup(set_prefix=False)

from channels.routing import ProtocolTypeRouter  # noqa: E402 - apps must be loaded first
from django.conf import settings  # noqa: E402 - apps must be loaded first

from gateway.http.connection import through_proxies  # noqa: E402 - apps must be loaded first
from gateway.http.handler import HttpHandler  # noqa: E402 - apps must be loaded first
from gateway.http.security import AllowedOriginSockets  # noqa: E402 - apps must be loaded first
from gateway.sockets import router  # noqa: E402 - apps must be loaded first

application = through_proxies(
    ProtocolTypeRouter({"http": HttpHandler(), "websocket": AllowedOriginSockets(router())}),
    settings.TRUSTED_PROXIES,
)
