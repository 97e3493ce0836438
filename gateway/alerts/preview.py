"""Preview of a rule over the recorded history: how often it would have fired, and of what there is a record."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.alerts.conditions import Observed, Outcome, evaluate, viewer_of_scope
from gateway.alerts.definitions import FIGURES, Definition, RuleKind
from gateway.services.history.readings import DAY_MINUTES, HOUR_MINUTES, History
from gateway.services.history.slots import (
    BOOKIE_COLUMNS,
    BROKER_COLUMNS,
    COLUMNS,
    NOT_KNOWN,
    SLOT_MS,
    TOTALS,
    Point,
    Subject,
    bookie_name,
    broker_name,
    link_name,
)
from gateway.services.index.selection import Chosen

SUBJECTS_MAX = 200
"""Bound on the objects whose history is read: a week of one has about 2,400 points."""
DAYS_NOTE = "Of times before {fine}, five minutes are one value: shorter peaks are not counted."
_COLUMN = {
    **{name: COLUMNS.index(name) for name in COLUMNS},
    "messages": COLUMNS.index("msg_rate_out"),
    "bytes": COLUMNS.index("bytes_rate_out"),
    "received_messages": COLUMNS.index("msg_rate_in"),
    "received_bytes": COLUMNS.index("bytes_rate_in"),
}


_OF_PARTS = {RuleKind.BROKER: BROKER_COLUMNS, RuleKind.BOOKIE: BOOKIE_COLUMNS}


class Preview(NamedTuple):
    """Result of a preview.

    ``now``: objects that meet the condition now, of which ``examples`` are some. ``times``: how often it would have
    fired in ``recorded_s`` of history since ``since`` (ms); None: there is none. ``subjects``: objects whose
    history was read, ``of`` how many. ``note``: what limits the answer.
    """

    now: int
    examples: list[str]
    problem: str
    times: int | None
    recorded_s: int
    since: int | None
    subjects: int
    of: int
    note: str


async def preview(rule: Definition, for_s: int, seen: Observed, history: History) -> Preview:
    """Return what a rule would do. Raises NotReady when the history cannot be read."""
    outcome = evaluate(rule, seen)
    column = _column(rule)
    subjects, total, note = _subjects(rule, seen, outcome)
    if rule.kind is RuleKind.ATTENTION:
        note = "No history of what needed attention is recorded: this is what meets the rule now."
    elif column is None:
        label = FIGURES[rule.kind][rule.figure].label
        note = f"No history of this figure ({label}) is recorded: this is what meets the rule now."
    examples = [match.title for match in outcome.matches[:5]]
    now = len(outcome.matches) + outcome.more
    if column is None or not subjects:
        return Preview(now, examples, outcome.problem, None, 0, None, 0, total, note)
    of_totals = rule.kind is RuleKind.TOTALS
    week = await history.week(subjects, DAY_MINUTES if of_totals else HOUR_MINUTES)
    if rule.figure == "backlog" and rule.kind in (RuleKind.TOTALS, RuleKind.TOPIC):
        note = f"History has backlogs in entries of one or more messages. {note}".strip()
    scale = FIGURES[rule.kind][rule.figure].scale
    times = sum(
        firings(_values(points, column, scale), week.ends, week.spans, rule.meets, for_s * 1_000)
        for points in week.points
    )
    covered = [
        index
        for index, point in enumerate(zip(*week.points, strict=True))
        if any(own != NOT_KNOWN for own in point)
    ]
    if not covered:
        nothing = f"Nothing is recorded yet. {note}".strip()
        return Preview(now, examples, outcome.problem, None, 0, None, len(subjects), total, nothing)
    if week.spans[covered[0]] > SLOT_MS:
        days = DAYS_NOTE.format(fine="the last day" if of_totals else "the last hour")
        note = f"{note} {days}".strip()
    return Preview(
        now,
        examples,
        outcome.problem,
        times,
        sum(week.spans[index] for index in covered) // 1_000,
        week.ends[covered[0]] - week.spans[covered[0]],
        len(subjects),
        total,
        note,
    )


def firings(
    values: Sequence[float | None],
    ends: Sequence[int],
    spans: Sequence[int],
    meets: Callable[[float], bool],
    for_ms: int,
) -> int:
    """Return how often values meet a condition for longer than ``for_ms``. A value counts for all of its span, which
    ends at its end, ms. An unknown value neither begins nor ends a firing."""
    count = 0
    begun: int | None = None
    is_firing = False
    for value, end, span in zip(values, ends, spans, strict=True):
        if value is None:
            continue
        if not meets(value):
            begun, is_firing = None, False
            continue
        # The first slot of a firing is that after which the condition has lasted no time.
        begun = end - span + SLOT_MS if begun is None else begun
        if not is_firing and end - begun >= for_ms:
            is_firing = True
            count += 1
    return count


def _column(rule: Definition) -> int | None:
    """Return the column of the history that has the figure of a rule; None: it is not recorded."""
    names = _OF_PARTS.get(rule.kind)
    if names is None:
        return _COLUMN.get(rule.figure)
    return names.index(rule.figure) if rule.figure in names else None


def _values(points: Sequence[Point], column: int, scale: int) -> list[float | None]:
    return [None if (value := point[column]) is None else value / scale for point in points]


def _subjects(rule: Definition, seen: Observed, outcome: Outcome) -> tuple[list[Subject], int, str]:
    """Return the subjects whose history is read, the number of all, and what limits the answer."""
    return _BY_KIND[rule.kind](rule, seen, outcome)


def _of_totals(
    rule: Definition, seen: Observed, outcome: Outcome
) -> tuple[list[Subject], int, str]:
    if rule.scope.text:
        return [], 1, "Totals are recorded of the whole cluster alone."
    if rule.figure not in COLUMNS:
        return [], 1, ""
    return [TOTALS], 1, ""


def _of_topics(
    rule: Definition, seen: Observed, outcome: Outcome
) -> tuple[list[Subject], int, str]:
    if rule.scope.topic:
        names = [rule.scope.topic] if rule.scope.topic in seen.topics else []
        return [Subject(name) for name in names], 1, ""
    order = ("-" if rule.above else "") + rule.figure
    scope = rule.scope
    tenant = "" if scope.namespace else scope.tenant
    chosen = Chosen(tenant=tenant, namespace=scope.namespace, sort=order)
    # Of the scope alone: a rule of a tenant has one within it.
    selection = seen.topics.select(viewer_of_scope(scope), chosen)
    names = selection.names(0, SUBJECTS_MAX)
    note = _limited(len(names), len(selection), "topics")
    return [Subject(name) for name in names], len(selection), note


def _of_subscriptions(
    rule: Definition, seen: Observed, outcome: Outcome
) -> tuple[list[Subject], int, str]:
    if rule.scope.topic and rule.subscription:
        return [Subject(rule.scope.topic, rule.subscription)], 1, ""
    subjects = [Subject(match.topic, match.subscription) for match in outcome.matches]
    note = "Only the subscriptions that meet the rule now are looked up in the history."
    return subjects, len(subjects) + outcome.more, note


def _of_links(rule: Definition, seen: Observed, outcome: Outcome) -> tuple[list[Subject], int, str]:
    remotes = [link.remote for link in seen.links if rule.remote in ("", link.remote)]
    return [Subject(link_name(remote)) for remote in remotes], len(remotes), ""


def _of_parts(rule: Definition, seen: Observed, outcome: Outcome) -> tuple[list[Subject], int, str]:
    is_broker = rule.kind is RuleKind.BROKER
    name_of = broker_name if is_broker else bookie_name
    rows = seen.instance.brokers if is_broker else seen.instance.bookies
    parts = [row["id"] for row in rows if rule.part in ("", row["id"])]
    note = _limited(min(len(parts), SUBJECTS_MAX), len(parts), f"{rule.kind}s")
    return [Subject(name_of(part)) for part in parts[:SUBJECTS_MAX]], len(parts), note


def _of_attention(
    rule: Definition, seen: Observed, outcome: Outcome
) -> tuple[list[Subject], int, str]:
    return [], len(outcome.matches) + outcome.more, ""


def _limited(read: int, total: int, noun: str) -> str:
    if read == total:
        return ""
    return f"The history of {read:,} of {total:,} {noun} was read, those with the most extreme figures now."


_BY_KIND = {
    RuleKind.ATTENTION: _of_attention,
    RuleKind.TOTALS: _of_totals,
    RuleKind.TOPIC: _of_topics,
    RuleKind.SUBSCRIPTION: _of_subscriptions,
    RuleKind.LINK: _of_links,
    RuleKind.BROKER: _of_parts,
    RuleKind.BOOKIE: _of_parts,
}
