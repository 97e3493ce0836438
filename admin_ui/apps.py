"""What the console is to the gateway, which knows it by its name in ``INSTALLED_APPS`` only."""

from django.apps import AppConfig


class AdminUiConfig(AppConfig):
    """Registered as ``admin_ui``. The other attributes are read by ``gateway.http.installed``."""

    name = "admin_ui"
    default_auto_field = "django.db.models.BigAutoField"
    http_routes = "admin_ui.urls"
    websocket_routes = "admin_ui.urls.websocket_urlpatterns"
    middleware = "admin_ui.audit.recording.AuditRecorder"
