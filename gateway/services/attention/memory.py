"""Since when problems are there: a topic that another broker loads, or the same again, begins to count anew, and the
problem does not. What is known outlives the process in history (``Kept``). Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.admin.lag import LagCause
from gateway.services.attention.findings import Finding

KEPT_MS = 900_000
"""What was found of a topic is remembered for so long after it was last seen."""
RETURNS_MS = 60_000
"""A subscription that falls behind again within this time never caught up: a topic that is loaded anew has to be
watched for a while before anything is found. What began so shortly after the topic was loaded may be older."""
AT_LEAST = "at_least"
"""Evidence: it began at ``since_ms`` or earlier."""
_FALLS_BEHIND = frozenset(
    (
        LagCause.SLOW,
        LagCause.RATE_LIMIT,
        LagCause.HOT_KEY,
        LagCause.REDELIVERY,
        LagCause.DELAYED,
    )
)
"""Acknowledging, which goes on meanwhile, does not end these."""


class Kept(NamedTuple):
    """A problem as it is stored. ``subscription`` is empty for a topic at rest. ``ended_ms``: when the last consumer
    left, or something was last acknowledged; 0: not known. ``backlog``: of a topic at rest. ``seen_ms``: when it was
    last there; None: it still is."""

    topic: str
    subscription: str
    cause: str
    since_ms: int
    at_least: bool
    ended_ms: int
    backlog: int | None
    seen_ms: int | None


class Memory:
    """``look`` with all that is found, again and again; ``true`` says what is found with when it began."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[Finding, int]] = {}
        """By topic or partition and subscription: what was found there last, and when that was seen."""
        self._looked_ms = 0
        self._recalled: dict[str, Finding] = {}
        """Topics that were at rest in an earlier life of the console."""

    def look(self, findings: Iterable[Finding], now_ms: int) -> None:
        """Take in what is found now."""
        self._looked_ms = now_ms
        for finding in findings:
            self._found[finding.topic, finding.subscription] = self.true(finding), now_ms
        old = [key for key, (_, seen) in self._found.items() if now_ms - seen > KEPT_MS]
        for key in old:
            del self._found[key]

    def look_at_rest(self, finding: Finding) -> None:
        """Take in a topic with a backlog that no broker has loaded, after ``look``."""
        self._found[finding.topic, ""] = finding, self._looked_ms

    def true(self, finding: Finding) -> Finding:
        """The finding as of its beginning. Only what the broker has seen since it loaded the topic ends a problem that
        was there before: a consumer that came, something that was acknowledged; of one that falls behind, that it did
        not for a while."""
        before, seen_ms = self._found.get((finding.topic, finding.subscription), (finding, 0))
        if before.cause != finding.cause or before.since_ms >= finding.since_ms:
            return _judged(finding)
        ended = _what_ends(finding.cause)
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
        """Topics or partitions that had a subscription without a consumer, that finding, and when it was last seen."""
        for (topic, _), (finding, seen_ms) in self._found.items():
            if finding.cause == LagCause.NO_CONSUMER:
                yield topic, finding, seen_ms

    def rested(self, topic: str, backlog: int) -> Finding | None:
        """The problem of a topic that was at rest in an earlier life of the console with the same backlog: nobody
        consumed it since. Tells once."""
        found = self._recalled.pop(topic, None)
        return found if found is not None and found.backlog == backlog else None

    def knew(self, finding: Finding, at_ms: int) -> bool:
        """Whether it was there already at this time."""
        return self.true(finding).since_ms < at_ms

    # --- what outlives the process --------------------------------------------------------------

    def kept(self) -> Iterator[Kept]:
        """Everything that is remembered."""
        for (topic, subscription), (finding, seen_ms) in self._found.items():
            at_rest = not subscription
            yield Kept(
                *(topic, subscription, finding.cause, finding.since_ms),
                at_least=bool(finding.evidence.get(AT_LEAST)),
                ended_ms=int(finding.evidence.get(_what_ends(finding.cause)) or 0),
                backlog=finding.backlog if at_rest else None,
                seen_ms=None if seen_ms == self._looked_ms else seen_ms,
            )

    def recall(self, kept: Iterable[Kept], now_ms: int) -> None:
        """Take over what was stored, each with ``seen_ms``; before anything is looked at."""
        for one in kept:
            seen_ms = one.seen_ms or 0
            if not 0 <= now_ms - seen_ms <= KEPT_MS:
                continue
            evidence = {_what_ends(one.cause): one.ended_ms, AT_LEAST: one.at_least}
            finding = Finding(
                *(one.topic, one.subscription, one.backlog, one.cause, "warning"),
                *(one.since_ms, 0.0, evidence),
            )
            if one.subscription:
                self._found[one.topic, one.subscription] = finding, seen_ms
            else:
                self._recalled[one.topic] = finding


def _what_ends(cause: str) -> str:
    return "left_ms" if cause == LagCause.NO_CONSUMER else "acked_ms"


def _judged(finding: Finding) -> Finding:
    """Say ``AT_LEAST`` of a problem that may have been there before its broker loaded the topic."""
    seen = finding.evidence
    is_seen = finding.cause not in _FALLS_BEHIND and seen.get(_what_ends(finding.cause))
    loaded_ms = seen.get("loaded_ms", finding.since_ms)  # of an earlier version: nobody knows
    if is_seen or finding.since_ms - loaded_ms > RETURNS_MS:
        return finding
    return finding._replace(evidence={**seen, AT_LEAST: True})
