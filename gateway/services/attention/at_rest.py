"""Problems of topics with a backlog that no broker has loaded: they have no consumers. Pure."""

from typing import Any

from engine.admin.lag import LagCause
from engine.auth.viewer import ALL
from gateway.services.attention.findings import Finding
from gateway.services.attention.memory import AT_LEAST, RETURNS_MS, Memory
from gateway.services.attention.outages import CLOCKS_MS, Outage
from gateway.services.attention.ranking import Problem, merged
from gateway.services.index.rows import Row
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex

HOLD_MS = 10_000
"""The time after which a topic that no broker has loaded is a problem; topics that move are loaded before."""
FEW = 10
FEW_HOLD_MS = 300_000
"""The same for a backlog of at most ``FEW`` messages, as brokers have it: clients may be about to reconnect."""
RESTING_MAX = 1_000
"""Bound on the topics at rest that are checked, those with the largest backlogs."""
SETTLED_MS = HOLD_MS + 2_000
"""Time after which every cause that applied at the start of the observation was reported: brokers hold causes back for
``HOLD_MS``, too."""


class TopicsWithoutBroker:
    """Topics with a backlog that no broker has loaded, from one call of ``problems`` to the next. Their problems are
    added to ``memory``."""

    def __init__(self, memory: Memory) -> None:
        self.were_loaded = False
        """True when a topic that had a problem before the last call does not any more: a broker has just loaded it."""
        self._memory = memory
        self._begun = 0
        """Time of the first call, ms; 0: none yet."""
        self._since: dict[str, int] = {}
        """Times since which topics have been without a broker, ms."""
        self._earlier: dict[str, Finding] = {}
        """Earlier findings of them, which date the beginning of their problem."""

    def is_pending(self, now_ms: int) -> bool:
        """Return whether time alone can make a topic a problem now."""
        return any(now_ms - since < HOLD_MS + 2_000 for since in self._since.values())

    def problems(self, topics: TopicIndex, outage: Outage | None, now_ms: int) -> list[Problem]:
        """Return the problems, but those that began with the ``outage``."""
        self._begun = self._begun or now_ms
        before, self._since = self._since, {}
        known = self._found_before(topics)
        problems: list[Problem] = []
        standing = topics.select(ALL, Chosen(standing=True, sort="-backlog"))
        for name in standing.names(0, RESTING_MAX):
            row = topics.row(name, now_ms)
            if row["known"] != "at_rest" or not row["backlog"]:
                continue
            since = self._since[name] = before.get(name, now_ms)
            if name not in before:
                earlier = self._earlier_finding(row, known.get(name), since, now_ms)
                if earlier is not None:
                    self._earlier[name] = earlier
            earlier = self._earlier.get(name)
            began = since if earlier is None else earlier.since_ms
            if outage is not None and began >= outage.at - CLOCKS_MS:
                continue
            if now_ms - since >= (HOLD_MS if row["backlog_messages"] > FEW else FEW_HOLD_MS):
                worst = _without_broker(name, row, began)
                if earlier is None or earlier.evidence.get(AT_LEAST):
                    worst.evidence[AT_LEAST] = True
                self._memory.add_at_rest(worst)
                problems += merged([worst], {})
        self._earlier = {name: self._earlier[name] for name in self._since if name in self._earlier}
        self.were_loaded = any(
            now_ms - since >= HOLD_MS for name, since in before.items() if name not in self._since
        )
        return problems

    def _found_before(self, topics: TopicIndex) -> dict[str, tuple[Finding, int]]:
        """Return the oldest finding without a consumer of each listed topic, and when it was last seen, ms."""
        known: dict[str, tuple[Finding, int]] = {}
        for part, finding, seen_ms in self._memory.without_consumer():
            name = topics.listed_as(part)
            if name not in known or finding.since_ms < known[name][0].since_ms:
                known[name] = finding, seen_ms
        return known

    def _earlier_finding(
        self, row: Row, known: tuple[Finding, int] | None, since: int, now_ms: int
    ) -> Finding | None:
        """Return the finding that dates the problem of a topic that has no broker from now on."""
        # A finding that ended before the topic was unloaded says nothing about the time since.
        if known is not None and since - known[1] <= SETTLED_MS:
            return known[0]
        # After a restart the topic is new to this process though it may have rested for long.
        if now_ms - self._begun <= RETURNS_MS:
            return self._memory.recalled_at_rest(row["name"], row["backlog"])
        return None


def _without_broker(name: str, row: Row, since_ms: int) -> Finding:
    """Return the finding about a topic with a backlog that no broker has loaded."""
    evidence: dict[str, Any] = {"at_rest": True}
    if not row["backlog_unmeasured"]:
        estimated = bool(row["backlog_estimated"])
        evidence |= {"messages": row["backlog_messages"], "estimated": estimated}
    cause = LagCause.NO_CONSUMER.value
    return Finding(name, "", row["backlog"], cause, "warning", since_ms, 0.0, evidence)
