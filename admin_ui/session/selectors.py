"""The caller's own session, as it reads it."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from admin_ui.calls import in_thread
from engine.auth.identity import Identity
from gateway.http.auth.access import rights_are_judged
from gateway.http.auth.identity import identify_if_any, principal_of
from gateway.people import set_up
from gateway.people.acting import (
    Acting,
    has_superuser_role,
    person_of,
    roles_of,
    super_user_roles,
)
from gateway.people.signing_in import may_change_password
from gateway.sign_in import AccessLevel

Body = dict[str, Any]
NO_METHOD = "none"


async def session(request: HttpRequest) -> Body:
    """Return how sign-in works here, and who the caller is. Raises AuthenticationFailed for credentials that are shown
    and bad."""
    identity = await identify_if_any(request)
    person = None if identity is None else caller(request, identity)
    authentication = settings.IDENTITY.general.authentication_enabled
    known = person is not None or not authentication
    return {
        "authentication": authentication,
        "authorization": rights_are_judged(),
        "set_up_needed": False if known else await in_thread(set_up.is_needed)(),
        "password_sign_in": authentication and settings.SIGN_IN.password_sign_in,
        "providers": providers() if authentication else [],
        "person": person,
    }


def providers() -> list[Body]:
    """Return the providers by which people may sign in."""
    return [
        {"name": item.name, "title": item.title, "href": f"/sign-in/{item.name}"}
        for item in settings.SIGN_IN.providers
    ]


def caller(request: HttpRequest, identity: Identity) -> Body | None:
    """Return an identified caller; None where authentication is off and there is no session."""
    acting: Acting | None = request.acting  # type: ignore[attr-defined]
    if acting is not None:
        return _person(request, acting)
    role = principal_of(identity)
    if not role:
        return None
    superusers = super_user_roles()
    level: str = request.level  # type: ignore[attr-defined]
    return {
        "name": role,
        "display_name": "",
        "method": identity.method or NO_METHOD,
        "role": role,
        "level": level,
        "roles": [{"role": role, "level": level}],
        "viewing_as": None,
        "superuser": level == AccessLevel.FULL and role in superusers,
        "reads_everything": role in superusers,
        "may_change_password": False,
        "ends_at": None if identity.expires_at is None else int(identity.expires_at * 1000),
    }


def _person(request: HttpRequest, acting: Acting) -> Body:
    user: Any = request.user
    record = person_of(user)
    ends_at = request.session.get_expiry_date()
    return {
        "name": user.get_username(),
        "display_name": record.display_name if record is not None else "",
        "method": "session",
        "role": acting.role,
        "level": acting.level,
        "roles": [{"role": item.role, "level": item.level} for item in roles_of(user)],
        "viewing_as": acting.role if acting.viewing_as else None,
        "superuser": acting.superuser,
        "reads_everything": not acting.viewing_as and has_superuser_role(acting.role, user),
        "may_change_password": may_change_password(user),
        "ends_at": int(ends_at.timestamp() * 1000),
    }
