"""REST of the audit log."""

from django.http import HttpRequest, HttpResponse

from admin_ui.audit import shapes
from admin_ui.audit.changed import read_changes
from admin_ui.calls import WINDOW, Call, ConsoleView, Parameter, query
from admin_ui.models import AuditEntry
from admin_ui.params import window
from engine.auth.rights import SUPERUSER
from gateway.http.bodies import json_answer


class AuditView(ConsoleView):
    """The entries of the audit log, newest first."""

    read_rights = SUPERUSER
    calls = {
        "get": Call(
            "listAudit",
            shapes.AuditAnswer,
            (Parameter("q", "part of the target"), Parameter("actor", "exact"), *WINDOW),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        offset, limit = window(params)
        self.viewer.require_everything("Audit entries")
        entries = AuditEntry.objects.all()
        if params.get("q"):
            entries = entries.filter(target__icontains=params["q"])
        if params.get("actor"):
            entries = entries.filter(actor=params["actor"])
        rows = [
            {
                "id": str(entry.pk),
                "at": entry.at_ms,
                "actor": entry.actor,
                "address": entry.address,
                "method": entry.method,
                "target": entry.target,
                "status": entry.status,
                "request_id": entry.request_id,
                "given": entry.given,
                "changes": read_changes(entry.changes),
            }
            async for entry in entries[offset : offset + limit]
        ]
        return json_answer(
            {"total": await entries.acount(), "offset": offset, "limit": limit, "rows": rows}
        )
