"""The entry of copies in ``INSTALLED_APPS``."""

from django.apps import AppConfig


class CopiesConfig(AppConfig):
    """The app ``gateway.copies``."""

    name = "gateway.copies"
