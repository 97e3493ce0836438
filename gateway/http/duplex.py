"""Middleware written once and run in both of Django's modes, so that no request pays an extra thread hop for it."""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

Answer = HttpResponseBase
Before = Callable[[HttpRequest], Answer | None]
After = Callable[[HttpRequest, Answer], Answer]


def middleware(*, before: Before | None = None, after: After | None = None) -> Any:
    """A Django middleware factory: ``before`` may answer itself by returning a response, ``after`` sees every
    response. Neither may block."""

    def factory(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
        if iscoroutinefunction(get_response):
            return _Asynchronous(get_response, before, after)

        def synchronous(request: HttpRequest) -> Answer:
            answer = before(request) if before is not None else None
            if answer is None:
                answer = get_response(request)
            return after(request, answer) if after is not None else answer

        return synchronous

    factory.sync_capable = True  # type: ignore[attr-defined]
    factory.async_capable = True  # type: ignore[attr-defined]
    return factory


class _Asynchronous:
    def __init__(
        self,
        get_response: Callable[[HttpRequest], Awaitable[Answer]],
        before: Before | None,
        after: After | None,
    ) -> None:
        markcoroutinefunction(self)
        self._get_response = get_response
        self._before = before
        self._after = after

    async def __call__(self, request: HttpRequest) -> Answer:
        answer = self._before(request) if self._before is not None else None
        if answer is None:
            answer = await self._get_response(request)
        return self._after(request, answer) if self._after is not None else answer
