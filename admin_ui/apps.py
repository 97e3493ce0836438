"""Registers the console's models."""

from django.apps import AppConfig


class AdminUiConfig(AppConfig):
    """Registered as ``admin_ui``."""

    name = "admin_ui"
    default_auto_field = "django.db.models.BigAutoField"
