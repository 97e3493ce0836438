"""The list of all subscriptions of a cluster, in the shapes of the console API."""

from admin_ui.params import LIMIT_MAX, Params, list_choice, window
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText, KeptTexts, text_of
from gateway.services.collection.snapshot import Snapshot
from gateway.services.index.rows import KNOWN, parts_of
from gateway.services.index.selection import Chosen
from gateway.services.subscriptions.subscription_index import ListedSubscription
from gateway.services.subscriptions.subscription_selection import FIELDS


def chosen_of(params: Params) -> Chosen:
    """Return the filter and order of a list request. Raises InvalidField."""
    late = params.get("late", "")
    if late not in ("", "true"):
        raise InvalidField("late", "must be true")
    return list_choice(params, FIELDS, "-oldest_age")._replace(late=late == "true")


def _row_texts(cluster: Cluster) -> KeptTexts:
    return KeptTexts()


async def subscriptions(
    viewer: Viewer, cluster: Cluster, params: Params, *, limit_max: int = LIMIT_MAX
) -> JsonText:
    """Return a window of the list of subscriptions that are seen. ``params`` as in ``api.FILTERS``. Raises
    InvalidField."""
    offset, limit = window(params, limit_max)
    chosen = chosen_of(params)
    snapshot = await cluster.collector.snapshot()
    selection = snapshot.select_subscriptions(viewer, chosen)
    keys = selection.names(offset, offset + limit)
    totals = snapshot.topics.sums.totals(viewer)
    texts = cluster.part(_row_texts)
    rows = [row for key in keys if (row := row_text(snapshot, texts, key)) is not None]
    at, counts = snapshot.at, f'"total":{len(selection)},"unread_topics":{int(totals["unknown"])}'
    head = f'{counts},"offset":{offset},"limit":{limit},"rows":'
    text = ",".join([row + end for row, end in rows])
    return JsonText(at, f'{{"at":{at},{head}[{text}]}}', (head, [row for row, _ in rows]))


def row_text(snapshot: Snapshot, texts: KeptTexts, key: str) -> tuple[str, str] | None:
    """Return a row of the list as JSON without its end, a text that is the same object until something changes, and the
    end, which is its time; None when the subscription does not exist any more."""
    listed = snapshot.subscriptions.get(key)
    if listed is None or listed.topic not in snapshot.topics:
        return None
    (_, _, _, loaded, known), at = snapshot.topics.content_of(listed.topic, snapshot.taken)
    problem = snapshot.attention.cause_of_subscription(key)
    if listed.values[0] is None and KNOWN[known] != "last":
        known = KNOWN.index("no")
    made_of = (listed.kind, listed.values, loaded, known, problem)
    text = texts.text(key, made_of, lambda: _written(listed, loaded, known, problem))
    return text, f',"at":{at}}}'


def _written(
    listed: ListedSubscription, loaded: bool | None, known: int, problem: tuple[str, str] | None
) -> str:
    row = listed.row()
    shown = {
        **row,
        "name": row.pop("topic"),
        **parts_of(listed.topic),
        "loaded": loaded,
        "known": KNOWN[known],
        "attention": problem and {"severity": problem[0], "cause": problem[1]},
    }
    return text_of(shown)[:-1]
