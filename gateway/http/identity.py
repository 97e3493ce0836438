"""Who sends a request: nobody without a session's cookie, and then no database is asked; else the user whom Django's
own middleware finds."""

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

NOBODY = AnonymousUser()
_BY_SESSION = SessionAuthentication()


async def _nobody() -> AnonymousUser:
    return NOBODY


class Identity:
    """Django middleware, asynchronous only. After it ``await request.auser()`` is the user, and so is ``request.user``
    once that was awaited."""

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
        request.user = NOBODY
        request.auser = _nobody
        return await self._get_response(request)


async def identify(request: HttpRequest) -> Any:
    """The user, also as ``request.user`` from now on. Raises PermissionDenied for a change under a session without its
    CSRF token."""
    user: Any = await request.auser()
    if user.is_active:
        _BY_SESSION.enforce_csrf(request)  # type: ignore[arg-type]
    else:
        user = NOBODY
    request.user = user
    return user
