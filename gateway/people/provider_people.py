"""People of providers: created and changed at each sign-in (A29). All functions use the database, in a thread."""

import re
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.http import HttpRequest

from engine.base.errors import AlreadyExists, Forbidden
from gateway.people.accounts import add_user, stored_roles
from gateway.people.acting import ActingRole
from gateway.people.models import Person
from gateway.people.provider_client import Proven, value_at
from gateway.people.signing_in import begin_session
from gateway.sign_in import ANY_GROUP, ProviderSettings

NAME_MAX = 150
_NO_NAME = re.compile(r"[^\w.@+-]")
PROVIDER, ID_TOKEN = "provider", "id_token"
"""Keys of a session that a provider began."""


def sign_in(request: HttpRequest, provider: ProviderSettings, proven: Proven) -> Any:
    """Begin a session of a person of a provider and return the user, which is created at the first sign-in.

    Raises Forbidden for a person without a role or who is not active, AlreadyExists for one whose name others have.
    """
    roles = roles_by_groups(provider, proven.claims)
    if not roles:
        raise Forbidden("None of your groups has a role here (groups_roles)")
    subject = str(proven.claims["sub"])
    with transaction.atomic():
        person = (
            Person.objects.select_related("user")
            .filter(provider=provider.name, subject=subject)
            .first()
        )
        if person is None:
            person = _new(provider, subject, proven.claims)
        if not person.user.is_active:
            raise Forbidden("You may not sign in here any more; a superuser can allow it")
        person.roles = stored_roles(roles)
        person.display_name = str(proven.claims.get("name") or "")[:NAME_MAX]
        person.save()
        begin_session(request, person.user, {PROVIDER: provider.name, ID_TOKEN: proven.id_token})
    return person.user


def roles_by_groups(
    provider: ProviderSettings, claims: Mapping[str, Any]
) -> tuple[ActingRole, ...]:
    """Return the roles that the groups of a person give, in the order of the rules."""
    value = value_at(claims, provider.groups_claim)
    groups = {value} if isinstance(value, str) else set(map(str, value or ()))
    roles: dict[str, ActingRole] = {}
    for rule in provider.rules:
        if rule.group == ANY_GROUP or rule.group in groups:
            roles.setdefault(rule.role, ActingRole(rule.role, rule.level))
    return tuple(roles.values())


def _new(provider: ProviderSettings, subject: str, claims: Mapping[str, Any]) -> Person:
    """Create a person. One of another origin with the same name stays another person.

    Raises AlreadyExists, InvalidField.
    """
    given = claims.get(provider.name_claim) or claims.get("email") or subject
    name = _NO_NAME.sub("_", str(given))
    for candidate in (name, f"{name}@{provider.name}"):
        try:
            user = add_user(candidate[:NAME_MAX], None)
        except AlreadyExists:
            continue
        return Person(user=user, provider=provider.name, subject=subject)
    raise AlreadyExists(f"Another person has the name {name!r}; a superuser can change that")
