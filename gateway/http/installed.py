"""What installed apps bring along: routes, sockets, middleware. An app names them as attributes of its ``AppConfig``
(``http_routes``, ``websocket_routes``, ``middleware``), so the gateway knows it by ``INSTALLED_APPS`` only."""

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.http import HttpRequest
from django.utils.module_loading import import_string


def brought(attribute: str) -> list[str]:
    """Dotted names under ``attribute``, in the order of ``INSTALLED_APPS``."""
    return [getattr(app, attribute) for app in apps.get_app_configs() if hasattr(app, attribute)]


def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Django middleware: that of all installed apps, the first outermost. Asynchronous only."""
    for name in reversed(brought("middleware")):
        get_response = import_string(name)(get_response)
    return get_response


middleware.sync_capable = False  # type: ignore[attr-defined]
middleware.async_capable = True  # type: ignore[attr-defined]
