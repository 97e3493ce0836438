"""Causes in words: what is wrong, the figures that show it, and what to do next that harms nothing. Moments are told as
ISO 8601 in UTC: pages show them by the clock of who looks. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from engine.admin.lag import LagCause
from gateway.services.attention.ranking import Problem

GROWS = 0.1
"""Messages, or entries, per second from which on a backlog is said to grow."""


class Words(NamedTuple):
    """``title`` goes on after the subscription's name (``named``), ``plural`` after their number. ``at_ease``: what is
    added to the advice only when no outage is near."""

    title: Callable[[Problem], str]
    plural: str
    advice: str
    at_ease: str = ""


def _says(text: str) -> Callable[[Problem], str]:
    return lambda problem: text


def _slower(problem: Problem) -> str:
    if problem.growth >= GROWS:
        return f"is slower than arrivals by {_growth(problem)}"
    return "keeps up with arrivals but not with its backlog"


CAUSES: dict[str, Words] = {
    LagCause.STORAGE: Words(
        _says("cannot be read from storage"),
        "cannot be read from storage",
        "See that all bookies run; it goes on by itself.",
    ),
    LagCause.NO_CONSUMER: Words(
        _says("has no consumer"),
        "have no consumer",
        "Start its consumer.",
        "If the subscription is no longer needed, delete it: until then all messages are kept.",
    ),
    LagCause.RECONNECTING: Words(
        _says("loses its consumers again and again"),
        "lose their consumers again and again",
        "Read the consumer's log: it fails shortly after it connects.",
    ),
    LagCause.HELD: Words(
        _says("is held by a consumer that acknowledges nothing"),
        "are held by consumers that acknowledge nothing",
        "Restart the consumer that holds it; one of those refused takes over.",
    ),
    LagCause.STANDBY: Words(
        _says("waits for its active consumer, while others stand by"),
        "wait for their active consumers, while others stand by",
        "Restart the active consumer: one that stands by takes over.",
    ),
    LagCause.NO_PERMITS: Words(
        _says("has a consumer that takes no more messages"),
        "have consumers that take no more messages",
        "Look at the consumer's process: it hangs or is busy. A restart loses nothing.",
    ),
    LagCause.UNACKED_LIMIT: Words(
        _says("is stopped at the limit of unacknowledged messages"),
        "are stopped at the limit of unacknowledged messages",
        "Have the consumer acknowledge what it did, or restart it: the rest comes again.",
    ),
    LagCause.REDELIVERY: Words(
        _says("delivers the same messages again and again"),
        "deliver the same messages again and again",
        "Peek at the first message: a consumer cannot process it. Use a dead-letter policy.",
    ),
    LagCause.NOT_ACKNOWLEDGED: Words(
        _says("receives but never acknowledges"),
        "receive but never acknowledge",
        "Look at the consumer: it waits for something, or does not acknowledge its work.",
    ),
    LagCause.HOT_KEY: Words(
        _says(": one consumer holds up its keys"),
        "are held up by one consumer of their keys",
        "Speed up that consumer. More consumers do not help: most messages have the same few keys.",
    ),
    LagCause.RATE_LIMIT: Words(
        _says("falls behind for its dispatch rate"),
        "fall behind for their dispatch rates",
        "Raise the dispatch rate of the subscription, topic, namespace or broker, if consumers can take more.",
    ),
    LagCause.SLOW: Words(
        _slower,
        "are slower than arrivals, or no faster",
        "Add consumers (Shared, Key_Shared) or partitions, or make them faster.",
    ),
    LagCause.DELAYED: Words(
        _says("has only messages for later"),
        "have only messages for later",
        "Nothing to do: they are delivered when their time comes.",
    ),
}
"""By cause, as brokers tell it."""


def named(name: str, title: str) -> str:
    """A title with the name that it goes on after."""
    return name + title if title.startswith(":") else f"{name} {title}"


def advice(cause: str, *, at_ease: bool) -> str:
    """What to do next. ``at_ease``: no outage is near, so that what is missing is not just on its way back."""
    words = CAUSES[cause]
    return f"{words.advice} {words.at_ease}" if at_ease and words.at_ease else words.advice


def group_title(problems: Sequence[Problem]) -> str:
    """Of several with one cause: how many, and how much waits at all of them."""
    known = [one for one in problems if one.backlog is not None]
    at_least = "" if len(known) == len(problems) else "at least "
    return (
        f"{len(problems):,} subscriptions {CAUSES[problems[0].cause].plural}: "
        f"{at_least}{_amount(known)}"
    )


def group_detail(problems: Sequence[Problem]) -> str:
    """The largest and the fastest growing of them."""
    largest = max(problems, key=lambda one: one.waiting or 0)
    fastest = max(problems, key=lambda one: one.growth)
    parts = [f"largest {place(largest)} {_amount([largest])}"]
    if fastest.growth >= GROWS:
        if fastest is largest:
            parts[0] += f", growing by {_growth(fastest)}"
        else:
            parts.append(f"growing: {place(fastest)} by {_growth(fastest)}")
    return " · ".join(parts)


def place(problem: Problem) -> str:
    """``topic/subscription``, without tenant and namespace."""
    topic = problem.topic.rpartition("/")[2]
    return f"{topic}/{problem.subscription}" if problem.subscription else topic


def moment(at_ms: int) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def detail(problem: Problem, now_ms: int) -> str:
    """The evidence in figures."""
    seen = problem.worst.evidence
    parts = [waiting(problem)]
    if problem.growth >= GROWS and problem.cause not in (LagCause.SLOW, LagCause.RATE_LIMIT):
        parts[0] += f", growing by {_growth(problem)}"
    parts += [text for text in (_about(problem, seen, now_ms),) if text]
    if problem.parts > 1:
        parts.append(f"in {problem.parts} partitions")
    return " · ".join(parts)


def waiting(problem: Problem) -> str:
    """How much waits at it."""
    if problem.backlog is None:
        return "how much waits is not known"
    return f"{_amount([problem])} {'waits' if problem.waiting == 1 else 'wait'}"


def _amount(problems: Sequence[Problem]) -> str:
    """Messages where they are known, or estimated, of each of them; else entries, which brokers count."""
    entries = sum(one.backlog or 0 for one in problems)
    counted = [one.messages for one in problems if one.messages is not None]
    if len(counted) < len(problems):
        return _count(entries, "entry", "entries")
    messages = sum(counted)
    about = ""
    if any(one.estimated for one in problems):
        # Two digits; an entry holds at least one message.
        about, messages = "≈ ", max(int(float(f"{messages:.2g}")), entries)
    in_entries = f" ({_count(entries, 'entry', 'entries')})" if messages != entries else ""
    return f"{about}{_count(messages, 'message', 'messages')}{in_entries}"


def _growth(problem: Problem) -> str:
    """By how much its backlog grows, in what it is counted in."""
    if problem.messages is None:
        return f"{_number(problem.growth)} entries/s"
    about = "≈ " if problem.estimated else ""
    return f"{about}{_number(problem.growth)} messages/s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _about(problem: Problem, seen: dict[str, Any], now_ms: int) -> str:
    def number(name: str) -> str:
        value = seen.get(name)
        return f"{value:,}" if isinstance(value, int | float) else "?"

    who = str(seen.get("consumer") or "") or _consumers(seen)
    out = f"{who} holds {number('unacked')}"
    match problem.cause:
        case LagCause.STORAGE:
            return str(seen.get("reason") or "reading fails and is tried again")
        case LagCause.NO_CONSUMER:
            left = seen.get("left_ms")
            if left:
                return f"the last one left {_ago(left, now_ms)}"
            moved = "" if seen.get("before_load") else "the topic moved here at "
            return f"no consumer since {moved}{moment(problem.worst.since_ms)}"
        case LagCause.RECONNECTING:
            return f"{number('joined')} times since something was acknowledged"
        case LagCause.HELD:
            return f"{who} has it, others were refused {number('refused')} times"
        case LagCause.STANDBY:
            return f"{out}, {number('standby')} stand by{_acked(seen, now_ms)}"
        case LagCause.UNACKED_LIMIT:
            limit = f" of at most {number('limit')}" if seen.get("limit") else ""
            return str(seen.get("reason") or f"{out}{limit}{_acked(seen, now_ms)}")
        case LagCause.REDELIVERY:
            back = seen.get("given_back")
            what = f"{number('given_back')} came back at least once" if back else "they come back"
            return f"{what}{_acked(seen, now_ms)}"
        case LagCause.HOT_KEY:
            if not seen.get("waiting"):
                return _rates(seen)
            keys = "one key" if seen.get("keys") == 1 else f"{number('keys')} keys"
            return (
                f"consumer {who} is the bottleneck: {number('waiting')} entries of its {keys} wait, "
                f"{number('unacked')} are in its hands"
            )
        case LagCause.SLOW | LagCause.RATE_LIMIT:
            return _rates(seen)
        case LagCause.DELAYED:
            return f"{number('delayed')} until their time comes"
    return f"{out}{_acked(seen, now_ms)}"


def _consumers(seen: dict[str, Any]) -> str:
    count = seen.get("consumers", 0)
    return "the consumer" if count == 1 else f"{count:,} consumers together"


def _acked(seen: dict[str, Any], now_ms: int) -> str:
    acked = seen.get("acked_ms")
    return f", last acknowledged {_ago(acked, now_ms)}" if acked else ", never acknowledged"


def _rates(seen: dict[str, Any]) -> str:
    return f"{_rate(seen.get('rate_in', 0.0))} in, {_rate(seen.get('rate_out', 0.0))} out"


def _rate(per_second: float) -> str:
    return f"{_number(per_second)}/s"


def _number(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def _ago(at_ms: int, now_ms: int) -> str:
    return f"{span(max(now_ms - at_ms, 0) // 1000)} ago"


def span(seconds: int) -> str:
    """In the one unit that fits, coarse while it is short, so that it does not change each second."""
    if seconds < 60:
        return f"{max(seconds // 10 * 10, 1)} s"
    for unit, size in (("min", 60), ("h", 3_600), ("days", 86_400)):
        if unit == "days" or seconds < size * (60 if unit == "min" else 48):
            return f"{seconds // size} {unit}"
    raise AssertionError
