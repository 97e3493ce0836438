"""One durable audit entry per changing call: its user, its time, and its outcome.

The entry is committed before the call is handled and completed before its answer is sent (``audit_writer``). It then
has the status, and the values before and after of all changes (``changed``). A refused call is recorded like any other,
with its status and no changes. When the entry cannot be written, the change is not made. When its outcome cannot be
written, the answer is sent nevertheless.
"""

import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import PermissionDenied

from admin_ui.audit.audit_writer import AuditWriter, NotRecordedError
from admin_ui.audit.changed import changes_text, given_query, given_text
from admin_ui.audit.subject import operation_of, subject_of, subject_of_socket
from admin_ui.models import AuditEntry
from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.auth.identity import Identity
from engine.auth.resource_names import Resource
from engine.base.errors import NotReady
from engine.metadata import account
from gateway.clusters.registry import clusters_for, clusters_of
from gateway.http.auth.identity import SESSION, identify, name_of, principal_of, role_of
from gateway.http.auth.levels import level_of
from gateway.http.auth.payloads import is_ruled, reveals
from gateway.http.view import CHANGING_METHODS, view_of
from gateway.services.clock import now_ms

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[\w.:/+=-]{1,64}", re.ASCII)
SOCKET = "WebSocket"
"""Operation of the entry of a socket."""
SWITCHING = 101
_REFUSAL = "The audit log cannot be written, so the change was not made; see the gateway's log"


def is_change(request: HttpRequest) -> bool:
    """Return whether the call may change something, as its view declares. A call without a view is a change when its
    method is a changing one."""
    view = view_of(request)
    return view.may_change(request) if view is not None else request.method in CHANGING_METHODS


async def is_reveal(request: HttpRequest) -> bool:
    """Return whether the call shows a person payloads of messages."""
    view = view_of(request) if may_reveal(request) else None
    if view is None or not reveals(view, request.method or ""):
        return False
    try:
        identity = await identify(request)
    except (AuthenticationFailed, RolesRefused, PermissionDenied):
        return False
    return is_ruled(identity, level_of(request))


def may_reveal(request: HttpRequest) -> bool:
    """Return whether the path is below those of the interfaces; a page or a file is not resolved for this."""
    return request.path_info.startswith(("/admin/", "/api/", "/clusters/"))


def entry_for(request: HttpRequest, actor: str) -> AuditEntry:
    """Return the entry of a call that is about to be handled; it is not saved yet."""
    path = str(getattr(request, "original_target", request.path))
    query = given_query(request.META.get("QUERY_STRING") or "")
    view = view_of(request)
    return AuditEntry(
        at_ms=now_ms(),
        actor=actor[:255],
        address=(request.META.get("REMOTE_ADDR") or "")[:64],
        method=request.method or "",
        target=f"{path}?{query}"[:4096] if query else path[:4096],
        request_id=request_id_of(request),
        given=given_text(request.body) if view is not None and view.keeps_body else "",
        role=role_of(request)[:255],
        operation=operation_of(request)[:255],
        **subject_of(request)._asdict(),
    )


def request_id_of(request: HttpRequest) -> str:
    """Return the caller's own request id when it can be stored and searched for, else a new one."""
    request_id = request.headers.get("X-Request-Id", "")
    return request_id if _REQUEST_ID.fullmatch(request_id) else uuid.uuid4().hex[:16]


class AuditRecorder:
    """Django middleware, asynchronous only; it needs the authentication middleware before it."""

    sync_capable = False
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        markcoroutinefunction(self)
        self._get_response = get_response

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if await is_reveal(request):
            return await self._handle_recorded(request)
        if request.method not in CHANGING_METHODS:
            answer = await self._get_response(request)
            if getattr(request, "recorded", False):
                await self._record_after(request, answer)
            return answer
        if not is_change(request):
            return await self._handle_read(request)
        return await self._handle_recorded(request)

    async def _handle_recorded(self, request: HttpRequest) -> HttpResponseBase:
        """Return the answer to a call that is recorded before it is handled."""
        try:
            entry = await _entry_of(request)
        except (AuthenticationFailed, RolesRefused):
            # Callers that are not known must not push entries out of the log.
            return await self._get_response(request)
        writer = clusters_for(request).part(AuditWriter)
        try:
            await writer.begin(entry)
        except NotRecordedError:
            return JsonResponse({"reason": _REFUSAL}, status=503)
        request.audit_id = entry.request_id  # type: ignore[attr-defined]
        with account.opened() as accounted:
            answer = await self._get_response(request)
        await writer.end(entry, answer.status_code, changes_text(accounted))
        answer["X-Request-Id"] = entry.request_id
        return answer

    async def _handle_read(self, request: HttpRequest) -> HttpResponseBase:
        """Return the answer to a call that declares that it only reads. If it changed something, that is a bug: the
        change is recorded afterwards and logged. A call whose view has set ``request.recorded`` is recorded, too."""
        with account.opened() as accounted:
            answer = await self._get_response(request)
        if accounted.changes or getattr(request, "recorded", False):
            if accounted.changes:
                log.error(
                    "a call that is declared as a read changed something path=%s", request.path
                )
            await self._record_after(request, answer, changes_text(accounted))
        return answer

    async def _record_after(
        self, request: HttpRequest, answer: HttpResponseBase, changes: str = ""
    ) -> None:
        """Record a call that was handled; it stands also when it cannot be recorded."""
        entry = await _entry_of(request)
        with suppress(NotRecordedError):
            writer = clusters_for(request).part(AuditWriter)
            await writer.begin(entry)
            await writer.end(entry, answer.status_code, changes)


async def record_socket(
    scope: dict[str, Any], identity: Identity, cluster: str, resources: Sequence[Resource]
) -> None:
    """Record a socket that is about to show a person payloads. Raises NotReady when it cannot be recorded."""
    user, client = scope.get("user"), scope.get("client") or ("",)
    query = given_query(scope["query_string"].decode("latin-1"))
    path = scope["path"]
    role = principal_of(identity)
    is_person = user is not None and user.is_authenticated and identity.method == SESSION
    entry = AuditEntry(
        at_ms=now_ms(),
        actor=(user.get_username() if user is not None and is_person else role)[:255],
        address=str(client[0])[:64],
        method="GET",
        target=(f"{path}?{query}" if query else path)[:4096],
        request_id=uuid.uuid4().hex[:16],
        role=role[:255],
        operation=SOCKET,
        **subject_of_socket(cluster, resources)._asdict(),
    )
    writer = clusters_of(scope).part(AuditWriter)
    try:
        await writer.begin(entry)
    except NotRecordedError as error:
        raise NotReady(_REFUSAL) from error
    await writer.end(entry, SWITCHING)


async def _entry_of(request: HttpRequest) -> AuditEntry:
    """Return the entry of a call. Raises AuthenticationFailed, RolesRefused."""
    # Without its CSRF token the caller is known, and the view refuses the call.
    with suppress(PermissionDenied):
        await identify(request)
    return entry_for(request, name_of(request) or "anonymous")
