"""The gateway as an app of Django, without models."""

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """The app ``gateway``."""

    name = "gateway"
