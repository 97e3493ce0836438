"""The entry of people in ``INSTALLED_APPS``."""

from django.apps import AppConfig


class PeopleConfig(AppConfig):
    """The app ``gateway.people``."""

    name = "gateway.people"
    default_auto_field = "django.db.models.BigAutoField"
