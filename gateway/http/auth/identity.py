"""The identity of a request's caller: by the credentials that it shows, else by a session of the console, else by the
certificate of its connection (A17).

Without a session cookie the database is not read. A request that changes nothing finds its session and user in memory
(``gateway.people.held_people``); for any other one, Django's own middleware reads them.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from asgiref.sync import markcoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import PermissionDenied

from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.auth.http_credentials import AUTHORIZATION, METHOD_HEADER, ORIGINAL_PRINCIPAL
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.base.addresses import is_loopback
from gateway.access.issued_tokens import UsedTokens, level_of_token, person_of_token
from gateway.clusters.registry import Clusters, clusters_for
from gateway.http.auth.callers import Callers
from gateway.http.connection import certificate_of
from gateway.http.security import SAFE_METHODS
from gateway.people.acting import Acting, acting_of, may_act
from gateway.people.held_people import Credential, HeldPeople, Known
from gateway.sign_in import AccessLevel

ANONYMOUS = AnonymousUser()
_BY_SESSION = SessionAuthentication()
SESSION = "session"
"""The method of an identity that Django's session established."""
_HEADERS = tuple(
    (f"HTTP_{name.upper().replace('-', '_')}", name)
    for name in (AUTHORIZATION, METHOD_HEADER, ORIGINAL_PRINCIPAL)
)
"""Names of the headers that identify a caller, as Django and as HTTP write them."""
AUTHORIZATION_KEY = _HEADERS[0][0]


async def _anonymous() -> AnonymousUser:
    return ANONYMOUS


class UserMiddleware:
    """Django middleware, asynchronous only, that sets ``request.auser``.

    ``request.user`` may be read only after ``auser`` was awaited.
    """

    sync_capable = False
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        markcoroutinefunction(self)
        self._get_response = get_response
        by_session: Any = SessionMiddleware(AuthenticationMiddleware(get_response))
        self._by_session = by_session

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        key = (
            request.COOKIES.get(settings.SESSION_COOKIE_NAME)
            if "HTTP_COOKIE" in request.META
            else None
        )
        if key is None:
            request.user = ANONYMOUS
            request.auser = _anonymous
            return await self._get_response(request)
        known = await _held(request, key) if request.method in SAFE_METHODS else None
        if known is not None:
            return await self._by_held(request, key, known)
        answer: HttpResponseBase = await self._by_session(request)
        return answer

    async def _by_held(self, request: HttpRequest, key: str, known: Known) -> HttpResponseBase:
        """Answer a request of a session that is in memory."""

        async def user() -> Any:
            return known.user

        request.session = known.session(key)
        request.auser = user
        answer = await self._get_response(request)
        if request.session.modified:
            finish = sync_to_async(self._by_session.process_response)
            changed: HttpResponseBase = await finish(request, answer)
            return changed
        patch_vary_headers(answer, ("Cookie",))
        return answer


async def _held(request: HttpRequest, key: str) -> Known | None:
    """Return who a session makes known. While the database does not answer, that is left to who reads it."""
    with suppress(DatabaseError):
        return await clusters_for(request).part(HeldPeople).known(Credential(session=key))
    return None


async def identify(request: HttpRequest) -> Identity:
    """Return the identity of a request's caller, the same at each call. ``request.user`` is set to the user of the
    console, if any, ``request.acting`` to how it acts, and ``request.level`` to its level, a value of ``LEVELS`` of
    ``gateway.people.acting``; other callers have ``full``.

    What is shown in ``Authorization`` counts before a session. Raises AuthenticationFailed, RolesRefused, and
    PermissionDenied for a change in a session without its CSRF token.
    """
    known: Identity | Exception | None = getattr(request, "identified", None)
    if known is None:
        try:
            known = await _identify(request)
        except (AuthenticationFailed, RolesRefused, PermissionDenied) as error:
            # Kept, so that the audit log and the view agree on whether the caller is known.
            known = error
        request.identified = known  # type: ignore[attr-defined]
    if isinstance(known, Exception):
        raise known
    return known


async def identify_if_any(request: HttpRequest) -> Identity | None:
    """Return the identity of a request's caller, or None for one that shows nothing and so is not known.

    Raises as ``identify``.
    """
    if AUTHORIZATION_KEY in request.META or certificate_of(request.scope):  # type: ignore[attr-defined]
        return await identify(request)
    acting = acting_in(await request.auser(), getattr(request, "session", {}))
    general = settings.IDENTITY.general
    is_unknown = general.authentication_enabled and not general.anonymous_user_role
    return None if acting is None and is_unknown else await identify(request)


async def _identify(request: HttpRequest) -> Identity:
    request.user = ANONYMOUS
    request.acting = None  # type: ignore[attr-defined]
    request.level = AccessLevel.FULL  # type: ignore[attr-defined]
    callers = clusters_for(request).part(Callers)
    headers = {name: request.META[key] for key, name in _HEADERS if key in request.META}
    address = f"{request.META.get('REMOTE_ADDR', '')}:{request.META.get('REMOTE_PORT', '')}"
    certificate = certificate_of(request.scope)  # type: ignore[attr-defined]
    identity = await callers.identity(headers, address, certificate, shown_only=True)
    if identity is not None:
        request.level = await level_of_token(identity, clusters_for(request).part(HeldPeople))  # type: ignore[attr-defined]
        note_use(clusters_for(request), identity)
        return identity
    user: Any = await request.auser()
    acting = acting_in(user, getattr(request, "session", {}))
    if acting is not None:
        request.user = user
        request.acting = acting  # type: ignore[attr-defined]
        request.level = acting.level  # type: ignore[attr-defined]
        with suppress(DatabaseError):
            await request.session.note_use()  # type: ignore[attr-defined]
        enforce_csrf(request)
        return identity_of(acting)
    return await callers.identity(headers, address, certificate) or UNAUTHENTICATED


def note_use(clusters: Clusters, identity: Identity) -> None:
    """Note that the caller's token was used, if it has one."""
    if identity.token_id:
        clusters.part(UsedTokens).note(identity.token_id)


def enforce_csrf(request: HttpRequest) -> None:
    """Check the CSRF token of a change. Raises PermissionDenied."""
    _BY_SESSION.enforce_csrf(request)  # type: ignore[arg-type]


def acting_in(user: Any, session: Any) -> Acting | None:
    """Return how the user of a session acts; None for a caller without a session that stands."""
    if not (user.is_authenticated and may_act(user)):
        return None
    return acting_of(user, session)


def identity_of(acting: Acting) -> Identity:
    """Return the identity of a session whose person acts so."""
    return Identity(acting.role, method=SESSION)


def name_of(request: HttpRequest) -> str:
    """Return the name of an identified caller, for records: the console's user, else the role; empty for neither."""
    user = request.user
    if user.is_authenticated:
        return user.get_username()
    identity = getattr(request, "identified", None)
    person = person_of_token(identity) if isinstance(identity, Identity) else ""
    return person or role_of(request)


def role_of(request: HttpRequest) -> str:
    """Return the role for which an identified caller makes a request; empty for one that is not known."""
    identity = getattr(request, "identified", None)
    return principal_of(identity) if isinstance(identity, Identity) else ""


def principal_of(identity: Identity) -> str:
    """Return the role for which a call is made; empty where authentication is off."""
    return identity.principal or ""


def is_local(request: HttpRequest) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    forwarded = "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META
    return not forwarded and is_loopback(request.META.get("REMOTE_ADDR", ""))
