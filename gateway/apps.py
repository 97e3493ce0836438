"""Django's view of the gateway: it only brings management commands and services, no models."""

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """Registered as ``gateway``."""

    name = "gateway"
