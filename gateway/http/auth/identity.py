"""The user of a request. Without a session cookie it is anonymous and the database is not read; else it is the user
that Django's own middleware finds."""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.authentication import SessionAuthentication

ANONYMOUS = AnonymousUser()
_BY_SESSION = SessionAuthentication()


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
        if "HTTP_COOKIE" in request.META and settings.SESSION_COOKIE_NAME in request.COOKIES:
            answer: HttpResponseBase = await self._by_session(request)
            return answer
        request.user = ANONYMOUS
        request.auser = _anonymous
        return await self._get_response(request)


async def identify(request: HttpRequest) -> Any:
    """Return the request's user and set it as ``request.user``; an inactive user is anonymous.

    Raises PermissionDenied for a change in a session without its CSRF token.
    """
    user: Any = await request.auser()
    if user.is_active:
        _BY_SESSION.enforce_csrf(request)  # type: ignore[arg-type]
    else:
        user = ANONYMOUS
    request.user = user
    return user
