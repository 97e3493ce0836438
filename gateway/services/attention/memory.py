"""Memory of when problems began. Pure.

A broker that loads a topic, and a problem that returns shortly after its end, start to count from zero although the
problem is older. The memory outlives the process in history (``RecordedProblem``).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.admin.lag import LagCause
from gateway.services.attention.findings import Finding

KEPT_MS = 900_000
"""The time that a finding is remembered after it was last seen."""
RETURNS_MS = 60_000
"""A subscription that falls behind again within this time never caught up: a broker watches a newly loaded topic for a
while before it reports anything. A problem that is reported so shortly after loading may be older."""
AT_LEAST = "at_least"
"""Evidence key: the problem began at ``since_ms`` or earlier."""
_FALLS_BEHIND = frozenset(
    (
        LagCause.SLOW,
        LagCause.RATE_LIMIT,
        LagCause.HOT_KEY,
        LagCause.REDELIVERY,
        LagCause.DELAYED,
    )
)
"""Causes that acknowledgements do not end: the subscription acknowledges meanwhile."""


class RecordedProblem(NamedTuple):
    """A problem as history stores it.

    ``subscription`` is empty for a topic at rest. ``ended_ms``: when the last consumer disconnected, or the last
    acknowledgement arrived; 0: unknown. ``backlog``: that of a topic at rest. ``seen_ms``: when the problem was last
    present; None: it still is.
    """

    topic: str
    subscription: str
    cause: str
    since_ms: int
    at_least: bool
    ended_ms: int
    backlog: int | None
    seen_ms: int | None


class Memory:
    """Last finding of each subscription. ``update`` receives all findings repeatedly; ``dated`` corrects their age."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[Finding, int]] = {}
        """Last finding and when it was seen, by topic or partition and subscription."""
        self._updated_ms = 0
        self._recalled: dict[str, Finding] = {}
        """Topics that were at rest when an earlier process of the console recorded them."""

    def update(self, findings: Iterable[Finding], now_ms: int) -> None:
        """Remember the present findings and drop those last seen longer than ``KEPT_MS`` ago."""
        self._updated_ms = now_ms
        for finding in findings:
            self._last[finding.topic, finding.subscription] = self.dated(finding), now_ms
        old = [key for key, (_, seen_ms) in self._last.items() if now_ms - seen_ms > KEPT_MS]
        for key in old:
            del self._last[key]

    def add_at_rest(self, finding: Finding) -> None:
        """Remember a topic with a backlog that no broker has loaded; called after ``update``."""
        self._last[finding.topic, ""] = finding, self._updated_ms

    def dated(self, finding: Finding) -> Finding:
        """Return the finding with the time when the problem began.

        Only an event that the broker observed since it loaded the topic ends an earlier problem: a consumer that
        connected, an acknowledgement; for the causes in ``_FALLS_BEHIND``, ``RETURNS_MS`` without the problem.
        """
        before, seen_ms = self._last.get((finding.topic, finding.subscription), (finding, 0))
        if before.cause != finding.cause or before.since_ms >= finding.since_ms:
            return _judged(finding)
        ended = _end_key(finding.cause)
        if finding.cause in _FALLS_BEHIND:
            if finding.since_ms - seen_ms > RETURNS_MS:
                return _judged(finding)
        elif finding.evidence.get(ended):
            return _judged(finding)
        last = before.evidence.get(ended, 0)
        evidence = {**finding.evidence, "before_load": True}
        if finding.cause not in _FALLS_BEHIND:
            evidence[ended] = last
        if before.evidence.get(AT_LEAST):
            evidence[AT_LEAST] = True
        return finding._replace(since_ms=before.since_ms, evidence=evidence)

    def without_consumer(self) -> Iterator[tuple[str, Finding, int]]:
        """Yield topic or partition, finding and when it was seen of each subscription that had no consumer."""
        for (topic, _), (finding, seen_ms) in self._last.items():
            if finding.cause == LagCause.NO_CONSUMER:
                yield topic, finding, seen_ms

    def recalled_at_rest(self, topic: str, backlog: int) -> Finding | None:
        """Return and forget the recalled problem of a topic at rest; None unless its backlog is the same.

        An unchanged backlog shows that the topic was not consumed in between.
        """
        finding = self._recalled.pop(topic, None)
        return finding if finding is not None and finding.backlog == backlog else None

    def existed_at(self, finding: Finding, at_ms: int) -> bool:
        """Return whether the problem began before ``at_ms``."""
        return self.dated(finding).since_ms < at_ms

    # --- what outlives the process --------------------------------------------------------------

    def recorded(self) -> Iterator[RecordedProblem]:
        """Yield all remembered problems as they are to be stored."""
        for (topic, subscription), (finding, seen_ms) in self._last.items():
            at_rest = not subscription
            yield RecordedProblem(
                topic,
                subscription,
                finding.cause,
                finding.since_ms,
                at_least=bool(finding.evidence.get(AT_LEAST)),
                ended_ms=int(finding.evidence.get(_end_key(finding.cause)) or 0),
                backlog=finding.backlog if at_rest else None,
                seen_ms=None if seen_ms == self._updated_ms else seen_ms,
            )

    def recall(self, kept: Iterable[RecordedProblem], now_ms: int) -> None:
        """Adopt stored problems, all with ``seen_ms``; called before the first ``update``."""
        for problem in kept:
            seen_ms = problem.seen_ms or 0
            # A time in the future, after a change of the clock, would never expire.
            if not 0 <= now_ms - seen_ms <= KEPT_MS:
                continue
            evidence = {_end_key(problem.cause): problem.ended_ms, AT_LEAST: problem.at_least}
            finding = Finding(
                problem.topic,
                problem.subscription,
                problem.backlog,
                problem.cause,
                "warning",
                problem.since_ms,
                0.0,
                evidence,
            )
            if problem.subscription:
                self._last[problem.topic, problem.subscription] = finding, seen_ms
            else:
                self._recalled[problem.topic] = finding


def _end_key(cause: str) -> str:
    """Return the evidence key of the moment that ends a problem of this cause."""
    return "left_ms" if cause == LagCause.NO_CONSUMER else "acked_ms"


def _judged(finding: Finding) -> Finding:
    """Return the finding, with ``AT_LEAST`` when the problem may be older than the broker's loading of the topic."""
    evidence = finding.evidence
    is_observed = finding.cause not in _FALLS_BEHIND and evidence.get(_end_key(finding.cause))
    loaded_ms = evidence.get("loaded_ms", finding.since_ms)  # earlier versions do not report it
    if is_observed or finding.since_ms - loaded_ms > RETURNS_MS:
        return finding
    return finding._replace(evidence={**evidence, AT_LEAST: True})
