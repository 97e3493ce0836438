"""Sign-in by password, sign-out, and changes of a session. All functions use the database, and run in a thread.

The refusals of a sign-in are the same for every cause, and cost one hash of a password each, so that neither shows
whether a person exists (A26). django-axes counts the failures of a name from an address in the database, for all
gateways.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from axes.helpers import get_cool_off
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, authenticate, login
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Max
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import get_random_string

from engine.base.errors import Forbidden, InvalidField, MagnetarError, Unprocessable
from gateway.people.acting import ACTING_ROLE, VIEWING_AS, person_of, roles_of
from gateway.people.backend import NAME
from gateway.people.models import PersonSession
from gateway.people.sessions import (
    ORIGIN,
    SessionStore,
    end_sessions,
    origin,
    remove_expired,
    replace_key,
)

log = logging.getLogger(__name__)

PUBLIC_ID_CHARS = 16
NO_ROLE = "You have no role here; a superuser can give you one"


class WrongCredentialsError(MagnetarError):
    """Name or password is wrong, or the person may not sign in: the caller does not learn which."""

    def __init__(self) -> None:
        super().__init__("Name or password is wrong")


class TooManyAttemptsError(MagnetarError):
    """Too many attempts failed; the next attempt counts after ``retry_after_s``."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("Too many attempts; try again later")
        self.retry_after_s = retry_after_s


class PasswordChangeNeededError(MagnetarError):
    """The password is right, and was given for one sign-in that sets another."""

    def __init__(self) -> None:
        super().__init__("This password is for one sign-in; choose a new one")


def sign_in(request: HttpRequest, name: str, password: str, new_password: str = "") -> Any:
    """Begin a session of the person with this name and password, and return the user.

    ``new_password`` replaces a password that is for one sign-in, and only such a one. Raises WrongCredentialsError,
    TooManyAttemptsError, PasswordChangeNeededError, Unprocessable for a new password that is too weak, Forbidden for a
    person without a role. Nothing is changed then.
    """
    user: Any = authenticate(request, username=name, password=password)
    if user is None:
        if getattr(request, "axes_locked_out", False):
            raise TooManyAttemptsError(_retry_after_s(request, name))
        log.warning("sign-in refused address=%s", address_of(request))
        raise WrongCredentialsError
    person = person_of(user)
    if not roles_of(user):
        raise Forbidden(NO_ROLE)
    must_change = person is not None and person.must_change_password
    if must_change and not new_password:
        raise PasswordChangeNeededError
    with transaction.atomic():
        if must_change:
            replace_password(user, password, new_password, field="new_password")
        begin_session(request, user)
    return user


def _retry_after_s(request: HttpRequest, name: str) -> int:
    cool_off: timedelta = get_cool_off(request) or timedelta(0)
    attempts = AccessAttempt.objects.filter(username=name, ip_address=address_of(request))
    last = attempts.aggregate(last=Max("attempt_time"))["last"] or timezone.now()
    return max(1, int((last + cool_off - timezone.now()).total_seconds()) + 1)


def address_of(request: HttpRequest) -> str:
    """Return the address by which django-axes counts failures: the one that trusted proxies have corrected already."""
    address: str = request.META.get("REMOTE_ADDR", "")
    return address


def begin_session(request: HttpRequest, user: Any, values: Mapping[str, str] | None = None) -> None:
    """Begin a session of a user with a new key (A27), and with these values. The session that the request showed, if
    any, ends."""
    shown: str | None = getattr(getattr(request, "session", None), "session_key", None)
    if shown:
        PersonSession.objects.filter(pk=shown).delete()
    remove_expired()
    session = SessionStore()
    session.set_expiry(timezone.now() + timedelta(hours=settings.SIGN_IN.session_hours))
    session.update(values or {})
    browser = request.META.get("HTTP_USER_AGENT", "")
    session[ORIGIN] = origin(get_random_string(PUBLIC_ID_CHARS), address_of(request), browser)
    request.session = session
    login(request, user, backend=NAME)
    store(session)


def store(session: Any) -> None:
    """Save a session now, so that an error of the database is the answer to its request."""
    session.save()
    session.modified = False


def act_as(request: HttpRequest, role: str) -> None:
    """Let the session's person act as one of its roles. Raises Forbidden for another role."""
    if role not in {item.role for item in roles_of(request.user)}:
        raise Forbidden(f"{role!r} is none of your roles; a superuser can give it to you")
    replace_key(_session(request), {ACTING_ROLE: role, VIEWING_AS: None})


def view_as(request: HttpRequest, role: str | None) -> None:
    """Let a superuser look at the console as a role does, or, with None, no longer."""
    replace_key(_session(request), {VIEWING_AS: role})


def sign_out(request: HttpRequest) -> None:
    """End the session, also if another request of it replaces its key at this moment."""
    session = _session(request)
    public_id = session.get(ORIGIN, {}).get("public_id", "")
    if public_id:
        end_sessions(request.user.pk or 0, public_id=public_id)
    session.flush()


def _session(request: HttpRequest) -> SessionStore:
    session: SessionStore = request.session  # type: ignore[assignment]
    return session


def change_password(request: HttpRequest, current: str, new: str) -> None:
    """Change the password of the session's person, and end its other sessions. Failures count as those of a sign-in.

    Raises InvalidField for a wrong current password, TooManyAttemptsError, Unprocessable, Forbidden.
    """
    user: Any = request.user
    name = user.get_username()
    if not may_change_password(user):
        raise Forbidden("Your password is that of the provider by which you sign in")
    if authenticate(request, username=name, password=current) is None:
        if getattr(request, "axes_locked_out", False):
            raise TooManyAttemptsError(_retry_after_s(request, name))
        raise InvalidField("current", "is not your password")
    with transaction.atomic():
        replace_password(user, current, new, field="new")
        end_sessions(user.pk, besides=request.session.session_key)
        replace_key(_session(request), {HASH_SESSION_KEY: user.get_session_auth_hash()})


def may_change_password(user: Any) -> bool:
    """Return whether a user signs in by a password."""
    person = person_of(user)
    return person is None or not person.provider


def replace_password(user: Any, old: str, new: str, *, field: str) -> None:
    """Set a user's password. Raises Unprocessable for the old one and for one that is easily guessed."""
    if new == old:
        raise Unprocessable(f"{field}: must differ from the old password")
    check_password_rules(new, user, field)
    user.set_password(new)
    user.save(update_fields=["password"])
    person = person_of(user)
    if person is not None and person.must_change_password:
        person.must_change_password = False
        person.save(update_fields=["must_change_password"])


def check_password_rules(password: str, user: Any, field: str) -> None:
    """Raise Unprocessable, which names the rules that a password violates."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Unprocessable(f"{field}: {' '.join(error.messages)}") from None
