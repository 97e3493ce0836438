"""Since when problems are there: a topic that another broker loads, or the same again, begins to count anew, and the
problem does not. Pure."""

from collections.abc import Iterable, Iterator

from engine.admin.lag import LagCause
from gateway.services.attention.findings import Finding

KEPT_MS = 900_000
"""What was found of a topic is remembered for so long after it was last seen."""


class Memory:
    """``look`` with all that is found, again and again; ``true`` says what is found with when it began."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[Finding, int]] = {}
        """By topic or partition and subscription: what was found there last, and when that was seen."""

    def look(self, findings: Iterable[Finding], now_ms: int) -> None:
        """Take in what is found now."""
        for finding in findings:
            self._found[finding.topic, finding.subscription] = self.true(finding), now_ms
        old = [key for key, (_, seen) in self._found.items() if now_ms - seen > KEPT_MS]
        for key in old:
            del self._found[key]

    def true(self, finding: Finding) -> Finding:
        """The finding as of its beginning. Only what the broker has seen since it loaded the topic ends a problem that
        was there before: a consumer that came, something that was acknowledged."""
        before, _ = self._found.get((finding.topic, finding.subscription), (finding, 0))
        if before.cause != finding.cause or before.since_ms >= finding.since_ms:
            return finding
        ended = "left_ms" if finding.cause == LagCause.NO_CONSUMER else "acked_ms"
        if finding.evidence.get(ended):
            return finding
        last = before.evidence.get(ended, 0)
        return finding._replace(
            since_ms=before.since_ms,
            evidence={**finding.evidence, ended: last, "before_load": True},
        )

    def without_consumer(self) -> Iterator[tuple[str, int, int]]:
        """Topics or partitions that had a subscription without a consumer, since when, and when that was last seen."""
        for (topic, _), (finding, seen_ms) in self._found.items():
            if finding.cause == LagCause.NO_CONSUMER:
                yield topic, finding.since_ms, seen_ms

    def knew(self, finding: Finding, at_ms: int) -> bool:
        """Whether it was there already at this time."""
        return self.true(finding).since_ms < at_ms
