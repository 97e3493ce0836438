"""Texts of problems: title, figures that prove it, and a next step that does no harm. Pure.

Moments are ISO 8601 in UTC; pages show them in the viewer's time zone.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from engine.admin.lag import LagCause
from gateway.services.attention.ranking import Problem

GROWS = 0.1
"""Smallest growth that a text mentions, in messages or entries per second."""


class Words(NamedTuple):
    """Texts of a cause.

    ``title`` continues a sentence that begins with the subscription's name (``named``), ``plural`` one that begins with
    a number of subscriptions. ``at_ease`` is added to the advice only when no outage is recent.
    """

    title: Callable[[Problem], str]
    plural: str
    advice: str
    at_ease: str = ""


def _fixed(text: str) -> Callable[[Problem], str]:
    return lambda problem: text


def _slower(problem: Problem) -> str:
    if problem.growth >= GROWS:
        return f"is slower than arrivals by {_growth(problem)}"
    return "keeps up with arrivals but does not reduce its backlog"


CAUSES: dict[str, Words] = {
    LagCause.STORAGE: Words(
        _fixed("cannot be read from storage"),
        "cannot be read from storage",
        "Check that all bookies are running. Reading resumes automatically.",
    ),
    LagCause.NO_CONSUMER: Words(
        _fixed("has no consumer"),
        "have no consumer",
        "Start its consumer.",
        "If the subscription is no longer needed, delete it: until then all messages are kept.",
    ),
    LagCause.RECONNECTING: Words(
        _fixed("loses its consumers repeatedly"),
        "lose their consumers repeatedly",
        "Check the consumer's log: it fails shortly after it connects.",
    ),
    LagCause.HELD: Words(
        _fixed("is held by a consumer that does not acknowledge"),
        "are held by consumers that do not acknowledge",
        "Restart the consumer that holds it. One of the refused consumers takes over.",
    ),
    LagCause.STANDBY: Words(
        _fixed("waits for its active consumer while others are on standby"),
        "wait for their active consumers while others are on standby",
        "Restart the active consumer. A standby consumer takes over.",
    ),
    LagCause.NO_PERMITS: Words(
        _fixed("has a consumer that requests no more messages"),
        "have consumers that request no more messages",
        "Check the consumer's process: it hangs or is busy. A restart loses no messages.",
    ),
    LagCause.UNACKED_LIMIT: Words(
        _fixed("has reached the limit of unacknowledged messages"),
        "have reached the limit of unacknowledged messages",
        "Make the consumer acknowledge processed messages, or restart it: the other messages are redelivered.",
    ),
    LagCause.REDELIVERY: Words(
        _fixed("delivers the same messages repeatedly"),
        "deliver the same messages repeatedly",
        "Peek at the first message: a consumer cannot process it. Configure a dead-letter policy.",
    ),
    LagCause.NOT_ACKNOWLEDGED: Words(
        _fixed("receives but does not acknowledge"),
        "receive but do not acknowledge",
        "Check the consumer: it is blocked, or does not acknowledge processed messages.",
    ),
    LagCause.HOT_KEY: Words(
        _fixed(": one consumer holds up its keys"),
        "are held up by one consumer of their keys",
        "Speed up that consumer. More consumers do not help: most messages have the same few keys.",
    ),
    LagCause.RATE_LIMIT: Words(
        _fixed("is limited by its dispatch rate"),
        "are limited by their dispatch rates",
        "Raise the dispatch rate of the subscription, topic, namespace or broker if consumers can process more.",
    ),
    LagCause.SLOW: Words(
        _slower,
        "are slower than arrivals, or no faster",
        "Add consumers (Shared, Key_Shared) or partitions, or speed up the consumers.",
    ),
    LagCause.LATE: Words(
        _fixed("is later than its target"),
        "are later than their targets",
        "Add consumers (Shared, Key_Shared) or partitions, or speed up the consumers.",
    ),
    LagCause.DELAYED: Words(
        _fixed("has only delayed messages"),
        "have only delayed messages",
        "No action is needed: the messages are delivered when they are due.",
    ),
}
"""Texts by cause."""


def named(name: str, title: str) -> str:
    """Return the title with the name before it."""
    return name + title if title.startswith(":") else f"{name} {title}"


def advice(cause: str, *, at_ease: bool) -> str:
    """Return the next step. ``at_ease``: no outage is recent, so that clients are not about to reconnect."""
    words = CAUSES[cause]
    return f"{words.advice} {words.at_ease}" if at_ease and words.at_ease else words.advice


def group_title(problems: Sequence[Problem]) -> str:
    """Return the number of problems, which have one cause, and their backlog."""
    known = [problem for problem in problems if problem.backlog is not None]
    at_least = "" if len(known) == len(problems) else "at least "
    return (
        f"{len(problems):,} subscriptions {CAUSES[problems[0].cause].plural}: "
        f"{at_least}{_amount(known)}"
    )


def group_detail(problems: Sequence[Problem]) -> str:
    """Return the largest and the fastest growing of the problems."""
    largest = max(problems, key=lambda problem: problem.waiting or 0)
    fastest = max(problems, key=lambda problem: problem.growth)
    parts = [f"largest {place(largest)} {_amount([largest])}"]
    if fastest.growth >= GROWS:
        if fastest is largest:
            parts[0] += f", growing by {_growth(fastest)}"
        else:
            parts.append(f"growing: {place(fastest)} by {_growth(fastest)}")
    return " · ".join(parts)


def place(problem: Problem) -> str:
    """Return ``topic/subscription``, without tenant and namespace."""
    topic = problem.topic.rpartition("/")[2]
    return f"{topic}/{problem.subscription}" if problem.subscription else topic


def moment(at_ms: int) -> str:
    """Return the time in ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def detail(problem: Problem, now_ms: int) -> str:
    """Return the evidence in figures."""
    evidence = problem.worst.evidence
    parts = [waiting(problem)]
    if problem.growth >= GROWS and problem.cause not in (LagCause.SLOW, LagCause.RATE_LIMIT):
        parts[0] += f", growing by {_growth(problem)}"
    parts += [text for text in (_late(evidence, now_ms), _about(problem, evidence, now_ms)) if text]
    if problem.parts > 1:
        parts.append(f"in {problem.parts} partitions")
    return " · ".join(parts)


def _late(evidence: dict[str, Any], now_ms: int) -> str:
    """Return the age of the oldest message beside its target, where it is older."""
    oldest_at, target_s = evidence.get("oldest_at"), evidence.get("target_s")
    if not oldest_at or not target_s:
        return ""
    return f"oldest message {span(max(now_ms - oldest_at, 0) // 1000)}, target {span(target_s)}"


def waiting(problem: Problem) -> str:
    """Return the backlog in words."""
    if problem.backlog is None:
        return "the backlog is not known"
    return f"backlog of {_amount([problem])}"


def _amount(problems: Sequence[Problem]) -> str:
    """Return the sum in messages when it is known or estimated for each problem, else in entries."""
    entries = sum(problem.backlog or 0 for problem in problems)
    counted = [problem.messages for problem in problems if problem.messages is not None]
    if len(counted) < len(problems):
        return _count(entries, "entry", "entries")
    messages = sum(counted)
    about = ""
    if any(problem.estimated for problem in problems):
        # Rounding to two digits must not fall below the entries: each holds at least one message.
        about, messages = "≈ ", max(int(float(f"{messages:.2g}")), entries)
    in_entries = f" ({_count(entries, 'entry', 'entries')})" if messages != entries else ""
    return f"{about}{_count(messages, 'message', 'messages')}{in_entries}"


def _growth(problem: Problem) -> str:
    """Return the growth of the backlog, in the unit of the backlog."""
    if problem.messages is None:
        return f"{_number(problem.growth)} entries/s"
    about = "≈ " if problem.estimated else ""
    return f"{about}{_number(problem.growth)} messages/s"


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def _about(problem: Problem, evidence: dict[str, Any], now_ms: int) -> str:
    def number(name: str) -> str:
        value = evidence.get(name)
        return f"{value:,}" if isinstance(value, int | float) else "?"

    consumer = str(evidence.get("consumer") or "") or _consumers(evidence)
    unacknowledged = f"{consumer}: {number('unacked')} unacknowledged"
    match problem.cause:
        case LagCause.STORAGE:
            return str(evidence.get("reason") or "reading fails and is retried")
        case LagCause.NO_CONSUMER:
            left_ms = evidence.get("left_ms")
            if left_ms:
                return f"the last consumer disconnected {_ago(left_ms, now_ms)}"
            loaded = "" if evidence.get("before_load") else "the topic was loaded at "
            return f"no consumer since {loaded}{moment(problem.worst.since_ms)}"
        case LagCause.RECONNECTING:
            return f"{number('joined')} times since the last acknowledgement"
        case LagCause.HELD:
            return f"{consumer} holds it, other consumers were refused {number('refused')} times"
        case LagCause.STANDBY:
            return f"{unacknowledged}, {number('standby')} on standby{_acked(evidence, now_ms)}"
        case LagCause.UNACKED_LIMIT:
            limit = f" of at most {number('limit')}" if evidence.get("limit") else ""
            return str(
                evidence.get("reason") or f"{unacknowledged}{limit}{_acked(evidence, now_ms)}"
            )
        case LagCause.REDELIVERY:
            unit = "entry" if evidence.get("given_back") == 1 else "entries"
            count = f"{number('given_back')} {unit} " if evidence.get("given_back") else ""
            return f"{count}redelivered at least once{_acked(evidence, now_ms)}"
        case LagCause.HOT_KEY:
            if not evidence.get("waiting"):
                return _rates(evidence)
            keys = "one key" if evidence.get("keys") == 1 else f"{number('keys')} keys"
            return (
                f"consumer {consumer} is the bottleneck: {number('waiting')} entries of its {keys} wait, "
                f"{number('unacked')} are unacknowledged"
            )
        case LagCause.SLOW | LagCause.RATE_LIMIT:
            return _rates(evidence)
        case LagCause.LATE:
            return ""
        case LagCause.DELAYED:
            return f"{number('delayed')} not due yet"
    return f"{unacknowledged}{_acked(evidence, now_ms)}"


def _consumers(evidence: dict[str, Any]) -> str:
    count = evidence.get("consumers", 0)
    return "the consumer" if count == 1 else f"{count:,} consumers together"


def _acked(evidence: dict[str, Any], now_ms: int) -> str:
    acked_ms = evidence.get("acked_ms")
    return f", last acknowledged {_ago(acked_ms, now_ms)}" if acked_ms else ", never acknowledged"


def _rates(evidence: dict[str, Any]) -> str:
    return f"{_rate(evidence.get('rate_in', 0.0))} in, {_rate(evidence.get('rate_out', 0.0))} out"


def _rate(per_second: float) -> str:
    return f"{_number(per_second)}/s"


def _number(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def _ago(at_ms: int, now_ms: int) -> str:
    return f"{span(max(now_ms - at_ms, 0) // 1000)} ago"


def span(seconds: int) -> str:
    """Return a duration in one unit, below a minute in steps of 10 s so that texts do not change each second."""
    if seconds < 60:
        return f"{max(seconds // 10 * 10, 1)} s"
    for unit, size in (("min", 60), ("h", 3_600), ("days", 86_400)):
        if unit == "days" or seconds < size * (60 if unit == "min" else 48):
            return f"{seconds // size} {unit}"
    raise AssertionError
