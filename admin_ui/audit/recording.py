"""Who changed what, when, and how it ended: one durable entry per changing call.

The entry is committed before the call is handled and completed before its answer leaves. When it cannot be written,
the change does not happen.
"""

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from admin_ui.calls import actor_of
from admin_ui.models import AuditEntry

log = logging.getLogger(__name__)

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
AUDITED = ("/admin/", "/api/", "/topics/")
_PREVIEWABLE = re.compile(r"/api/v1/clusters/[^/]+/topics/.+/(skip-all|skip|reset)")
_REFUSAL = "The audit log cannot be written, so the change was not made; see the gateway's log"


def is_change(request: HttpRequest) -> bool:
    """Whether the call may change something. A preview of a cursor change is a question, not a change."""
    if request.method not in CHANGING or not request.path_info.startswith(AUDITED):
        return False
    if _PREVIEWABLE.fullmatch(request.path_info) is None:
        return True
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(body, dict) and body.get("preview") is True)


def entry_for(request: HttpRequest, actor: str) -> AuditEntry:
    """The entry of a call that is about to be handled, not saved yet."""
    return AuditEntry(
        at_ms=time.time_ns() // 1_000_000,
        actor=actor,
        address=request.META.get("REMOTE_ADDR") or "",
        method=request.method or "",
        target=str(getattr(request, "original_target", request.path))[:4096],
    )


def _refuse(error: DatabaseError) -> HttpResponseBase:
    log.error("audit entry not written error=%r", error)
    return JsonResponse({"reason": _REFUSAL}, status=503)


class _Recorder:
    """The asynchronous half: the database is reached through Django's own threads."""

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        markcoroutinefunction(self)
        self._get_response = get_response

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_change(request):
            return await self._get_response(request)
        user = await request.auser()
        entry = entry_for(request, user.get_username() if user.is_authenticated else "anonymous")
        try:
            await entry.asave(force_insert=True)
        except DatabaseError as error:
            return _refuse(error)
        answer = await self._get_response(request)
        await AuditEntry.objects.filter(pk=entry.pk).aupdate(status=answer.status_code)
        return answer


@sync_and_async_middleware
def record_changes(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Django middleware; needs the authentication middleware before it."""
    if iscoroutinefunction(get_response):
        return _Recorder(get_response)

    def synchronous(request: HttpRequest) -> HttpResponseBase:
        if not is_change(request):
            return get_response(request)  # type: ignore[no-any-return]
        entry = entry_for(request, actor_of(request))
        try:
            entry.save(force_insert=True)
        except DatabaseError as error:
            return _refuse(error)
        answer: HttpResponseBase = get_response(request)
        AuditEntry.objects.filter(pk=entry.pk).update(status=answer.status_code)
        return answer

    return synchronous
