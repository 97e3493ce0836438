"""The console's entry in ``INSTALLED_APPS``, the only place where the gateway names it."""

from django.apps import AppConfig


class AdminUiConfig(AppConfig):
    """The app ``admin_ui``. Attributes other than ``name`` and ``default_auto_field`` are read by
    ``gateway.http``."""

    name = "admin_ui"
    default_auto_field = "django.db.models.BigAutoField"
    http_routes = "admin_ui.urls"
    websocket_routes = "admin_ui.urls.websocket_urlpatterns"
    middleware = "admin_ui.audit.recording.AuditRecorder"
    background_work = "admin_ui.changes.working"
    reveal_recorder = "admin_ui.audit.recording.record_socket"
