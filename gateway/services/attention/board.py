"""State of everything that needs attention: items of the overview, and the topics that each cause applies to. Pure.

It is derived again when findings or topics changed, and after ``AGES_MS`` because problems grow older.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, TypedDict
from urllib.parse import quote

from engine.admin.api.rows import ROW_COLUMNS
from engine.admin.lag import LagCause
from engine.base.names import split_topic
from gateway.services.attention.findings import Finding, Findings
from gateway.services.attention.memory import AT_LEAST, RETURNS_MS, Memory, RecordedProblem
from gateway.services.attention.outages import Outage, Outages
from gateway.services.attention.part_items import (
    Instance,
    Item,
    Stop,
    part_items,
    stopped_title,
)
from gateway.services.attention.quorums import Needs, publishing
from gateway.services.attention.ranking import Line, Problem, Ranking, harm, merged
from gateway.services.attention.wording import (
    CAUSES,
    advice,
    detail,
    group_detail,
    group_title,
    named,
    waiting,
)
from gateway.services.index.figures import Values
from gateway.services.index.rows import Row
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex

ITEMS_MAX = 5
NO_FAULT = Instance()
_SEVERITIES = ("info", "warning", "error")
ANY = "any"
"""Stands for all causes whose severity is above information."""
AGES_MS = 10_000
"""The longest time between two rounds that derive everything again."""
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
CLOCKS_MS = 5_000
"""Time before a disconnection of clients within which a problem's begin, by its broker's clock, is counted as part of
it."""
PUBLISHING_STOPPED = "when publishing stopped"
_RECONNECTION_CAUSES = frozenset(
    (
        LagCause.NO_CONSUMER,
        LagCause.RECONNECTING,
        LagCause.HELD,
        LagCause.STANDBY,
        LagCause.NO_PERMITS,
        LagCause.NOT_ACKNOWLEDGED,
    )
)
"""Causes that clients show for a while when they reconnect."""
_PRODUCERS = ROW_COLUMNS.index("producers")


class TopicCause(StrEnum):
    """Problem of a topic itself, not of one of its subscriptions."""

    UNWRITABLE = "unwritable"
    """Too few bookies are writable: no publish is confirmed."""
    PRODUCERS_LEFT = "producers-left"
    """All its producers disconnected together with many clients, and none has reconnected."""


TOPIC_CAUSES = {
    TopicCause.UNWRITABLE: "error",
    TopicCause.PRODUCERS_LEFT: "warning",
}
"""Severity by cause."""


class Trouble(TypedDict):
    """Problem of a topic itself, in the form of the console's interface."""

    cause: str
    severity: str
    title: str


class AttentionList(TypedDict):
    """Items of the overview, in the form of the console's interface.

    ``known``: every registered broker and the metadata store answer. ``since``: when the observation of all
    subscriptions began; None: it is incomplete. ``settled``: it lasts long enough for an empty list to mean that there
    are no problems.
    """

    known: bool
    since: int | None
    settled: bool
    items: list[Item]
    more: int


class LagItem(TypedDict):
    """Cause of a subscription's lag, in the form of the console's interface. ``title`` continues after its name."""

    cause: str
    severity: str
    title: str
    detail: str
    advice: str
    since: int
    at_least: bool


class Board:
    """State of all problems, for one event loop. ``version`` grows when the causes of a topic change."""

    def __init__(self, findings: Findings) -> None:
        self.version = 0
        self.needs = Needs()
        """Quorums in force, as brokers report them."""
        self._findings = findings
        self._ranking = Ranking()
        self._problems: list[Problem] = []
        self._lines: list[Line] = []
        self._derived_from: tuple[int, int, bool] = (-1, -1, False)
        """Versions of the inputs that the problems were derived from."""
        self._now = 0
        """Time of the last round, ms."""
        self._derived_at = 0
        self._since: int | None = None
        self._complete = False
        self.last_round: tuple[int | None, bool] = (None, False)
        """Result of the last round: ``since`` and ``settled``, see ``AttentionList``."""
        self._moves = 0
        self._resting: dict[str, int] = {}
        """Times since which topics with a backlog have been without a broker, ms."""
        self._rested: dict[str, Finding] = {}
        """Earlier findings of such topics, which date the beginning of their problem."""
        self._begun = 0
        """Time of the first round of this process; 0: none yet."""
        self._topics: dict[str, dict[str, None]] = {}
        """Listed topics by cause, in insertion order."""
        self._worst: dict[str, tuple[str, str]] = {}
        """Severity and cause of the most harmful problem, by listed topic."""
        self._memory = Memory()
        self._outages = Outages()
        self._stop: Stop | None = None
        """State of publishing while it is restricted."""
        self._was_unrestricted = False
        """Publishing was seen unrestricted by this process."""
        self._producers = 0
        self._deserted: dict[str, int] = {}
        """Times when topics lost their last producer, ms, within the last minute or since the present outage."""

    # --- queries --------------------------------------------------------------------------------

    def topics_of(self, cause: str) -> Collection[str]:
        """Return the listed topics with a subscription of this cause; for ANY, those with a cause above information."""
        return self._topics.get(cause, {}).keys()

    def cause_of(self, topic: str) -> tuple[str, str] | None:
        """Return severity and cause of a listed topic's most harmful problem."""
        worst = self._worst.get(topic)
        if worst is not None and worst[0] == "error":
            return worst
        cause = self._topic_cause(topic)
        return worst if cause is None else (TOPIC_CAUSES[cause], cause.value)

    def trouble_of(self, topic: str) -> Trouble | None:
        """Return the problem of a listed topic itself."""
        cause = self._topic_cause(topic)
        if cause is None:
            return None
        title = "Its producers disconnected together with many clients, and none has reconnected"
        if cause is TopicCause.UNWRITABLE and self._stop is not None:
            title = stopped_title(self._stop.state)
        return {"cause": cause.value, "severity": TOPIC_CAUSES[cause], "title": title}

    def _topic_cause(self, topic: str) -> TopicCause | None:
        stop, outage = self._stop, self._outages.current
        is_stored = topic.startswith("persistent://")
        if stop is not None and stop.state.is_stopped_everywhere and is_stored:
            return TopicCause.UNWRITABLE
        if outage is not None and self._deserted.get(topic, 0) >= outage.at - CLOCKS_MS:
            return TopicCause.PRODUCERS_LEFT
        return None

    def lags(self, topic: str, parts: Iterable[str], now_ms: int) -> dict[str, LagItem]:
        """Return the lags of a listed topic's subscriptions by name. ``parts``: its partitions, or the topic itself."""
        findings = [
            self._memory.dated(finding)
            for part in parts
            for finding in self._findings.of(part).values()
            if not self._belongs_to_outage(finding)
        ]
        worst: dict[str, tuple[float, Problem]] = {}
        for problem in merged(findings, {finding.topic: topic for finding in findings}):
            candidate = (harm(problem, now_ms), problem)
            if candidate[0] > worst.get(problem.subscription, (0.0, problem))[0]:
                worst[problem.subscription] = candidate
        at_ease = not self._outages.is_recent(now_ms)
        return {name: _lag(problem, now_ms, at_ease) for name, (_, problem) in worst.items()}

    def overview(
        self, cluster: str, now_ms: int, *, known: bool, instance: Instance, start: str = ""
    ) -> AttentionList:
        """Return the items of the overview. ``start``: see ``part_items``."""
        items = part_items(
            instance,
            cluster,
            now_ms,
            stop=self._stop,
            outage=self._outage_shown(),
            producers=self._producers,
            start=start,
        )
        at_ease = not self._outages.is_recent(now_ms)
        items += [_item(line, cluster, now_ms, at_ease) for line in self._lines]
        items.sort(key=lambda item: -item["score"])
        shown = items[:ITEMS_MAX]
        of_subscriptions = sum(item["count"] for item in shown if item["topic"])
        parts_left = sum(1 for item in items[ITEMS_MAX:] if not item["topic"])
        more = parts_left + len(self._problems) - of_subscriptions
        since = self._since if self._complete else None
        return {
            "known": known,
            "since": since,
            "settled": since is not None and now_ms - since >= SETTLED_MS,
            "items": shown,
            "more": more,
        }

    def _outage_shown(self) -> Outage | None:
        """Return the outage, unless the item about stopped publishing covers it."""
        outage, stop = self._outages.current, self._stop
        is_stopped = stop is not None and stop.state.is_stopped
        return None if outage and is_stopped and outage.why == PUBLISHING_STOPPED else outage

    # --- state ----------------------------------------------------------------------------------

    def recorded(self) -> Iterable[RecordedProblem]:
        """Return the problems with their beginnings, to be stored."""
        return self._memory.recorded()

    def recall(self, kept: Iterable[RecordedProblem], now_ms: int) -> None:
        """Adopt the problems that an earlier process stored; called before the first round."""
        self._memory.recall(kept, now_ms)

    def clients_changed(self, topic: str, before: Values, after: Values) -> None:
        """Note that the index has new numbers of a listed topic."""
        if not after[_PRODUCERS]:
            if before[_PRODUCERS]:
                self._deserted[topic] = self._now
        elif self._deserted:
            self._deserted.pop(topic, None)

    def round(
        self, topics: TopicIndex, now_ms: int, *, whole: bool, instance: Instance = NO_FAULT
    ) -> None:
        """Update the state; called when findings changed, and once a round of the collector.

        ``whole``: every topic is loaded by a broker whose findings are complete, or was read from storage.
        """
        self._complete = whole
        self._now = now_ms
        self._begun = self._begun or now_ms
        self._update_clients(topics, now_ms, instance)
        if self._moves != self._findings.moves:
            # The new owner has not found the topic's problems yet: an empty list proves nothing again.
            self._moves, self._since = self._findings.moves, None
        if whole and self._since is None:
            self._since = now_ms
        since = self._since if whole else None
        self.last_round = since, since is not None and now_ms - since >= SETTLED_MS
        inputs = (self._findings.version, topics.version, self._outages.current is not None)
        # A topic at rest becomes a problem with time alone: no input changes then.
        is_pending = any(now_ms - since < HOLD_MS + 2_000 for since in self._resting.values())
        if inputs == self._derived_from and not is_pending and now_ms - self._derived_at < AGES_MS:
            return
        self._derived_from, self._derived_at = inputs, now_ms
        self._memory.update(self._findings, now_ms)
        shown = [
            self._memory.dated(finding)
            for finding in self._findings
            if not self._belongs_to_outage(finding)
        ]
        listed = {finding.topic: topics.listed_as(finding.topic) for finding in shown}
        self._problems = merged(shown, listed)
        self._problems += self._at_rest(topics, now_ms)
        self._lines = self._ranking.lines(self._problems, ITEMS_MAX, now_ms)
        self._index_topics(now_ms)

    def _update_clients(self, topics: TopicIndex, now_ms: int, instance: Instance) -> None:
        totals = topics.totals
        producers = self._producers = int(totals["producers"])
        state = publishing(self.needs.all, list(instance.bookies))
        is_restricted = state is not None and (
            state.is_stopped or ((state.away or state.full) and (state.is_held or state.is_last))
        )
        if state is None or not is_restricted:
            self._stop = None
            self._was_unrestricted = self._was_unrestricted or state is not None
        elif self._stop is None or self._stop.state.is_stopped is not state.is_stopped:
            began = self._was_unrestricted or self._stop is not None
            self._stop = Stop(state, now_ms, self._outages.producers_before(), began)
        else:
            before = max(self._stop.producers, producers)
            self._stop = self._stop._replace(state=state, producers=before)
        stopped = PUBLISHING_STOPPED if self._stop and self._stop.state.is_stopped else ""
        fault = instance.fault or stopped
        self._outages.update(now_ms, producers, int(totals["consumers"]), fault)
        outage = self._outages.current
        oldest = now_ms - 60_000 if outage is None else outage.at - CLOCKS_MS
        for topic in [name for name, at in self._deserted.items() if at < oldest]:
            del self._deserted[topic]

    def _belongs_to_outage(self, finding: Finding) -> bool:
        """Return whether the problem belongs to an outage whose clients are still reconnecting."""
        outage = self._outages.current
        if outage is None or finding.cause not in _RECONNECTION_CAUSES:
            return False
        return not self._memory.existed_at(finding, outage.at - CLOCKS_MS)

    def _at_rest(self, topics: TopicIndex, now_ms: int) -> list[Problem]:
        """Return the problems of topics with a backlog that no broker has loaded: they have no consumers."""
        standing = topics.select(Chosen(standing=True, sort="-backlog"))
        before, self._resting = self._resting, {}
        known: dict[str, tuple[Finding, int]] = {}
        for part, finding, seen_ms in self._memory.without_consumer():
            name = topics.listed_as(part)
            if name not in known or finding.since_ms < known[name][0].since_ms:
                known[name] = finding, seen_ms
        outage = self._outages.current
        problems: list[Problem] = []
        for name in standing.names(0, RESTING_MAX):
            row = topics.row(name, now_ms)
            if row["known"] != "at_rest" or not row["backlog"]:
                continue
            since = before.get(name, now_ms)
            earlier, seen_ms = known.get(name, (None, 0))
            # A finding that ended before the topic was unloaded says nothing about the time since.
            if earlier is not None and since - seen_ms > SETTLED_MS:
                earlier = None
            # After a restart the topic is new to this process though it may have rested for long.
            if name not in before and now_ms - self._begun <= RETURNS_MS:
                earlier = earlier or self._memory.recalled_at_rest(name, row["backlog"])
            if earlier is not None and name not in before:
                self._rested[name] = earlier
            self._resting[name] = since
            earlier = self._rested.get(name)
            began = since if earlier is None else earlier.since_ms
            if outage is not None and began >= outage.at - CLOCKS_MS:
                continue
            if now_ms - since >= (HOLD_MS if row["backlog_messages"] > FEW else FEW_HOLD_MS):
                worst = _without_broker(name, row, began)
                if earlier is None or earlier.evidence.get(AT_LEAST):
                    worst.evidence[AT_LEAST] = True
                self._memory.add_at_rest(worst)
                problems += merged([worst], {})
        self._rested = {
            name: finding for name, finding in self._rested.items() if name in self._resting
        }
        if any(
            now_ms - since >= HOLD_MS for name, since in before.items() if name not in self._resting
        ):
            # A broker that has just loaded the topic has not found its problems yet.
            self._since = None
        return problems

    def _index_topics(self, now_ms: int) -> None:
        topics: dict[str, dict[str, None]] = {}
        worst: dict[str, tuple[float, str, str]] = {}
        for problem in self._problems:
            topics.setdefault(problem.cause, {})[problem.topic] = None
            if problem.severity != "info":
                topics.setdefault(ANY, {})[problem.topic] = None
            candidate = (harm(problem, now_ms), problem.severity, problem.cause)
            if candidate > worst.get(problem.topic, (0.0, "", "")):
                worst[problem.topic] = candidate
        most_harmful = {topic: (severity, cause) for topic, (_, severity, cause) in worst.items()}
        if topics != self._topics or most_harmful != self._worst:
            self._topics, self._worst = topics, most_harmful
            self.version += 1


def _without_broker(name: str, row: Row, since_ms: int) -> Finding:
    """Return the finding about a topic with a backlog that no broker has loaded."""
    evidence: dict[str, Any] = {"at_rest": True}
    if not row["backlog_unmeasured"]:
        estimated = bool(row["backlog_estimated"])
        evidence |= {"messages": row["backlog_messages"], "estimated": estimated}
    cause = LagCause.NO_CONSUMER.value
    return Finding(name, "", row["backlog"], cause, "warning", since_ms, 0.0, evidence)


# --- lines as items ---------------------------------------------------------------------------------


def topic_path(cluster: str, topic: str, subscription: str) -> str:
    """Return the path of the console's page about a listed topic's subscriptions, at one of them."""
    name = split_topic(topic)
    place = "/".join(quote(part, safe="") for part in (name.tenant, name.namespace, name.topic))
    page = f"/c/{cluster}/t/{place}"
    return f"{page}/subscriptions" + (f"#{quote(subscription, safe='')}" if subscription else "")


def _lag(problem: Problem, now_ms: int, at_ease: bool) -> LagItem:
    return {
        "cause": problem.cause,
        "severity": problem.severity,
        "title": CAUSES[problem.cause].title(problem),
        "detail": detail(problem, now_ms),
        "advice": advice(problem.cause, at_ease=at_ease),
        "since": problem.since_ms,
        "at_least": problem.at_least,
    }


def _item(line: Line, cluster: str, now_ms: int, at_ease: bool) -> Item:
    problem = line.problem
    name = problem.topic.removeprefix("persistent://")
    link = topic_path(cluster, problem.topic, problem.subscription)
    first = min(line.members, key=lambda member: (member.since_ms, not member.at_least))
    if line.total > 1:
        title, text = group_title(line.members), group_detail(line.members)
        link = f"/c/{cluster}/topics?attention={problem.cause}"
    elif problem.worst.evidence.get("at_rest"):
        title = f"{name} has a backlog and no consumer"
        text = f"{waiting(problem)} · not loaded by any broker"
    else:
        title = named(problem.subscription, CAUSES[problem.cause].title(problem))
        text = f"{name} · {detail(problem, now_ms)}"
    return {
        "key": line.key,
        "severity": max((member.severity for member in line.members), key=_SEVERITIES.index),
        "cause": problem.cause,
        "title": title,
        "detail": text,
        "advice": advice(problem.cause, at_ease=at_ease),
        "link": link,
        "command": "",
        "topic": problem.topic,
        "subscription": problem.subscription,
        "count": line.total,
        "score": round(line.score, 3),
        "since": first.since_ms,
        "at_least": first.at_least,
    }
