"""Subscriptions whose oldest message is older than their target. Pure."""

from collections.abc import Iterable, Sequence

from engine.admin.lag import LagCause
from gateway.services.attention.findings import Finding
from gateway.services.attention.ranking import Problem, merged
from gateway.services.subscriptions.subscription_index import SubscriptionIndex
from gateway.services.subscriptions.subscription_selection import COLUMNS

_ESTIMATED = COLUMNS.index("backlog_estimated")
_MESSAGES = COLUMNS.index("backlog_messages")
_UNMEASURED = COLUMNS.index("backlog_unmeasured")
_OLDEST = COLUMNS.index("oldest_at")
_TARGET = COLUMNS.index("age_target_s")

Late = dict[tuple[str, str], Finding]
"""A finding for each late subscription, by listed topic and name."""


def late_findings(subscriptions: SubscriptionIndex, now_ms: int) -> Late:
    """Return the subscriptions that are later than their target, as findings since they became so."""
    late: Late = {}
    for listed, since_ms in subscriptions.late(now_ms):
        values = listed.values
        evidence = {"oldest_at": values[_OLDEST], "target_s": values[_TARGET]}
        if not values[_UNMEASURED] and values[_MESSAGES] is not None:
            evidence |= {"messages": values[_MESSAGES], "estimated": bool(values[_ESTIMATED])}
        late[listed.topic, listed.title] = Finding(
            listed.topic,
            listed.title,
            values[0],
            LagCause.LATE.value,
            "error",
            since_ms,
            0.0,
            evidence,
        )
    return late


def with_late(problems: Sequence[Problem], late: Late, shown: Iterable[str] = ()) -> list[Problem]:
    """Return the problems with the late subscriptions: one that has another problem has that one, as an error with
    its age; any other has its lateness. ``shown``: listed topics that count, all without any."""
    topics = frozenset(shown)
    left = {key: finding for key, finding in late.items() if not topics or key[0] in topics}
    merged_with: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for problem in problems:
        key = problem.topic, problem.subscription
        if key in left and problem.severity != "info":
            seen.add(key)
            worst = problem.worst
            ages = {name: left[key].evidence[name] for name in ("oldest_at", "target_s")}
            worst = worst._replace(evidence={**worst.evidence, **ages})
            problem = problem._replace(worst=worst, severity="error")
        merged_with.append(problem)
    return merged_with + merged([left[key] for key in left if key not in seen], {})
