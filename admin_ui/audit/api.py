"""REST of the audit log."""

from collections.abc import AsyncIterator

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from admin_ui.audit import selectors, shapes
from admin_ui.audit.entry_search import (
    METHODS,
    ORDER,
    STATUS_CLASSES,
    Search,
    all_of,
    search,
)
from admin_ui.audit.verifying import verify
from admin_ui.calls import WINDOW, Call, ClusterView, ConsoleView, Parameter, in_thread, query
from admin_ui.place import PLACE, SEE_PLACE, place_of
from admin_ui.rights import parts_of
from engine.auth.rights import SUPERUSER
from gateway.http.bodies import json_answer

TIMES = (
    Parameter("from", "milliseconds since the epoch", int),
    Parameter("to", "as from; entries of this time included", int),
)
FILTERS = (
    Parameter("q", "part of path or query, in any case"),
    Parameter("actor", "exact"),
    Parameter("role", "exact"),
    Parameter("operation", "id of a call of this document, or method and path of REST; exact"),
    Parameter("method", enum=METHODS),
    Parameter("status", f"a number, {', '.join(STATUS_CLASSES)}, or unknown: no outcome was seen"),
    Parameter("cluster", "exact"),
    Parameter("tenant", "exact; with all that is in it"),
    Parameter("namespace", "full name; with all that is in it"),
    Parameter("topic", "full name"),
    *TIMES,
)
UNTIL = Parameter(
    "until_id",
    "entries up to this id: the one of the first window's answer; default the newest",
    int,
)


class AuditView(ConsoleView):
    """The entries of the audit log."""

    read_rights = SUPERUSER
    calls = {
        "get": Call(
            "listAudit",
            shapes.AuditAnswer,
            (*FILTERS, UNTIL, ORDER.parameter, *WINDOW),
            errors=(400, 403),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await selectors.entries(self.viewer, query(request)))


class AuditEntryView(ConsoleView):
    """One entry of the audit log."""

    read_rights = SUPERUSER
    calls = {
        "get": Call(
            "getAuditEntry",
            shapes.AuditRow,
            (Parameter("entry_id", place="path", kind=int),),
            errors=(403, 404),
        )
    }

    async def get(self, request: HttpRequest, entry_id: int) -> HttpResponse:
        return json_answer(await selectors.entry(self.viewer, entry_id))


class AuditVerificationView(ConsoleView):
    """A verification of the whole audit log by its chain of hashes, as it is at one moment."""

    read_rights = SUPERUSER
    calls = {"get": Call("verifyAudit", shapes.AuditVerification, errors=(403,))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        self.viewer.require_everything(selectors.SUBJECT)
        return json_answer(selectors.verification(self.viewer, await in_thread(verify)()))


class AuditFileView(ConsoleView):
    """All entries that pass the filters as CSV, newest first."""

    read_rights = SUPERUSER
    calls = {"get": Call("exportAudit", None, FILTERS, errors=(400, 403), file="text/csv")}

    async def get(self, request: HttpRequest) -> HttpResponseBase:
        self.viewer.require_everything(selectors.SUBJECT)
        result = await search(query(request))
        answer = StreamingHttpResponse(self._pieces(result), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="audit.csv"'
        return answer

    async def _pieces(self, result: Search) -> AsyncIterator[bytes]:
        yield selectors.CSV_HEAD.encode()
        async for chunk in all_of(result.entries):
            yield selectors.csv_of(self.viewer, chunk)


class MarksView(ClusterView):
    """The changes of a place in a time, as marks for charts: without bodies, for each who may see the place."""

    read_rights = SEE_PLACE
    calls = {"get": Call("listMarks", shapes.ChangeMarks, (*PLACE, *TIMES), errors=(400, 403, 412))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        place = parts_of(place_of(params))
        return json_answer(await selectors.marks(self.viewer, self.cluster.name, place, params))
