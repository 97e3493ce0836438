"""Who changed what, when, and how it ended: one durable entry per changing call.

The entry is committed before the call is handled and completed before its answer leaves (``audit_writer``). When it
cannot be written, the change does not happen; when its outcome cannot be, the answer is told all the same.
"""

import json
import re
import time
from collections.abc import Awaitable, Callable

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from admin_ui.audit.audit_writer import NotRecordedError, writer
from admin_ui.models import AuditEntry

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
AUDITED = ("/admin/", "/api/", "/topics/")
_QUESTION = re.compile(r"/admin/v2/schemas/.+/(compatibility|version)")
_PREVIEWABLE = re.compile(r"/api/v1/clusters/[^/]+/topics/.+/(skip-all|skip|reset|undo)")
_REFUSAL = "The audit log cannot be written, so the change was not made; see the gateway's log"


def is_change(request: HttpRequest) -> bool:
    """Whether the call may change something. A preview of a cursor change is a question, not a change, and so is one
    about a candidate for a schema."""
    if request.method not in CHANGING or not request.path_info.startswith(AUDITED):
        return False
    if _QUESTION.fullmatch(request.path_info) is not None:
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
        actor=actor[:255],
        address=(request.META.get("REMOTE_ADDR") or "")[:64],
        method=request.method or "",
        target=str(getattr(request, "original_target", request.path))[:4096],
    )


class Recorder:
    """Django middleware, asynchronous only; needs the authentication middleware before it."""

    sync_capable = False
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        markcoroutinefunction(self)
        self._get_response = get_response

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_change(request):
            return await self._get_response(request)
        user = await request.auser()
        entry = entry_for(request, user.get_username() if user.is_authenticated else "anonymous")
        try:
            await writer().begin(entry)
        except NotRecordedError:
            return JsonResponse({"reason": _REFUSAL}, status=503)
        answer = await self._get_response(request)
        await writer().end(entry, answer.status_code)
        return answer
