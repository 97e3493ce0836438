"""State of everything that needs attention: items of the overview, and the topics that each cause applies to. Pure.

It is derived again when findings or topics changed, and after ``AGES_MS`` because problems grow older.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import TypedDict

from engine.admin.api.rows import ROW_COLUMNS
from engine.admin.lag import LagCause
from engine.auth.viewer import ALL, Viewer
from gateway.services.attention.at_rest import SETTLED_MS, TopicsWithoutBroker
from gateway.services.attention.findings import Finding, Findings
from gateway.services.attention.lag_items import LagItem, lag_item, line_item
from gateway.services.attention.link_items import (
    Behind,
    Broken,
    broken_links,
    link_item,
    seen_links,
)
from gateway.services.attention.memory import Memory, RecordedProblem
from gateway.services.attention.outages import CLOCKS_MS, Outage, Outages
from gateway.services.attention.overdue import Late, with_late
from gateway.services.attention.part_items import (
    Instance,
    Item,
    Stop,
    part_items,
    stopped_title,
)
from gateway.services.attention.quorums import Needs, publishing
from gateway.services.attention.ranking import Line, Problem, Ranking, harm, merged
from gateway.services.geo.link_figures import LinkFigures
from gateway.services.index.figures import Values
from gateway.services.index.topic_index import TopicIndex
from gateway.services.subscriptions.subscription_index import key_of

ITEMS_MAX = 5
NO_FAULT = Instance()
ANY = "any"
"""Stands for all causes whose severity is above information."""
AGES_MS = 10_000
"""The longest time between two rounds that derive everything again."""
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
        self.broken_links: list[Broken] = []
        """Links to other clusters on which messages are not sent, of the last round."""
        self._derived_from: tuple[object, ...] = ()
        """Versions of the inputs that the problems were derived from."""
        self._now = 0
        """Time of the last round, ms."""
        self._derived_at = 0
        self._since: int | None = None
        self._complete = False
        self.last_round: tuple[int | None, bool] = (None, False)
        """Result of the last round: ``since`` and ``settled``, see ``AttentionList``."""
        self._moves = 0
        self._topics: dict[str, dict[str, None]] = {}
        """Listed topics by cause, in insertion order."""
        self._worst: dict[str, tuple[str, str]] = {}
        """Severity and cause of the most harmful problem, by listed topic."""
        self._subscriptions: dict[str, dict[str, None]] = {}
        """Keys of subscriptions by cause."""
        self._worst_of: dict[str, tuple[str, str]] = {}
        """Severity and cause of the most harmful problem, by key of the subscription."""
        self._late: Late = {}
        self._memory = Memory()
        self._without_broker = TopicsWithoutBroker(self._memory)
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

    def subscriptions_of(self, cause: str) -> Collection[str]:
        """Return the keys of the subscriptions with this cause; for ANY, of those with a cause above information."""
        return self._subscriptions.get(cause, {}).keys()

    def cause_of_subscription(self, key: str) -> tuple[str, str] | None:
        """Return severity and cause of a subscription's most harmful problem."""
        return self._worst_of.get(key)

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
        problems = merged(findings, {finding.topic: topic for finding in findings})
        for problem in with_late(problems, self._late, [topic]):
            candidate = (harm(problem, now_ms), problem)
            if candidate[0] > worst.get(problem.subscription, (0.0, problem))[0]:
                worst[problem.subscription] = candidate
        at_ease = not self._outages.is_recent(now_ms)
        return {name: lag_item(problem, now_ms, at_ease) for name, (_, problem) in worst.items()}

    def overview(
        self,
        viewer: Viewer,
        cluster: str,
        now_ms: int,
        *,
        known: bool,
        instance: Instance,
        behind: Behind = lambda remote: (),
        start: str = "",
    ) -> AttentionList:
        """Return the items of the overview. ``behind``: the topics that are behind, by link; ``start``: see
        ``part_items``.

        A viewer who does not see everything gets those of subscriptions, and of links for the topics that it sees:
        items about parts count the topics and clients of all tenants.
        """
        items: list[Item] = []
        problems, lines = self._problems, self._lines
        if viewer.everything:
            items = self.items_of_parts(cluster, now_ms, instance=instance, start=start)
        else:
            problems = [problem for problem in problems if viewer.sees_topic(problem.topic)]
            # Of the moment that the lines of all are of, so that both have the same scores.
            lines = self._ranking.ranked(problems, ITEMS_MAX, self._derived_at)
            items = [
                link_item(broken, cluster, of_all=False)
                for broken in seen_links(self.broken_links, behind, viewer, now_ms)
            ]
        at_ease = not self._outages.is_recent(now_ms)
        items += [line_item(line, cluster, now_ms, at_ease) for line in lines]
        items.sort(key=lambda item: -item["score"])
        shown = items[:ITEMS_MAX]
        of_subscriptions = sum(item["count"] for item in shown if item["topic"])
        parts_left = sum(1 for item in items[ITEMS_MAX:] if not item["topic"])
        more = parts_left + len(problems) - of_subscriptions
        since = self._since if self._complete else None
        return {
            "known": known,
            "since": since,
            "settled": since is not None and now_ms - since >= SETTLED_MS,
            "items": shown,
            "more": more,
        }

    @property
    def problems(self) -> Sequence[Problem]:
        """All problems of subscriptions and topics at rest, unordered, as of the last round."""
        return self._problems

    def items_of_parts(
        self, cluster: str, now_ms: int, *, instance: Instance, start: str = ""
    ) -> list[Item]:
        """Return the items that are not about one topic: parts, publishing, outages and links to other clusters."""
        items = part_items(
            instance,
            cluster,
            now_ms,
            stop=self._stop,
            outage=self._outage_shown(),
            producers=self._producers,
            start=start,
        )
        return items + [link_item(broken, cluster) for broken in self.broken_links]

    def problem_item(self, problem: Problem, cluster: str, now_ms: int) -> Item:
        """Return the item about one problem alone."""
        line = Line(problem.key, problem, harm(problem, now_ms), (problem,))
        return line_item(line, cluster, now_ms, not self._outages.is_recent(now_ms))

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
        self,
        topics: TopicIndex,
        now_ms: int,
        *,
        whole: bool,
        instance: Instance = NO_FAULT,
        links: Sequence[LinkFigures] = (),
        late: Late | None = None,
    ) -> None:
        """Update the state; called when findings changed, and once a round of the collector.

        ``whole``: every topic is loaded by a broker whose findings are complete, or was read from storage.
        """
        self._complete = whole
        self._now = now_ms
        self.broken_links = broken_links(links, now_ms)
        self._update_clients(topics, now_ms, instance)
        if self._moves != self._findings.moves:
            # The new owner has not found the topic's problems yet: an empty list proves nothing again.
            self._moves, self._since = self._findings.moves, None
        if whole and self._since is None:
            self._since = now_ms
        since = self._since if whole else None
        self.last_round = since, since is not None and now_ms - since >= SETTLED_MS
        self._late = late or {}
        inputs = (
            *(self._findings.version, topics.version, self._outages.current is not None),
            frozenset(self._late),
        )
        # A topic at rest becomes a problem with time alone: no input changes then.
        is_pending = self._without_broker.is_pending(now_ms)
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
        self._problems += self._without_broker.problems(topics, self._outages.current, now_ms)
        if self._without_broker.were_loaded:
            # A broker that has just loaded a topic has not found its problems yet.
            self._since = None
        self._problems = with_late(self._problems, self._late)
        self._lines = self._ranking.lines(self._problems, ITEMS_MAX, now_ms)
        self._index_topics(now_ms)

    def _update_clients(self, topics: TopicIndex, now_ms: int, instance: Instance) -> None:
        totals = topics.sums.totals(ALL)
        producers = self._producers = int(totals["producers"])
        state = publishing(self.needs.all, list(instance.bookies))
        is_restricted = state is not None and (
            state.is_stopped or ((state.down or state.full) and (state.is_held or state.is_last))
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

    def _index_topics(self, now_ms: int) -> None:
        topics: dict[str, dict[str, None]] = {}
        subscriptions: dict[str, dict[str, None]] = {}
        for problem in self._problems:
            key = key_of(problem.topic, problem.subscription)
            for cause in (problem.cause, *((ANY,) if problem.severity != "info" else ())):
                topics.setdefault(cause, {})[problem.topic] = None
                subscriptions.setdefault(cause, {})[key] = None
        worst = _worst_by(self._problems, lambda problem: problem.topic, now_ms)
        worst_of = _worst_by(
            self._problems, lambda problem: key_of(problem.topic, problem.subscription), now_ms
        )
        after = topics, worst, subscriptions, worst_of
        if after != (self._topics, self._worst, self._subscriptions, self._worst_of):
            self._topics, self._worst, self._subscriptions, self._worst_of = after
            self.version += 1


def _worst_by(
    problems: Iterable[Problem], name: Callable[[Problem], str], now_ms: int
) -> dict[str, tuple[str, str]]:
    """Return severity and cause of the most harmful problem by ``name``."""
    worst: dict[str, tuple[float, str, str]] = {}
    for problem in problems:
        candidate = (harm(problem, now_ms), problem.severity, problem.cause)
        if candidate > worst.get(name(problem), (0.0, "", "")):
            worst[name(problem)] = candidate
    return {key: (severity, cause) for key, (_, severity, cause) in worst.items()}
