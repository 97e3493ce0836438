"""Django's authentication by password, which reads a person's record together with its user."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import Argon2PasswordHasher

NAME = "gateway.people.backend.PeopleBackend"
"""The backend of every session, also of one that a provider began."""


class Argon2(Argon2PasswordHasher):
    """Argon2id with the first set of parameters that OWASP recommends: 46 MiB for one hash, in one thread."""

    time_cost = 1
    memory_cost = 47_104
    parallelism = 1


class PeopleBackend(ModelBackend):
    """The users that may sign in, each with ``person``."""

    def get_user(self, user_id: Any) -> Any:
        user = get_user_model().objects.select_related("person").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: Any) -> Any:
        users = get_user_model().objects.select_related("person")
        user = await users.filter(pk=user_id).afirst()
        return user if user is not None and self.user_can_authenticate(user) else None
