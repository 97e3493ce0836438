"""Changes of people by superusers. All functions use the database, and run in a thread."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string

from engine.base.errors import AlreadyExists, Conflict, InvalidField, NotFound
from gateway.people.acting import ActingRole, is_superuser, may_act, person_of, roles_of
from gateway.people.models import Person
from gateway.people.sessions import end_sessions

ONE_TIME_CHARS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
ONE_TIME_LENGTH = 20
ROLES_MAX = 50


def users() -> Any:
    """Return the query of all users, each with its record."""
    return get_user_model().objects.select_related("person").order_by("username")


def user_named(name: str) -> Any:
    """Return the user with a name. Raises NotFound."""
    user = users().filter(username=name).first()
    if user is None:
        raise NotFound(f"No person {name!r}")
    return user


def stored_roles(roles: Sequence[ActingRole]) -> list[dict[str, str]]:
    """Return roles as they are stored. Raises InvalidField for a role that occurs twice."""
    names = [item.role for item in roles]
    if len(set(names)) < len(names):
        raise InvalidField("roles", "must name each role once")
    if len(roles) > ROLES_MAX:
        raise InvalidField("roles", f"must be at most {ROLES_MAX}")
    return [{"role": item.role, "level": item.level} for item in roles]


def one_time_password() -> str:
    """Return a password that is set for one sign-in."""
    return get_random_string(ONE_TIME_LENGTH, ONE_TIME_CHARS)


def create_person(name: str, display_name: str, roles: Sequence[ActingRole]) -> tuple[Any, str]:
    """Create a person; return the user, and the password for its first sign-in. Raises AlreadyExists, InvalidField."""
    stored = stored_roles(roles)
    password = one_time_password()
    with transaction.atomic():
        user = add_user(name, password)
        Person.objects.create(
            user=user, display_name=display_name, roles=stored, must_change_password=True
        )
    return user_named(name), password


def add_user(name: str, password: str | None, **fields: Any) -> Any:
    """Create a user. Names that differ by case alone are too easily confused.

    Raises AlreadyExists, InvalidField.
    """
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError as error:
        raise InvalidField("name", str(error.message)) from None
    try:
        with transaction.atomic():
            if get_user_model().objects.filter(username__iexact=name).exists():
                raise IntegrityError
            return get_user_model().objects.create_user(name, password=password, **fields)
    except IntegrityError:
        raise AlreadyExists(f"A person {name!r} exists already") from None


def change_person(
    name: str, display_name: str, roles: Sequence[ActingRole], *, active: bool
) -> Any:
    """Change a person and return its user. One that is not active any more is signed out everywhere; what is open in
    its sessions follows other roles within seconds.

    Raises NotFound, InvalidField, Conflict for the last superuser.
    """
    stored = stored_roles(roles)
    with transaction.atomic():
        user = user_named(name)
        was_superuser = is_a_superuser(user)
        person = person_of(user) or Person(user=user)
        if person.provider and stored != person.roles:
            raise Conflict("The roles of this person are those of its groups at the provider")
        user.is_active = active
        person.display_name = display_name
        if stored != _shown_roles(user):
            person.roles = stored
            # Stored roles count instead.
            user.is_superuser = False
        user.save(update_fields=["is_active", "is_superuser"])
        person.save()
        if not active:
            end_sessions(user.pk)
        if was_superuser:
            _check_a_superuser_is_left()
    return user_named(name)


def _shown_roles(user: Any) -> list[dict[str, str]]:
    return stored_roles(roles_of(user))


def is_a_superuser(user: Any) -> bool:
    """Return whether one of a user's roles is that of a superuser without restriction."""
    return any(is_superuser(item, user) for item in roles_of(user))


def _check_a_superuser_is_left() -> None:
    """Raise Conflict if no active person is a superuser any more. Two changes at once wait for each other."""
    active = users().filter(is_active=True).select_for_update(of=("self",))
    if not any(is_a_superuser(user) for user in active if may_act(user)):
        raise Conflict("This person is the last superuser; give another person that role before")


def delete_person(name: str) -> None:
    """Delete a person with its sessions. Raises NotFound, Conflict for the last superuser."""
    with transaction.atomic():
        user = user_named(name)
        was_superuser = is_a_superuser(user)
        end_sessions(user.pk)
        user.delete()
        if was_superuser:
            _check_a_superuser_is_left()


def reset_password(name: str) -> str:
    """Replace a person's password by one for the next sign-in, and sign the person out everywhere.

    Raises NotFound, Conflict for a person of a provider.
    """
    password = one_time_password()
    with transaction.atomic():
        user = user_named(name)
        person = person_of(user) or Person(user=user)
        if person.provider:
            raise Conflict("This person signs in by a provider and has no password here")
        user.set_password(password)
        user.save(update_fields=["password"])
        person.must_change_password = True
        person.save()
        end_sessions(user.pk)
    return password


def sign_out_everywhere(name: str) -> None:
    """End all sessions of a person. Raises NotFound."""
    end_sessions(user_named(name).pk)
