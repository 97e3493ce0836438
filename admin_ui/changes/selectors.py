"""Change sets in the shapes of the console API, and the objects that a filter chooses."""

from collections import Counter

from django.db.models import Q

from admin_ui.changes import services
from admin_ui.changes.change_kinds import KINDS
from admin_ui.confirming import Json
from admin_ui.lists.record_order import RecordOrder, with_values
from admin_ui.models import ChangeItem, ChangeSet, ChangeState, ItemState
from admin_ui.params import Params, window
from admin_ui.subscriptions import all_subscriptions
from admin_ui.topics import selectors as topics
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField, Unprocessable
from engine.base.names import SYSTEM_PREFIX, split_topic
from gateway.clusters.cluster import Cluster


async def chosen_objects(
    viewer: Viewer, cluster: Cluster, kind: str, query: Params
) -> list[tuple[str, str]]:
    """Return the topics, or topics and subscriptions, that are seen and pass the filter of their list. Raises
    InvalidField, and Unprocessable for none or too many."""
    snapshot = await cluster.collector.snapshot()
    if KINDS[kind].of == "topics":
        if query.get("late"):
            raise InvalidField("query", "late is a filter of subscriptions")
        names = snapshot.select(viewer, topics.chosen_of(query)).names()
        chosen = [(name, "") for name in names]
    else:
        selection = snapshot.select_subscriptions(viewer, all_subscriptions.chosen_of(query))
        pairs = (key.partition("\n") for key in selection.names())
        chosen = [(topic, title) for topic, _, title in pairs]
    chosen = [(topic, title) for topic, title in chosen if not _is_system(topic)]
    if not chosen:
        raise Unprocessable(f"No {KINDS[kind].of} match the filter")
    if len(chosen) > services.OBJECTS_MAX:
        raise Unprocessable(
            f"{len(chosen)} {KINDS[kind].of} match the filter, and a change set has at most"
            f" {services.OBJECTS_MAX}: narrow the filter"
        )
    return chosen


def _is_system(topic: str) -> bool:
    """Return whether a topic belongs to the cluster itself: a filter does not choose it."""
    return split_topic(topic).topic.startswith(SYSTEM_PREFIX)


def row(known: ChangeSet, counts: Counter[str]) -> Json:
    """Return a change set as JSON."""
    return {
        **{name: getattr(known, name) for name in ("id", "cluster", "kind", "arguments")},
        **{name: getattr(known, name) for name in ("state", "created_by", "role", "digest")},
        **{name: getattr(known, name) for name in ("created_at", "planned_at", "confirmed_at")},
        "of": KINDS[known.kind].of,
        "query": known.query,
        "waiting": known.state in services.OPEN and not known.lease_until_ms,
        "stopping": known.stop_requested and known.state == ChangeState.RUNNING,
        "ended_at": known.ended_at,
        "total": sum(counts.values()),
        "counts": {state.value: counts[state.value] for state in ItemState},
    }


def detail(known: ChangeSet) -> Json:
    """Return a change set with the sums of its effects. Reads the database."""
    return row(known, services.counts([known.id])[known.id]) | {"totals": services.totals(known)}


ORDER = RecordOrder(
    {name: name for name in ("created_at", "kind", "state", "created_by")}, "-created_at"
)
ITEM_ORDER = RecordOrder({"place": "pk", "topic": "topic", "state": "state"}, "place")


def listed(cluster: str, role: str | None, params: Params) -> Json:
    """Return a window of the change sets of a cluster; those of ``role`` alone unless it is None. Raises
    InvalidField."""
    (offset, limit), sort = window(params), ORDER.sort_of(params)
    rows = ChangeSet.objects.filter(cluster=cluster)
    rows = with_values(rows, params, {"state": ChangeState.values, "kind": KINDS})
    if role is not None:
        rows = rows.filter(role=role)
    page = ORDER.window(rows, sort, offset, limit)
    counts = services.counts([known.id for known in page])
    head = {"total": rows.count(), "offset": offset, "limit": limit}
    return {**head, "rows": [row(known, counts[known.id]) for known in page]}


def items(set_id: str, params: Params) -> Json:
    """Return a window of the objects of a set. Raises InvalidField."""
    (offset, limit), sort = window(params), ITEM_ORDER.sort_of(params)
    rows = ChangeItem.objects.filter(change_set=set_id)
    rows = with_values(rows, params, {"state": ItemState.values})
    if q := params.get("q"):
        rows = rows.filter(Q(topic__icontains=q) | Q(subscription__icontains=q))
    names = ("topic", "subscription", "state", "effect", "result", "reason")
    page = ITEM_ORDER.window(rows.values(*names), sort, offset, limit)
    return {"total": rows.count(), "offset": offset, "limit": limit, "rows": page}
