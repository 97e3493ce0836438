"""Records of people.

A person is a user of Django's with a ``Person``; users without one are those of older releases and of ``manage.py
createsuperuser``.
"""

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class Person(models.Model):
    """The console's part of a user."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="person"
    )
    display_name = models.CharField(max_length=150, default="")
    roles = models.JSONField(
        default=list,
        help_text="objects with role and level, in the order of choice; empty: those of a user without a record",
    )
    must_change_password = models.BooleanField(default=False)
    provider = models.CharField(
        max_length=64,
        default="",
        help_text="name of the OpenID Connect provider; empty: a password",
    )
    subject = models.CharField(max_length=255, default="", help_text="the provider's id")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "subject"],
                condition=~models.Q(provider=""),
                name="one_person_per_subject",
            )
        ]

    def __str__(self) -> str:
        return str(self.user_id)


class PersonSession(AbstractBaseSession):
    """A session, with what its owner reads of it. Its key is a secret; ``public_id`` is not, and stays the same when
    the key is replaced."""

    user_id = models.BigIntegerField(null=True, db_index=True)
    public_id = models.CharField(max_length=32, default="", db_index=True)
    address = models.CharField(max_length=64, default="")
    browser = models.CharField(max_length=255, default="", help_text="the User-Agent header")
    created_at_ms = models.BigIntegerField(default=0)
    seen_at_ms = models.BigIntegerField(default=0)


class SetUp(models.Model):
    """The one row while the first person may be created with the code that gateways write."""

    nonce = models.CharField(
        max_length=64, help_text="makes the code, with the gateway's secret key"
    )
    failures = models.PositiveIntegerField(default=0)
    failing_since_ms = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return "set-up"
