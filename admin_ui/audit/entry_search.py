"""Search of the audit log, newest entries first or in another order.

A filter by one indexed value, or by time, finds entries of any age, as does an order by an indexed value without
filters. What an index does not find alone is searched in the newest entries, so that an answer takes about as long for
any number of entries.
"""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, ExpressionWrapper, F, Q, QuerySet

from admin_ui.audit.subject import TOPIC_CHARS_MAX
from admin_ui.lists.record_order import RecordOrder
from admin_ui.models import AuditEntry
from admin_ui.params import Params, choice, number
from gateway.http.view import CHANGING_METHODS

COUNTED_MAX = 5_000
"""Largest number of entries that are counted, and the largest offset."""
SEARCHED_MAX = 50_000
"""Entries that are searched without an index."""
SLACK_MS = 60_000
"""Longest time by which entries of several gateways may be out of order."""
TIME_MAX = 1 << 53
INDEXED = ("actor", "role", "operation", "tenant", "namespace", "topic")
"""Filters by a value that have an index in the order of the list, as a single status has."""
ORDER = RecordOrder(
    {"at": "pk", **{name: name for name in (*INDEXED, "status")}}, "-at", nullable=("status",)
)
"""Ids rise with time, but for SLACK_MS; of each other column there is an index with the id."""
BY_TIME = ("at", "-at")
STORED_CHARS = dict.fromkeys(("namespace", "topic"), TOPIC_CHARS_MAX)
STATUS_CLASSES = ("2xx", "4xx", "5xx")
UNKNOWN = "unknown"
"""Value of ``status`` for entries whose outcome was not seen."""
CHUNK = 500
METHODS = ("GET", *sorted(CHANGING_METHODS))

Entries = QuerySet[Any]
"""Entries of the log, with the annotations that hide indices."""


class Search(NamedTuple):
    """Entries that pass the filters. ``above_id``: the entries up to it were not searched; 0: all were."""

    entries: Entries
    above_id: int = 0


async def newest_id() -> int:
    """Return the id of the newest entry; 0 without any."""
    last: int | None = await _first_id(AuditEntry.objects.all(), "-id")
    return last or 0


async def search(params: Params, *more: Q, sort: str = "-at", until_id: int = 0) -> Search:
    """Return the entries that pass the filters of a request, and ``more``, to be listed in an order. ``until_id``: only
    those up to this id, which is at most the newest; 0: all. Raises InvalidField."""
    by_index = _by_index(params)
    others = [*_others(params), *more]
    # The sums hide the indices of ids, times and statuses, in which a range would not be in the order of the list.
    # Without a field Django takes the sum of times for a number of 32 bits, and finds nothing on PostgreSQL.
    at, key = (ExpressionWrapper(F(name) + 0, BigIntegerField()) for name in ("at_ms", "id"))
    listed: Entries = AuditEntry.objects.alias(at=at, key=key, answered=F("status") + 0)
    if until_id:
        listed = listed.filter(**{"id__lte" if sort in BY_TIME else "key__lte": until_id})
    entries = listed.filter(*by_index, *others)
    entries, newest = await _within(entries, params)
    is_filtered = by_index or any(params.get(name) for name in ("from", "to"))
    if not others and (len(by_index) <= 1 if sort in BY_TIME else not is_filtered):
        return Search(entries)
    last = until_id or await newest_id()
    newest = last if newest is None else min(newest, last)
    above_id = max(newest - SEARCHED_MAX, 0)
    return Search(entries.filter(id__gt=above_id), above_id)


def _by_index(params: Params) -> list[Q]:
    filters = [
        Q(**{key: params[key][: STORED_CHARS.get(key)]}) for key in INDEXED if params.get(key)
    ]
    status = params.get("status")
    if status == UNKNOWN:
        filters.append(Q(status__isnull=True))
    elif status and status not in STATUS_CLASSES:
        filters.append(Q(status=number(params, "status", 0, 100, 599)))
    return filters


def _others(params: Params) -> list[Q]:
    filters = []
    if params.get("cluster"):
        filters.append(Q(cluster=params["cluster"]))
    if method := choice(params, "method", METHODS):
        filters.append(Q(method=method))
    if (status := params.get("status", "")) in STATUS_CLASSES:
        low = int(status[0]) * 100
        filters.append(Q(answered__gte=low, answered__lt=low + 100))
    if params.get("q"):
        filters.append(Q(target__icontains=params["q"]))
    return filters


async def _within(entries: Entries, params: Params) -> tuple[Entries, int | None]:
    """Return the entries of the requested time, and the newest id that they can have, if the time is limited.

    Ids rise with time, but for SLACK_MS: the nearest entries outside it, found by the index of times, limit the ids,
    and the list stays in the order of ids.
    """
    since, until = (number(params, name, -1, 0, TIME_MAX) for name in ("from", "to"))
    newest = None
    if since >= 0:
        before = await _first_id(AuditEntry.objects.filter(at_ms__lt=since - SLACK_MS), "-at_ms")
        if before is not None:
            entries = entries.filter(id__gt=before)
        entries = entries.filter(at__gte=since)
    if until >= 0:
        after = await _first_id(AuditEntry.objects.filter(at_ms__gt=until + SLACK_MS), "at_ms")
        if after is not None:
            newest = after - 1
            entries = entries.filter(id__lte=newest)
        entries = entries.filter(at__lte=until)
    return entries, newest


async def _first_id(entries: Entries, order: str) -> int | None:
    return await entries.order_by(order).values_list("id", flat=True).afirst()


async def count(entries: Entries) -> tuple[int, bool]:
    """Return the number of entries, and whether it is exact: at most COUNTED_MAX are counted."""
    counted = await entries.order_by()[: COUNTED_MAX + 1].acount()
    return min(counted, COUNTED_MAX), counted <= COUNTED_MAX


async def all_of(entries: Entries) -> AsyncIterator[list[AuditEntry]]:
    """Yield all entries, newest first, in chunks that are read one by one."""
    below = None
    while True:
        rest = entries if below is None else entries.filter(id__lt=below)
        chunk = [entry async for entry in rest.order_by("-id")[:CHUNK]]
        if not chunk:
            return
        yield chunk
        below = chunk[-1].pk
