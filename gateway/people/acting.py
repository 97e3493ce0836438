"""The role that a person acts as, and at which level."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist

from engine.auth.settings import names
from gateway.sign_in import LEVELS, AccessLevel

ACTING_ROLE = "acting_role"
VIEWING_AS = "viewing_as"
"""Keys of a session."""


@dataclass(frozen=True, slots=True)
class ActingRole:
    """A role that a person may act as."""

    role: str
    level: str = AccessLevel.FULL


@dataclass(frozen=True, slots=True)
class Acting:
    """The role and level of a session."""

    role: str
    level: str
    viewing_as: bool = False
    """True while a superuser looks at the console as this role."""
    superuser: bool = False
    """True for a person who may do what superusers may, besides looking as another role."""


class Values(Protocol):
    """The part of a session that is read."""

    def get(self, key: str, default: Any = None) -> Any: ...


def super_user_roles() -> tuple[str, ...]:
    """Return the roles of superusers as the settings state them."""
    return tuple(names(settings.IDENTITY.general.super_user_roles))


def roles_of(user: Any) -> tuple[ActingRole, ...]:
    """Return the roles that a user may act as, in order. A user without stored roles has that of its name; a superuser
    of Django's the first of ``super_user_roles``. A person of a provider has those of the provider alone, and one whose
    stored roles are damaged has none."""
    person = person_of(user)
    if person is not None and (person.roles != [] or person.provider):
        return _decoded(person.roles)
    superusers = super_user_roles()
    role = superusers[0] if user.is_superuser and superusers else user.get_username()
    return (ActingRole(role),)


def _decoded(stored: Any) -> tuple[ActingRole, ...]:
    """Return stored roles; none when one of them, or the whole, is of another kind than this gateway writes."""
    items = stored if isinstance(stored, list) else [None]
    roles = []
    for item in items:
        role, level = (item.get("role"), item.get("level")) if isinstance(item, dict) else ("", "")
        if not (isinstance(role, str) and role and isinstance(level, str) and level in LEVELS):
            return ()
        roles.append(ActingRole(role, level))
    return tuple(roles)


def person_of(user: Any) -> Any:
    """Return the record of a user, None for a user without. The backend of ``gateway.people`` has read it already."""
    try:
        return user.person
    except ObjectDoesNotExist:
        return None


def may_act(user: Any) -> bool:
    """Return whether a user may sign in, and what derives from an earlier sign-in counts: one that is active, and not
    of a provider that the settings name no more (A30)."""
    person = person_of(user)
    provider = "" if person is None else person.provider
    known = {item.name for item in settings.SIGN_IN.providers} | {""}
    return user.is_active and provider in known


def has_superuser_role(role: str, user: Any) -> bool:
    """Return whether a role of a user is that of a superuser, at whatever level."""
    superusers = super_user_roles()
    is_superuser_role: bool = role in superusers if superusers else user.is_superuser
    return is_superuser_role


def is_superuser(acting: ActingRole, user: Any) -> bool:
    """Return whether a role of a user is that of a superuser without restriction."""
    return acting.level == AccessLevel.FULL and has_superuser_role(acting.role, user)


def acting_of(user: Any, session: Values | Mapping[str, Any]) -> Acting | None:
    """Return how a user acts in a session: as the role that it chose, if it is still one of the user's, else as the
    first one (A27). None for a user without any role."""
    roles = roles_of(user)
    if not roles:
        return None
    chosen = session.get(ACTING_ROLE)
    current = next((item for item in roles if item.role == chosen), roles[0])
    superuser = is_superuser(current, user)
    viewed = session.get(VIEWING_AS)
    if viewed and superuser:
        return Acting(viewed, AccessLevel.READ, True, True)
    return Acting(current.role, current.level, False, superuser)
