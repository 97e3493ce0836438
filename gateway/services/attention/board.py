"""What needs attention, kept as brokers and hops tell it: lines for the overview, and which topics have which cause for
the list of topics. Looked through when something changed or time made it older. Pure."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, TypedDict
from urllib.parse import quote

from engine.admin.api import ROW_COLUMNS
from engine.admin.lag import LagCause
from engine.base.names import split_topic
from gateway.services.attention.findings import Finding, Findings
from gateway.services.attention.memory import AT_LEAST, RETURNS_MS, Kept, Memory
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
NOTHING_IS_AWAY = Instance()
_SEVERITIES = ("info", "warning", "error")
ANY = "any"
"""In place of a cause: all that are no mere information."""
AGES_MS = 10_000
"""Looked through again after this time though nothing changed: problems grow older."""
HOLD_MS = 10_000
"""A topic that no broker has loaded has a problem once that was so for this long: topics move."""
FEW = 10
FEW_HOLD_MS = 300_000
"""And for this long when so few messages wait, as brokers have it: clients take a while to come again."""
RESTING_MAX = 1_000
"""Of those with the largest backlogs."""
SETTLED_MS = HOLD_MS + 2_000
"""After this time a cause that held when the looking began was told: brokers take as long as ``HOLD_MS`` themselves."""
CLOCKS_MS = 5_000
"""What began so shortly before clients left, by its broker's clock, began with it."""
PUBLISHING_STOPPED = "when publishing stopped"
_OF_CLIENTS = frozenset(
    (
        LagCause.NO_CONSUMER,
        LagCause.RECONNECTING,
        LagCause.HELD,
        LagCause.STANDBY,
        LagCause.NO_PERMITS,
        LagCause.NOT_ACKNOWLEDGED,
    )
)
"""What clients that come back are seen with for a while."""
_PRODUCERS = ROW_COLUMNS.index("producers")


class TopicCause(StrEnum):
    """Of a topic itself, not of one of its subscriptions."""

    UNWRITABLE = "unwritable"
    """Too few bookies are writable: nothing is acknowledged."""
    PRODUCERS_LEFT = "producers-left"
    """Its producers left when many clients did, and none is back."""


TOPIC_CAUSES = {
    TopicCause.UNWRITABLE: "error",
    TopicCause.PRODUCERS_LEFT: "warning",
}
"""With their severity."""


class Trouble(TypedDict):
    """What is wrong with a topic itself, as of the contract."""

    cause: str
    severity: str
    title: str


class Found(TypedDict):
    """``known``: every registered broker and the store answer. ``since``: since when all subscriptions are looked at;
    None: not all are. ``settled``: for long enough, so that nothing found means that nothing is."""

    known: bool
    since: int | None
    settled: bool
    items: list[Item]
    more: int


class Lag(TypedDict):
    """Why a subscription does not drain, as of the contract. ``title`` goes on after its name."""

    cause: str
    severity: str
    title: str
    detail: str
    advice: str
    since: int
    at_least: bool


class Board:
    """On one event loop. ``version`` grows when another cause holds of some topic."""

    def __init__(self, findings: Findings) -> None:
        self.version = 0
        self.needs = Needs()
        """How many bookies ledgers need, as brokers report it."""
        self._findings = findings
        self._ranking = Ranking()
        self._problems: list[Problem] = []
        self._lines: list[Line] = []
        self._seen: tuple[int, int, bool] = (-1, -1, False)
        self._now = 0
        """Of the last round."""
        self._at = 0
        self._since: int | None = None
        self._whole = False
        self.looked: tuple[int | None, bool] = (None, False)
        """Since when all is looked at, and whether that is long enough, as of the last round."""
        self._moves = 0
        self._resting: dict[str, int] = {}
        """Since when topics with a backlog have been without a broker."""
        self._rested: dict[str, Finding] = {}
        """What was found of them before: in that they began."""
        self._begun = 0
        """When this console first looked; 0: not yet."""
        self._topics: dict[str, dict[str, None]] = {}
        self._worst: dict[str, tuple[str, str]] = {}
        self._memory = Memory()
        self._outages = Outages()
        self._stop: Stop | None = None
        """How publishing stands, while it is not as it should be."""
        self._was_well = False
        """Publishing was as it should be in the life of this console."""
        self._producers = 0
        self._deserted: dict[str, int] = {}
        """When each topic lost its last producer, ms, within the last minute or with the clients that left."""

    # --- what is asked --------------------------------------------------------------------------

    def topics_of(self, cause: str) -> Collection[str]:
        """The listed topics of which a subscription has this cause; of ANY those that have one and should not."""
        return self._topics.get(cause, {}).keys()

    def cause_of(self, topic: str) -> tuple[str, str] | None:
        """Severity and cause of a listed topic's most harmful problem."""
        worst = self._worst.get(topic)
        if worst is not None and worst[0] == "error":
            return worst
        cause = self._topic_cause(topic)
        return worst if cause is None else (TOPIC_CAUSES[cause], cause.value)

    def trouble_of(self, topic: str) -> Trouble | None:
        """What is wrong with a listed topic itself."""
        cause = self._topic_cause(topic)
        if cause is None:
            return None
        title = "Its producers left when many clients did, and none is back"
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

    def lags(self, topic: str, parts: Iterable[str], now_ms: int) -> dict[str, Lag]:
        """Why subscriptions of a listed topic do not drain, by name. ``parts``: its partitions, or itself."""
        told = [one for part in parts for one in self._findings.of(part).values()]
        found = [self._memory.true(one) for one in told if not self._left_with_others(one)]
        out: dict[str, tuple[float, Problem]] = {}
        for problem in merged(found, {one.topic: topic for one in found}):
            candidate = (harm(problem, now_ms), problem)
            if candidate[0] > out.get(problem.subscription, (0.0, problem))[0]:
                out[problem.subscription] = candidate
        at_ease = not self._outages.is_recent(now_ms)
        return {name: _lag(problem, now_ms, at_ease) for name, (_, problem) in out.items()}

    def found(
        self, cluster: str, now_ms: int, *, known: bool, instance: Instance, start: str = ""
    ) -> Found:
        """The overview's part. ``start``: see ``part_items``."""
        items = part_items(
            *(instance, cluster, now_ms),
            stop=self._stop,
            outage=self._outage_to_tell(),
            producers=self._producers,
            start=start,
        )
        at_ease = not self._outages.is_recent(now_ms)
        items += [_item(line, cluster, now_ms, at_ease) for line in self._lines]
        items.sort(key=lambda item: -item["score"])
        shown = items[:ITEMS_MAX]
        of_subscriptions = sum(item["count"] for item in shown if item["topic"])
        left = sum(1 for item in items[ITEMS_MAX:] if not item["topic"])
        more = left + len(self._problems) - of_subscriptions
        since = self._since if self._whole else None
        return {
            "known": known,
            "since": since,
            "settled": since is not None and now_ms - since >= SETTLED_MS,
            "items": shown,
            "more": more,
        }

    def _outage_to_tell(self) -> Outage | None:
        """Those that left for want of bookies are told with that."""
        outage, stop = self._outages.current, self._stop
        is_told = stop is not None and stop.state.is_stopped
        return None if outage and is_told and outage.why == PUBLISHING_STOPPED else outage

    # --- what is kept ---------------------------------------------------------------------------

    def kept(self) -> Iterable[Kept]:
        """What is known of when problems began, for whoever stores it."""
        return self._memory.kept()

    def recall(self, kept: Iterable[Kept], now_ms: int) -> None:
        """Take over what an earlier life of the console knew of when problems began; before the first round."""
        self._memory.recall(kept, now_ms)

    def clients_changed(self, topic: str, before: Values, after: Values) -> None:
        """The index has other numbers of a listed topic."""
        if not after[_PRODUCERS]:
            if before[_PRODUCERS]:
                self._deserted[topic] = self._now
        elif self._deserted:
            self._deserted.pop(topic, None)

    def round(
        self, topics: TopicIndex, now_ms: int, *, whole: bool, instance: Instance = NOTHING_IS_AWAY
    ) -> None:
        """When brokers told what is behind, and once a round of the collector. ``whole``: every topic was read or is
        loaded by a broker that told all."""
        self._whole = whole
        self._now = now_ms
        self._begun = self._begun or now_ms
        self._look_at_clients(topics, now_ms, instance)
        if self._moves != self._findings.moves:
            self._moves, self._since = self._findings.moves, None
        if whole and self._since is None:
            self._since = now_ms
        since = self._since if whole else None
        self.looked = since, since is not None and now_ms - since >= SETTLED_MS
        seen = (self._findings.version, topics.version, self._outages.current is not None)
        waits = any(now_ms - since < HOLD_MS + 2_000 for since in self._resting.values())
        if seen == self._seen and not waits and now_ms - self._at < AGES_MS:
            return
        self._seen, self._at = seen, now_ms
        self._memory.look(self._findings, now_ms)
        shown = [
            self._memory.true(one) for one in self._findings if not self._left_with_others(one)
        ]
        listed = {one.topic: topics.listed_as(one.topic) for one in shown}
        self._problems = merged(shown, listed)
        self._problems += self._at_rest(topics, now_ms)
        self._lines = self._ranking.lines(self._problems, ITEMS_MAX, now_ms)
        self._sort_topics(now_ms)

    def _look_at_clients(self, topics: TopicIndex, now_ms: int, instance: Instance) -> None:
        totals = topics.totals
        producers = self._producers = int(totals["producers"])
        state = publishing(self.needs.all, list(instance.bookies))
        short = state is not None and (
            state.is_stopped or ((state.away or state.full) and (state.is_held or state.is_last))
        )
        if state is None or not short:
            self._stop = None
            self._was_well = self._was_well or state is not None
        elif self._stop is None or self._stop.state.is_stopped is not state.is_stopped:
            began = self._was_well or self._stop is not None
            self._stop = Stop(state, now_ms, self._outages.producers_before(), began)
        else:
            before = max(self._stop.producers, producers)
            self._stop = self._stop._replace(state=state, producers=before)
        stopped = PUBLISHING_STOPPED if self._stop and self._stop.state.is_stopped else ""
        fault = instance.fault or stopped
        self._outages.look(now_ms, producers, int(totals["consumers"]), fault)
        outage = self._outages.current
        oldest = now_ms - 60_000 if outage is None else outage.at - CLOCKS_MS
        for topic in [name for name, at in self._deserted.items() if at < oldest]:
            del self._deserted[topic]

    def _left_with_others(self, finding: Finding) -> bool:
        """Whether it is because many clients left, of which most are still on their way back."""
        outage = self._outages.current
        if outage is None or finding.cause not in _OF_CLIENTS:
            return False
        return not self._memory.knew(finding, outage.at - CLOCKS_MS)

    def _at_rest(self, topics: TopicIndex, now_ms: int) -> list[Problem]:
        """Topics with a backlog that no broker has loaded: nobody consumes them."""
        standing = topics.select(Chosen(standing=True, sort="-backlog"))
        before, self._resting = self._resting, {}
        known: dict[str, tuple[Finding, int]] = {}
        for part, finding, seen in self._memory.without_consumer():
            name = topics.listed_as(part)
            if name not in known or finding.since_ms < known[name][0].since_ms:
                known[name] = finding, seen
        outage = self._outages.current
        found: list[Problem] = []
        for name in standing.names(0, RESTING_MAX):
            row = topics.row(name, now_ms)
            if row["known"] != "at_rest" or not row["backlog"]:
                continue
            since = before.get(name, now_ms)
            earlier, seen = known.get(name, (None, 0))
            if earlier is not None and since - seen > SETTLED_MS:
                earlier = None  # else it was so until nobody had it
            if name not in before and now_ms - self._begun <= RETURNS_MS:
                earlier = earlier or self._memory.rested(name, row["backlog"])
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
                self._memory.look_at_rest(worst)
                found += merged([worst], {})
        self._rested = {name: one for name, one in self._rested.items() if name in self._resting}
        if any(
            now_ms - since >= HOLD_MS for name, since in before.items() if name not in self._resting
        ):
            self._since = None  # a broker has it now, and has to see first what is wrong
        return found

    def _sort_topics(self, now_ms: int) -> None:
        topics: dict[str, dict[str, None]] = {}
        worst: dict[str, tuple[float, str, str]] = {}
        for one in self._problems:
            topics.setdefault(one.cause, {})[one.topic] = None
            if one.severity != "info":
                topics.setdefault(ANY, {})[one.topic] = None
            candidate = (harm(one, now_ms), one.severity, one.cause)
            if candidate > worst.get(one.topic, (0.0, "", "")):
                worst[one.topic] = candidate
        told = {topic: (severity, cause) for topic, (_, severity, cause) in worst.items()}
        if topics != self._topics or told != self._worst:
            self._topics, self._worst = topics, told
            self.version += 1


def _without_broker(name: str, row: Row, since_ms: int) -> Finding:
    """Of a topic with a backlog that no broker has loaded."""
    evidence: dict[str, Any] = {"at_rest": True}
    if not row["backlog_unmeasured"]:
        estimated = bool(row["backlog_estimated"])
        evidence |= {"messages": row["backlog_messages"], "estimated": estimated}
    cause = LagCause.NO_CONSUMER.value
    return Finding(name, "", row["backlog"], cause, "warning", since_ms, 0.0, evidence)


# --- lines in words ---------------------------------------------------------------------------------


def topic_path(cluster: str, topic: str, subscription: str) -> str:
    """The console's page of a listed topic's subscriptions, at one of them."""
    name = split_topic(topic)
    place = "/".join(quote(part, safe="") for part in (name.tenant, name.namespace, name.topic))
    page = f"/c/{cluster}/t/{place}"
    return f"{page}/subscriptions" + (f"#{quote(subscription, safe='')}" if subscription else "")


def _lag(problem: Problem, now_ms: int, at_ease: bool) -> Lag:
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
    first = min(line.members, key=lambda one: (one.since_ms, not one.at_least))
    if line.total > 1:
        title, text = group_title(line.members), group_detail(line.members)
        link = f"/c/{cluster}/topics?attention={problem.cause}"
    elif problem.worst.evidence.get("at_rest"):
        title = f"{name} has a backlog and no consumer"
        text = f"{waiting(problem)} · no broker has it loaded"
    else:
        title = named(problem.subscription, CAUSES[problem.cause].title(problem))
        text = f"{name} · {detail(problem, now_ms)}"
    return {
        "key": line.key,
        "severity": max((one.severity for one in line.members), key=_SEVERITIES.index),
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
