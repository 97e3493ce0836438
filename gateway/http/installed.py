"""Routes, sockets and middleware of installed apps.

An app names them as attributes of its ``AppConfig`` (``http_routes``, ``websocket_routes``, ``middleware``), so the
gateway depends on no app and finds them by ``INSTALLED_APPS``.
"""

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.http import HttpRequest
from django.utils.module_loading import import_string


def app_attributes(attribute: str) -> list[str]:
    """Return the dotted names under ``attribute`` of all apps that have it, in the order of ``INSTALLED_APPS``."""
    return [getattr(app, attribute) for app in apps.get_app_configs() if hasattr(app, attribute)]


def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Wrap ``get_response`` in the middleware of all installed apps, the first outermost. Asynchronous only."""
    for name in reversed(app_attributes("middleware")):
        get_response = import_string(name)(get_response)
    return get_response


middleware.sync_capable = False  # type: ignore[attr-defined]
middleware.async_capable = True  # type: ignore[attr-defined]
