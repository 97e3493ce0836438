"""Evaluation of conditions over what the collector knows: the board of attention, the index of topics, the links, and
the lines of brokers and bookies.

Work of a rule is proportional to the number of objects that meet it, not to that of all: the index keeps topics in the
order of a figure, so that those beyond a threshold are the first. Pure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.auth.viewer import ALL, Viewer
from engine.base.names import PARTITION_SUFFIX
from gateway.alerts.definitions import FIGURES, SEVERITIES, Definition, RuleKind, RuleScope, amount
from gateway.services.attention.board import Board
from gateway.services.attention.findings import Figures, Findings
from gateway.services.attention.lag_items import topic_path
from gateway.services.attention.part_items import Instance, Item
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.index.rows import KNOWN, LIVE
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex
from gateway.services.subscriptions.subscription_index import SubscriptionIndex
from gateway.services.subscriptions.subscription_selection import COLUMNS as OF_SUBSCRIPTIONS

OBJECTS_MAX = 100
"""Bound on the objects of a rule that have firings at the same time."""
WALK_MAX = 1_000
"""Bound on the topics that a rule looks at in one round; the first ones by its figure."""
STEP = 100
_COLUMNS = {name: column for column, name in enumerate(ROW_COLUMNS)} | {
    "backlog": ROW_COLUMNS.index("backlog_messages"),
    "oldest_age": ROW_COLUMNS.index("oldest_at"),
}
_ENTRIES = ROW_COLUMNS.index("backlog")
_BACKLOG, _RATE_OUT = (OF_SUBSCRIPTIONS.index(name) for name in ("backlog", "msg_rate_out"))
NOT_REPORTED = "not every broker has reported its topics yet"


class Observed(NamedTuple):
    """Everything that is known at ``now`` (ms).

    ``current``: every broker and the metadata store have reported just now. ``settled``: an empty list of problems
    means that there are none.
    """

    cluster: str
    now: int
    topics: TopicIndex
    findings: Findings
    board: Board
    links: Sequence[LinkFigures]
    instance: Instance
    current: bool
    settled: bool
    subscriptions: SubscriptionIndex


class Match(NamedTuple):
    """An object that meets a condition. ``object`` identifies it among those of the rule; ``since``: ms."""

    object: str
    title: str
    detail: str
    value: float | None
    since: int
    topic: str = ""
    subscription: str = ""
    link: str = ""


class Outcome(NamedTuple):
    """The objects that meet a condition, at most ``OBJECTS_MAX``, and ``more`` that are left out, at least.

    ``holds``: whether an object of an open firing meets it; None: that is not known. ``problem``: why some objects
    could not be evaluated; empty: all were.
    """

    matches: Sequence[Match]
    more: int
    holds: Callable[[str], bool | None]
    problem: str = ""


def evaluate(rule: Definition, seen: Observed) -> Outcome:
    """Return which objects meet a condition now."""
    return _BY_KIND[rule.kind](rule, seen)


# What needs attention


def _attention(rule: Definition, seen: Observed) -> Outcome:
    floor = SEVERITIES.index(rule.severity)
    keys: set[str] = set()
    matches: list[Match] = []

    def chosen(cause: str, severity: str) -> bool:
        named = cause in rule.causes if rule.causes else True
        return named and SEVERITIES.index(severity) >= floor

    if not rule.scope.text:
        for item in seen.board.items_of_parts(seen.cluster, seen.now, instance=seen.instance):
            if chosen(item["cause"], item["severity"]):
                keys.add(item["key"])
                matches.append(_item_match(item, seen.now))
    for problem in seen.board.problems:
        if not chosen(problem.cause, problem.severity) or not rule.scope.has(problem.topic):
            continue
        if rule.subscription and problem.subscription != rule.subscription:
            continue
        keys.add(problem.key)
        if len(matches) < OBJECTS_MAX:
            matches.append(
                _item_match(seen.board.problem_item(problem, seen.cluster, seen.now), seen.now)
            )

    def holds(key: str) -> bool | None:
        return True if key in keys else False if seen.settled else None

    problem_text = "" if seen.settled else "not all subscriptions and parts are observed"
    return Outcome(matches[:OBJECTS_MAX], max(len(keys) - OBJECTS_MAX, 0), holds, problem_text)


def _item_match(item: Item, now: int) -> Match:
    return Match(
        item["key"],
        item["title"],
        item["detail"],
        None,
        min(item["since"] or now, now),
        item["topic"],
        item["subscription"],
        item["link"],
    )


# Figures


def _totals(rule: Definition, seen: Observed) -> Outcome:
    totals = seen.topics.sums.totals(viewer_of_scope(rule.scope))
    problem = _gaps(totals, seen)
    if not problem and not seen.current:
        problem = "not every broker and the metadata store answer"
    if problem:
        return Outcome((), 0, lambda key: None, problem)
    name = "backlog_messages" if rule.figure == "backlog" else rule.figure
    value = totals[name]
    met = rule.meets(value)
    place = rule.scope.text or seen.cluster
    link = f"/c/{quote(seen.cluster, safe='')}/topics" if rule.scope.text else "/"
    if rule.scope.namespace:
        link += f"?namespace={quote(rule.scope.namespace, safe='')}"
    elif rule.scope.tenant:
        link += f"?tenant={quote(rule.scope.tenant, safe='')}"
    match = Match("", place, _is(rule, value), value, seen.now, link=link)
    return Outcome((match,) if met else (), 0, lambda key: met)


def viewer_of_scope(scope: RuleScope) -> Viewer:
    """Return the viewer that sees exactly the namespaces of a scope."""
    if scope.namespace:
        return Viewer(namespaces=frozenset({scope.namespace}))
    return Viewer(tenants=frozenset({scope.tenant})) if scope.tenant else ALL


def _gaps(totals: Mapping[str, float], seen: Observed) -> str:
    """Return which topics of a scope have no current figures; empty: all have."""
    if not seen.topics.complete:
        return NOT_REPORTED
    missing = int(totals["unknown"] + totals["last"])
    if not missing:
        return ""
    return f"the figures of {missing:,} of {int(totals['topics']):,} topics are not known now"


def _topics(rule: Definition, seen: Observed) -> Outcome:
    def value_of(topic: str) -> float | None:
        return _topic_value(rule.figure, topic, seen)

    def match(topic: str, value: float) -> Match:
        shown = topic.removeprefix("persistent://")
        link = topic_path(seen.cluster, topic, "").removesuffix("/subscriptions") + "/overview"
        return Match(topic, shown, _is(rule, value), value, seen.now, topic, "", link)

    def holds(topic: str) -> bool | None:
        if topic not in seen.topics:
            return False if seen.topics.complete else None
        value = value_of(topic)
        return None if value is None else rule.meets(value)

    if rule.scope.topic:
        met = holds(rule.scope.topic)
        problem = "" if met is not None else f"the figures of {rule.scope.topic} are not known now"
        value = value_of(rule.scope.topic) if met else None
        matched = () if value is None else (match(rule.scope.topic, value),)
        return Outcome(matched, 0, holds, problem)
    matches: list[Match] = []
    more = 0
    for topic, value in _beyond(rule, rule.figure, seen):
        if len(matches) < OBJECTS_MAX:
            matches.append(match(topic, value))
        else:
            more += 1
    totals = seen.topics.sums.totals(viewer_of_scope(rule.scope))
    return Outcome(matches, more, holds, _gaps(totals, seen))


def _beyond(rule: Definition, figure: str, seen: Observed) -> Iterator[tuple[str, float]]:
    """Yield the topics of a scope that meet the condition, the furthest first, with their figures; at most
    ``WALK_MAX`` are looked at."""
    order = ("-" if rule.above else "") + figure
    # Of a topic at rest or a silent broker only the last figures are sorted: they may have changed.
    chosen = Chosen(
        tenant=rule.scope.tenant if not rule.scope.namespace else "",
        namespace=rule.scope.namespace,
        sort=order,
    )
    selection = seen.topics.select(ALL, chosen)
    for start in range(0, min(len(selection), WALK_MAX), STEP):
        for topic in selection.names(start, start + STEP):
            value = _topic_value(figure, topic, seen)
            if value is None:
                continue
            if not rule.meets(value):
                return
            yield topic, value


def _topic_value(figure: str, topic: str, seen: Observed) -> float | None:
    """Return a topic's figure; None: it is not known now, or the topic does not exist."""
    if topic not in seen.topics:
        return None
    value = seen.topics.certain(topic)[_COLUMNS[figure]]
    if value is None or figure != "oldest_age":
        return None if value is None else value / FIGURES[RuleKind.TOPIC][figure].scale
    return _age(value, seen.now)


def _age(oldest_at: int, now: int) -> float | None:
    """Return the age in seconds of the oldest message; 0 without one, None when it is not known."""
    if oldest_at == OLDEST_UNKNOWN:
        return None
    return max(now - oldest_at, 0) / 1_000 if oldest_at else 0.0


def _subscriptions(rule: Definition, seen: Observed) -> Outcome:
    def value_of(topic: str, subscription: str) -> float | None:
        figures = _subscription_figures(topic, seen)
        if figures is None:
            return None
        backlog, rate = figures.get(subscription, (0, 0))
        value = backlog if rule.figure == "backlog" else rate
        return None if value is None else value / FIGURES[RuleKind.SUBSCRIPTION][rule.figure].scale

    def holds(key: str) -> bool | None:
        topic, _, subscription = key.partition("\n")
        if topic not in seen.topics:
            return False if seen.topics.complete else None
        value = value_of(topic, subscription)
        return None if value is None else rule.meets(value)

    if rule.scope.topic:
        topics = [rule.scope.topic] if rule.scope.topic in seen.topics else []
        is_known = _subscription_figures(rule.scope.topic, seen) is not None
        problem = "" if is_known else f"the subscriptions of {rule.scope.topic} are not known now"
    else:
        # A subscription beyond a threshold is of a topic whose sum is beyond it, too.
        topics = [topic for topic, _ in _beyond(rule, rule.figure, seen)]
        problem = _gaps(seen.topics.sums.totals(viewer_of_scope(rule.scope)), seen)
    matches: list[Match] = []
    more = 0
    for topic in topics:
        names = list(_subscription_figures(topic, seen) or {})
        if rule.subscription:
            names = [rule.subscription]
        for name in names:
            value = value_of(topic, name)
            if value is None or not rule.meets(value):
                continue
            if len(matches) >= OBJECTS_MAX:
                more += 1
                continue
            shown = f"{name} of {topic.removeprefix('persistent://')}"
            link = topic_path(seen.cluster, topic, name)
            text = _is(rule, value)
            matches.append(
                Match(f"{topic}\n{name}", shown, text, value, seen.now, topic, name, link)
            )
    return Outcome(matches, more, holds, problem)


def _subscription_figures(topic: str, seen: Observed) -> dict[str, Figures] | None:
    """Return the summed figures of a topic's subscriptions that have a backlog or traffic; None: not known now.

    Brokers report them for topics that they have loaded. Those of a topic at rest are as it is stored.
    """
    if topic not in seen.topics:
        return None
    values = seen.topics.certain(topic)
    if values[_ENTRIES] is None:
        return None
    count = seen.topics.partitions(topic)
    parts = [f"{topic}{PARTITION_SUFFIX}{index}" for index in range(count or 0)] or [topic]
    if any(seen.topics.is_unloaded(part) for part in parts) and values[_ENTRIES]:
        stored = {
            listed.title: (listed.values[_BACKLOG], listed.values[_RATE_OUT] or 0)
            for listed in seen.subscriptions.of_topic(topic)
        }
        # A backlog of no subscription: they were not read yet.
        return stored or None
    summed: dict[str, Figures] = {}
    for part in parts:
        for name, (backlog, rate) in seen.findings.figures_of(part).items():
            before, rate_before = summed.get(name, (0, 0))
            both = None if backlog is None or before is None else backlog + before
            summed[name] = both, rate + rate_before
    return summed


def _links(rule: Definition, seen: Observed) -> Outcome:
    figure = FIGURES[RuleKind.LINK][rule.figure]
    values = {
        link.remote: _link_value(rule.figure, link, figure.scale, seen.now)
        for link in seen.links
        if rule.remote in ("", link.remote)
    }
    matches = [
        Match(
            remote,
            f"Replication with {remote}",
            _is(rule, value),
            value,
            seen.now,
            link=f"/c/{quote(seen.cluster, safe='')}/geo/{quote(remote, safe='')}",
        )
        for remote, value in values.items()
        if value is not None and rule.meets(value)
    ]

    def holds(remote: str) -> bool | None:
        if remote not in values:
            return False if seen.current else None
        value = values[remote]
        return None if value is None else rule.meets(value)

    unknown = [remote for remote, value in values.items() if value is None]
    problem = f"the figures of the link to {', '.join(unknown)} are not known now"
    if rule.remote and rule.remote not in values:
        problem, unknown = f"no topic is replicated with {rule.remote}", [rule.remote]
    return Outcome(
        matches[:OBJECTS_MAX],
        max(len(matches) - OBJECTS_MAX, 0),
        holds,
        problem if unknown else "",
    )


def _link_value(name: str, link: LinkFigures, scale: int, now: int) -> float | None:
    if link.known != LIVE:
        return None
    if name == "oldest_age":
        return None if link.oldest is None else _age(link.oldest, now)
    value: int = getattr(link, name)
    return value / scale


def _parts(rule: Definition, seen: Observed) -> Outcome:
    """Evaluate a figure of each broker or bookie."""
    is_broker = rule.kind is RuleKind.BROKER
    rows = seen.instance.brokers if is_broker else seen.instance.bookies
    chosen = [row for row in rows if rule.part in ("", row["id"])]
    values = {row["id"]: part_value(rule.figure, row, seen.now) for row in chosen}
    page = f"/c/{quote(seen.cluster, safe='')}/{'brokers' if is_broker else 'bookies'}"
    matches = [
        Match(
            part,
            f"{rule.kind.value.capitalize()} {part}",
            _is(rule, value),
            value,
            seen.now,
            link=page,
        )
        for part, value in values.items()
        if value is not None and rule.meets(value)
    ]

    def holds(part: str) -> bool | None:
        if part not in values:
            return False if seen.current else None
        value = values[part]
        return None if value is None else rule.meets(value)

    unknown = [part for part, value in values.items() if value is None]
    problem = f"the figure of {rule.kind} {', '.join(unknown)} is not known now"
    if rule.part and rule.part not in values:
        problem, unknown = f"there is no {rule.kind} {rule.part}", [rule.part]
    elif not chosen:
        problem, unknown = f"no {rule.kind} is known", [""]
    return Outcome(
        matches[:OBJECTS_MAX],
        max(len(matches) - OBJECTS_MAX, 0),
        holds,
        problem if unknown else "",
    )


def part_value(figure: str, row: Mapping[str, Any], now: int) -> float | None:
    """Return a figure of a broker's or bookie's line; None: it is not known now."""
    is_live = row["known"] == KNOWN[LIVE]
    if figure == "report_age":
        # Of one that never reported it is the time since it was found not to answer.
        last = row["at"] or row["since"]
        return 0.0 if is_live else max(now - last, 0) / 1_000 if last else None
    if not is_live:
        return None
    if figure == "read_only":
        return {"writable": 0.0, "read-only": 1.0}.get(row["state"])
    if figure == "used_bytes":
        return float(row["total_bytes"] - row["free_bytes"])
    value = row[figure]
    if value is None:
        return None
    return float(value) * 100 if figure == "usage" else float(value)


def _is(rule: Definition, value: float) -> str:
    figure = FIGURES[rule.kind][rule.figure]
    order = "above" if rule.above else "below"
    return f"{figure.label} {amount(value, figure)}, {order} {amount(rule.threshold, figure)}"


_BY_KIND: Mapping[RuleKind, Callable[[Definition, Observed], Outcome]] = {
    RuleKind.ATTENTION: _attention,
    RuleKind.TOTALS: _totals,
    RuleKind.TOPIC: _topics,
    RuleKind.SUBSCRIPTION: _subscriptions,
    RuleKind.LINK: _links,
    RuleKind.BROKER: _parts,
    RuleKind.BOOKIE: _parts,
}
