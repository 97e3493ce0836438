"""Django as an ASGI application on the loop that holds the engine link: no thread, no signal, no task for a request
that only reads.

What Django's own handler does besides is left out because nothing here asks for it: a context of threads and the
signals ``request_started`` and ``request_finished`` for synchronous database code (the database is reached through
asynchronous calls only), a temporary file for the body, a task that waits for the client to leave. Middleware and
URL resolver are Django's. All views are coroutines.
"""

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from engine.base.errors import InvalidField
from engine.base.tasks import TaskScope
from gateway.http import errors
from gateway.http.exchange import (
    ClientGoneError,
    EncodedBodyError,
    Receive,
    Send,
    SlowBodyError,
    read_body,
    send_answer,
)
from gateway.http.security import SAFE_METHODS

WATCH_AFTER_S = 0.5
"""A request that only reads and takes longer is given up when its client leaves; most are over before."""


class Request(ASGIRequest):
    """``refusal``: why it is answered with an error before any view sees it."""

    def __init__(self, scope: dict[str, Any], body: bytes, refusal: Exception | None) -> None:
        super().__init__(scope, BytesIO(body))
        self._body = body
        self.refusal = refusal


class Handler(BaseHandler):
    """The ASGI application for HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=True)
        self._tasks = TaskScope("http")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            request = await _received(scope, receive)
        except ClientGoneError:
            return
        if request.method in SAFE_METHODS:
            await self._watched(request, receive, send)
        else:
            # In a task of its own: a change that has begun is finished and audited, whatever the server does to this.
            change = self._tasks.spawn("change", self._answered(request))
            await send_answer(await asyncio.shield(change), send, head=False)

    async def _answered(self, request: HttpRequest) -> HttpResponseBase:
        chain: Callable[[HttpRequest], Awaitable[HttpResponseBase]] = self._middleware_chain  # type: ignore[attr-defined]
        return await chain(request)

    async def _watched(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        """Answer a request that changes nothing, until its client leaves."""
        task = asyncio.current_task()
        assert task is not None
        left = False

        async def watch() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            left = task.cancel()

        watcher: asyncio.Task[None] | None = None

        def begin() -> None:
            nonlocal watcher
            watcher = self._tasks.spawn("watch", watch())

        timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, begin)
        try:
            answer = await self._answered(request)
            await send_answer(answer, send, head=request.method == "HEAD")
        except asyncio.CancelledError:
            if not left:
                raise
            task.uncancel()
        finally:
            timer.cancel()
            if watcher is not None:
                watcher.cancel()

    async def _get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """What the innermost middleware calls: the view's answer, or that to what it raised."""
        try:
            refusal = getattr(request, "refusal", None)
            if refusal is not None:
                raise refusal
            view, arguments, named = request.resolver_match or self.resolve_request(request)
            answer: HttpResponseBase = await view(request, *arguments, **named)
            return answer
        except Http404 as error:
            return errors.not_found(request, error)
        except Exception as error:
            return errors.answer_failure(request, error)


async def _received(scope: dict[str, Any], receive: Receive) -> Request:
    """The request as it came; one that cannot be read carries its refusal. Raises ClientGoneError."""
    body, refusal = b"", None
    try:
        body = await read_body(scope, receive)
    except (RequestDataTooBig, SlowBodyError, EncodedBodyError) as error:
        refusal = error
    try:
        return Request(scope, body, refusal)
    except UnicodeDecodeError:
        return Request({**scope, "query_string": b""}, body, InvalidField("query", "is not UTF-8"))
