"""The entry of these records in ``INSTALLED_APPS``."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """The app ``gateway.access``."""

    name = "gateway.access"
    default_auto_field = "django.db.models.BigAutoField"
