"""The private HTTP port of a server: ``POST /rpc/<operation>`` for its operations, ``/metrics``, ``/ready``.

RPC callers present the instance's internal token, or credentials of their own where authentication is on. A call is
``{"principal": …, "arguments": {…}}``; answers are ``{"result": …}``, refusals 422 with ``{"code": …, "reason": …}``;
307 with ``{"location": url, "locationTls": url}`` names the server that serves the call; the second is empty when that
has no port with TLS. A caller with the token is a process of the instance, which acts for the principal; that is empty
when the process acts for itself. Another caller names the client it acts for in ``X-Original-Principal``.
"""

import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from typing import Any

from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.auth.identity import Identity
from engine.auth.internal import (
    INTERNAL_METHOD,
    INTERNAL_ROLE,
    OTHER_TOKEN,
    TOKEN_HEADER,
    token_matches,
)
from engine.auth.judge import Judge, Verdict, judge_call
from engine.auth.rights import all_of
from engine.base.errors import Forbidden, MagnetarError, NotReady, Refusal
from engine.metadata.apart.routed import unavailable
from engine.metadata.store import SessionExpiredError, StoreUnavailableError
from engine.net.http import Request, Response, json_response, metrics_page, pages, ready_page
from engine.rpc.operation import Handlers, Operation, decode_call, only_reads, parse_arguments

log = logging.getLogger(__name__)

Identify = Callable[[Request], Identity | Awaitable[Identity]]
"""Returns the identity of the caller of a request. Raises AuthenticationFailed, RolesRefused."""
CALLER: contextvars.ContextVar[Identity] = contextvars.ContextVar("caller")
"""The identity of the caller, for a handler that needs more than the judge's verdict."""
SHOWN_BYTES_MAX = 2_000
"""Bytes after which arguments, such as a schema, are cut in the log."""


class MovedError(MagnetarError):
    """Another server is responsible for the object of the operation.

    ``location`` is its private HTTP address, ``location_tls`` that of its port with TLS; empty without one.
    """

    def __init__(self, location: str, location_tls: str = "") -> None:
        super().__init__(f"ask {location}")
        self.location = location
        self.location_tls = location_tls


class RpcPages:
    """Handler of the private port.

    ``judge`` is asked before a handler is called; the pages ``/metrics`` and ``/ready`` are open to everybody.
    ``refusal_of`` returns the refusal that an error of a handler is answered with; None for an unexpected error, which
    is answered 500. ``ready`` returns whether the server serves its clients. ``identify`` returns the identity of the
    caller of a request without the token, and raises AuthenticationFailed or RolesRefused; None where authentication is
    off. With ``guard_metrics`` it is asked for ``/metrics`` too.
    """

    def __init__(
        self,
        handlers: Handlers,
        token: str,
        judge: Judge,
        *,
        refusal_of: Callable[[MagnetarError], Refusal | None],
        ready: Callable[[], bool],
        metrics: Callable[[], AsyncIterator[bytes]],
        identify: Identify | None = None,
        guard_metrics: bool = False,
    ) -> None:
        self._handlers = handlers
        self._token = token
        self._judge = judge
        self._refusal_of = refusal_of
        self._identify = identify
        self._guard_metrics = guard_metrics
        page = metrics_page(metrics)
        readiness = ready_page(lambda: None if ready() else "not ready")
        alive = ready_page(lambda: None)
        self._pages = pages(
            {"/metrics": page, "/metrics/": page, "/ready": readiness, "/live": alive}
        )

    async def __call__(self, request: Request) -> Response:
        if request.path.startswith("/rpc/"):
            return await self._rpc(request)
        if (
            self._identify is not None
            and self._guard_metrics
            and request.path.startswith("/metrics")
        ):
            try:
                await self._caller(self._identify, request)
            except (AuthenticationFailed, RolesRefused) as error:
                return json_response(401, {"reason": str(error)})
        return await self._pages(request)

    async def _rpc(self, request: Request) -> Response:
        offered = request.headers.get(TOKEN_HEADER.lower())
        caller: Identity | None = None
        if self._identify is not None and offered is None:
            try:
                caller = await self._caller(self._identify, request)
            except (AuthenticationFailed, RolesRefused) as error:
                return json_response(401, {"reason": str(error)})
        elif not token_matches(self._token, offered):
            return json_response(401, {"reason": OTHER_TOKEN})
        name = request.path.removeprefix("/rpc/")
        bound = self._handlers.get(name)
        if bound is None:
            return json_response(404, {"reason": f"Unknown operation {name[:80]}"})
        if request.method != "POST":
            return json_response(405, {"reason": "Operations are called by POST"})
        try:
            principal, given = decode_call(request.body)
        except ValueError:
            return json_response(400, {"reason": "not a call in JSON"})
        if caller is None:
            caller = Identity(INTERNAL_ROLE, original=principal or None, method=INTERNAL_METHOD)
        elif principal and principal != caller.principal:
            return json_response(401, {"reason": "the call is for another principal"})
        operation, do = bound
        try:
            args = parse_arguments(operation.arguments, given)
            level = logging.DEBUG if only_reads(operation, args) else logging.INFO
            shown: object = _shown(operation, given)
            if len(request.body) > SHOWN_BYTES_MAX:
                shown = str(shown)[:SHOWN_BYTES_MAX]
            log.log(level, "%s by=%r args=%s", name, principal, shown)
            await self._authorize(operation, caller, args)
            CALLER.set(caller)
            return json_response(200, {"result": await do(args)})
        except MovedError as error:
            places = {"location": error.location, "locationTls": error.location_tls}
            return json_response(307, places)
        except Refusal as error:
            return _refused(error)
        except (StoreUnavailableError, SessionExpiredError) as error:
            return _refused(NotReady(unavailable(error)))
        except MagnetarError as error:
            refusal = self._refusal_of(error)
            if refusal is None:
                raise
            return _refused(refusal)

    @staticmethod
    async def _caller(identify: Identify, request: Request) -> Identity:
        """Return the identity of a caller without the token. Raises AuthenticationFailed, RolesRefused."""
        identity = identify(request)
        return await identity if isawaitable(identity) else identity

    async def _authorize(self, operation: Operation[Any, Any], caller: Identity, args: Any) -> None:
        """Check that the caller has the rights of the operation (A4), before its handler reads anything.

        Raises Forbidden, and NotReady while the judge cannot know.
        """
        try:
            judgement = judge_call(self._judge, caller, all_of(operation.rights), args)
            verdict = judgement if isinstance(judgement, Verdict) else await judgement
        except MagnetarError as error:
            raise NotReady(f"Not known whether this is allowed: {error}") from error
        if not verdict.allowed:
            raise Forbidden(verdict.reason)


def _shown(operation: Operation[Any, Any], given: object) -> object:
    """Return parsed arguments as the log shows them."""
    if not operation.unlogged or not isinstance(given, dict):
        return given
    return {name: "…" if name in operation.unlogged else value for name, value in given.items()}


def _refused(refusal: Refusal) -> Response:
    return json_response(422, {"code": refusal.code, "reason": refusal.reason})
