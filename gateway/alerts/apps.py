"""The entry of alerts in ``INSTALLED_APPS``."""

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """The app ``gateway.alerts``."""

    name = "gateway.alerts"
