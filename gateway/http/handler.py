"""Django as an ASGI application on the event loop of the engine link.

A request that only reads uses no thread, no signal and no task of its own; a change runs in its own task.

Middleware and URL resolver are Django's, and all views are coroutines. Parts of Django's own handler that the gateway
does not need are left out: the thread context and the signals ``request_started`` and ``request_finished`` for
synchronous database code (the database is reached by asynchronous calls only), a temporary file for the body, and a
task that waits for the client to disconnect.
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
from gateway.http.connection import is_secure
from gateway.http.exchange import (
    ClientGoneError,
    EncodedBodyError,
    Receive,
    Send,
    SlowBodyError,
    read_body,
    send_answer,
)
from gateway.http.forms.uploads import LateBody, is_upload
from gateway.http.paths import resolve_request
from gateway.http.security import SAFE_METHODS

WATCH_AFTER_S = 0.5
"""Time from which on a reading request is cancelled when its client disconnects; most are answered earlier."""


class BufferedRequest(ASGIRequest):
    """A request with its complete body. ``refusal``: the error that answers it before any view is called.

    ``late``: the body of an upload, which its view receives; ``body`` is empty then.
    """

    late: LateBody | None = None

    def __init__(self, scope: dict[str, Any], body: bytes, refusal: Exception | None) -> None:
        super().__init__(scope, BytesIO(body))
        self._body = body
        self.refusal = refusal


class HttpHandler(BaseHandler):
    """The ASGI application for HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=True)
        self._tasks = TaskScope("http")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            request = await _receive(scope, receive)
        except ClientGoneError:
            return
        if request.method in SAFE_METHODS:
            await self._answer_watched(request, receive, send)
        else:
            # A task of its own: a change that has begun is finished and audited also when the server cancels the call.
            change = self._tasks.spawn("change", self._answer(request))
            answer = await asyncio.shield(change)
            if request.late is not None and not await request.late.drop():
                answer.headers["Connection"] = "close"
            await send_answer(answer, send, head=False, secure=is_secure(request.scope))

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        chain: Callable[[HttpRequest], Awaitable[HttpResponseBase]] = self._middleware_chain  # type: ignore[attr-defined]
        return await chain(request)

    async def _answer_watched(self, request: BufferedRequest, receive: Receive, send: Send) -> None:
        """Answer a request that changes nothing; give up when its client disconnects."""
        task = asyncio.current_task()
        assert task is not None
        client_left = False

        async def watch() -> None:
            nonlocal client_left
            while (await receive())["type"] != "http.disconnect":
                pass
            client_left = task.cancel()

        watcher: asyncio.Task[None] | None = None

        def begin() -> None:
            nonlocal watcher
            watcher = self._tasks.spawn("watch", watch())

        timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, begin)
        try:
            answer = await self._answer(request)
            head = request.method == "HEAD"
            await send_answer(answer, send, head=head, secure=is_secure(request.scope))
        except asyncio.CancelledError:
            if not client_left:
                raise
            task.uncancel()
        finally:
            timer.cancel()
            if watcher is not None:
                watcher.cancel()

    async def _get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Return the view's answer, or the answer to its exception. Called by the innermost middleware."""
        try:
            refusal = getattr(request, "refusal", None)
            if refusal is not None:
                raise refusal
            view, arguments, named = resolve_request(request)
            answer: HttpResponseBase = await view(request, *arguments, **named)
            return answer
        except Http404 as error:
            return errors.not_found(request, error)
        except Exception as error:
            return errors.answer_failure(request, error)


async def _receive(scope: dict[str, Any], receive: Receive) -> BufferedRequest:
    """Return the request; one that cannot be read carries its refusal. Raises ClientGoneError."""
    body, refusal = b"", None
    if is_upload(scope):
        request = BufferedRequest(scope, b"", None)
        request.late = LateBody(scope, receive)
        return request
    try:
        body = await read_body(scope, receive)
    except (RequestDataTooBig, SlowBodyError, EncodedBodyError) as error:
        refusal = error
    try:
        return BufferedRequest(scope, body, refusal)
    except UnicodeDecodeError:
        return BufferedRequest(
            {**scope, "query_string": b""}, body, InvalidField("query", "is not UTF-8")
        )
