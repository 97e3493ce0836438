"""Reading of the audit log."""

from typing import Any

from django.db.models import Q

from admin_ui.audit.changed import read_changes
from admin_ui.audit.entry_search import COUNTED_MAX, ORDER, Search, count, newest_id, search
from admin_ui.audit.verifying import Report
from admin_ui.calls import in_thread
from admin_ui.csv_text import csv_line
from admin_ui.models import AuditEntry
from admin_ui.params import LIMIT_DEFAULT, LIMIT_MAX, Params, number
from engine.admin.api.arguments import LONG_MAX
from engine.auth.viewer import Viewer
from engine.base.errors import NotFound

SUBJECT = "Audit entries"
NAMES = (
    *("actor", "role", "address", "method", "operation", "target", "cluster", "tenant"),
    *("namespace", "topic", "status", "request_id", "given"),
)
CSV_HEAD = csv_line(("id", "at", *NAMES, "changes"))
MARKS_MAX = 500
Body = dict[str, Any]


async def entries(viewer: Viewer, params: Params) -> Body:
    """Return a window of the entries that pass the filters. Raises InvalidField, and Forbidden unless the viewer sees
    everything."""
    viewer.require_everything(SUBJECT)
    offset = number(params, "offset", 0, 0, COUNTED_MAX)
    limit = number(params, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
    sort = ORDER.sort_of(params)
    # Each window is of the entries up to an id: those that are added meanwhile would shift its rows.
    newest = await newest_id()
    until_id = min(number(params, "until_id", newest, 0, LONG_MAX), newest)
    result = await search(params, sort=sort, until_id=until_id)
    listed = await in_thread(ORDER.window)(result.entries, sort, offset, limit)
    rows = [_row(entry) for entry in listed]
    total, exact = len(rows), True
    if offset or len(rows) == limit:
        total, exact = await count(result.entries)
    return {
        "total": total,
        "exact": exact,
        "searched_since": await _searched_since(result),
        "until_id": str(until_id),
        "offset": offset,
        "limit": limit,
        "rows": rows,
    }


async def _searched_since(result: Search) -> int | None:
    if not result.above_id:
        return None
    oldest = AuditEntry.objects.filter(id__lte=result.above_id).order_by("-id")
    at: int | None = await oldest.values_list("at_ms", flat=True).afirst()
    return at


async def entry(viewer: Viewer, key: int) -> Body:
    """Return one entry. Raises NotFound, and Forbidden unless the viewer sees everything."""
    viewer.require_everything(SUBJECT)
    stored = await AuditEntry.objects.filter(pk=key).afirst()
    if stored is None:
        raise NotFound(f"There is no audit entry {key} (any more)")
    return _row(stored)


def _row(stored: AuditEntry) -> Body:
    return {
        "id": str(stored.pk),
        "at": stored.at_ms,
        **{name: getattr(stored, name) for name in NAMES},
        "changes": read_changes(stored.changes),
    }


def verification(viewer: Viewer, report: Report) -> Body:
    """Return the result of a verification. Raises Forbidden unless the viewer sees everything."""
    viewer.require_everything(SUBJECT)
    return {
        "problem": report.problem,
        "entry_id": str(report.entry_id) if report.entry_id else None,
        "entries": report.entries,
        "removed_to": str(report.removed_id) if report.removed_id else None,
        "link": {"number": report.seq, "digest": report.digest},
    }


def csv_of(viewer: Viewer, chunk: list[AuditEntry]) -> bytes:
    """Return entries as lines of CSV."""
    viewer.require_everything(SUBJECT)
    return "".join(
        csv_line((item.pk, item.at_ms, *(getattr(item, name) for name in NAMES), item.changes))
        for item in chunk
    ).encode()


async def marks(viewer: Viewer, cluster: str, place: dict[str, str], params: Params) -> Body:
    """Return the changes that were made of a place, which the caller may see, in a time. Raises InvalidField."""
    given = {key: params[key] for key in ("from", "to") if params.get(key)}
    namespace = f"{place['tenant']}/{place['namespace']}" if place["namespace"] else ""
    if place["topic"]:
        result = await search(given | {"topic": place["topic"]})
    else:
        # Not of what is in the place: a namespace has the entries without a topic.
        exactly = Q(tenant=place["tenant"], namespace=namespace, topic="")
        result = await search(given, exactly)
    made = result.entries.filter(cluster=cluster, answered__lt=400).exclude(method="GET")
    rows = [item async for item in made[: MARKS_MAX + 1]]
    administers = viewer.everything or place["tenant"] in viewer.tenants
    return {
        "complete": len(rows) <= MARKS_MAX and not result.above_id,
        "rows": [
            {
                "at": item.at_ms,
                "operation": item.operation,
                "method": item.method,
                "status": item.status,
                "actor": item.actor if administers else "",
                "id": str(item.pk) if viewer.everything else "",
            }
            for item in reversed(rows[:MARKS_MAX])
        ],
    }
