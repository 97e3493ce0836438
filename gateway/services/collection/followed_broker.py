"""A broker whose reports are requested: its feeds, and whether it reports in time."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import REPLICATION
from engine.admin.api.rows import LINK_ROWS, SUBSCRIPTION_ROWS, TOPIC_ROWS
from engine.admin.client import BrokerAddress
from engine.base.tasks import TaskScope
from gateway.services.attention.findings import Findings
from gateway.services.clock import now_ms
from gateway.services.engine_link import FAILURES, Engine
from gateway.services.feeds.row_follower import ANSWER_TIMEOUT_S, LATE_S, RowFollower
from gateway.services.feeds.turns import in_turns
from gateway.services.geo.link_index import LinkIndex
from gateway.services.health.hops import Hops, HopState, Kind
from gateway.services.index.topic_index import TopicIndex
from gateway.services.source import OWN, Pace

log = logging.getLogger(__name__)

JUDGE_S = 0.25
"""Time between checks of a silent broker."""
NEEDS_S = 15.0
"""Time between two requests for the quorums in force."""
UNREGISTERED = "is not registered any more: it ended, or lost its session"


@dataclass(frozen=True, slots=True)
class Reports:
    """Receivers of what brokers report. ``on_change`` is called when ``topics`` or ``links`` changed, ``on_findings``
    when ``findings`` changed, ``on_needs`` with the broker and each answer to ``REPLICATION``. ``pace``: how often
    brokers report."""

    topics: TopicIndex
    findings: Findings
    links: LinkIndex
    on_change: Callable[[], None]
    on_findings: Callable[[], None]
    on_needs: Callable[[str, dict[str, Any]], None]
    pace: Pace = OWN.pace


class FollowedBroker:
    """A broker that is followed from ``start`` to ``end``: its rows are requested repeatedly and applied, and its hop
    is judged after each request, and while it is silent."""

    def __init__(
        self, broker: BrokerAddress, reports: Reports, hops: Hops, tasks: TaskScope
    ) -> None:
        self.since = now_ms()
        """Time from which it is followed, ms."""
        self.last_seen = 0
        """Time of its last report of topics with a new count, ms; 0: none yet."""
        self.known_until = 0
        """Time up to which that report has everything, ms; 0: none yet."""
        self.missing_since = 0
        """Time when it was first missing from the registered brokers, ms; 0: it is registered."""
        self.crashed = False
        """True if it was down before it was missing from them."""
        self._reports = reports
        self._hops = hops
        self._tasks = tasks
        self._topics = RowFollower(
            *(broker, TOPIC_ROWS, reports.topics, reports.on_change), after=self._note_report
        )
        self._subscriptions = RowFollower(
            *(broker, SUBSCRIPTION_ROWS, reports.findings, reports.on_findings)
        )
        self._links = RowFollower(*(broker, LINK_ROWS, reports.links, reports.on_change))
        self._counted = 0
        """Time of the last count, by its clock, ms."""
        self._work: list[asyncio.Task[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        """Timer that has it judged when it reports nothing."""

    @property
    def broker(self) -> BrokerAddress:
        """The address for the next requests."""
        return self._topics.broker

    @broker.setter
    def broker(self, broker: BrokerAddress) -> None:
        self._topics.broker = self._subscriptions.broker = self._links.broker = broker

    @property
    def failures(self) -> int:
        """Requests for topics that failed since the last answer."""
        return self._topics.failures

    @property
    def has_all_topics(self) -> bool:
        """True while everything that it has loaded was received."""
        return self._topics.is_complete

    @property
    def has_all_subscriptions(self) -> bool:
        """True while its complete list of subscriptions was received."""
        return self._subscriptions.is_complete

    @property
    def has_all_links(self) -> bool:
        """True while its complete list of replicated topics was received."""
        return self._links.is_complete

    def start(self, engine: Engine) -> None:
        """Request its reports until ``end``."""
        for name, work in (
            ("topics", self._topics.run(engine)),
            ("subscriptions", self._subscriptions.run(engine)),
            ("links", self._links.run(engine)),
            ("quorums", self._request_needs(engine)),
        ):
            self._work.append(self._tasks.spawn(f"{name} of {self.broker.id}", work))
        self._set_alarm(self._reports.pace.silent_ms / 1000)
        self._hops.expect(Kind.BROKER, self.broker.id)

    def end(self) -> None:
        """Stop requesting the broker's reports, and cancel its timer."""
        for work in self._work:
            work.cancel()
        if self._alarm is not None:
            self._alarm.cancel()

    def _note_report(self, answer: dict[str, Any] | None) -> None:
        """Note when the broker counted the topics that it reports; None: the request failed."""
        # A broker that is polled may be asked more often than it counts.
        count = 0 if answer is None else answer.get("asked", answer["at"])
        if answer is not None and (answer["more"] or count != self._counted):
            # An answer with the old count brings no figures that are newer than the last ones.
            self._counted = count
            self.last_seen = now_ms()
            self.known_until = answer["at"] if "asked" in answer else self.last_seen
            self._set_alarm(self._reports.pace.silent_ms / 1000)
        if answer is None or not answer["more"]:
            self._judge(now_ms())

    async def _request_needs(self, engine: Engine) -> None:
        """Request the quorums in force repeatedly and report them. A broker of an earlier version, which does not know
        the request, is left out."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await engine.call_on(self.broker, REPLICATION, NoArguments())
                self._reports.on_needs(self.broker.id, answer)
            except FAILURES as error:
                log.debug("no quorums reported broker=%s error=%r", self.broker.id, error)
            # An answer in an unknown form must not end the loop.
            except Exception:
                log.exception("quorums in an unknown form broker=%s", self.broker.id)
            await asyncio.sleep(NEEDS_S)

    def _set_alarm(self, after_s: float) -> None:
        """Have the broker judged after ``after_s``, and then every ``JUDGE_S``, until the next call: a broker that
        reports nothing is noticed without an answer."""
        loop = asyncio.get_running_loop()
        due = loop.time() + after_s

        def alarm() -> None:
            # First, so that a failure below does not end the timer.
            self._set_alarm(JUDGE_S)
            # A late timer means that this process was too busy: an answer may have arrived and not been read.
            if loop.time() - due < LATE_S:
                self._judge(now_ms())

        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(due, alarm)

    def _judge(self, at: int) -> None:
        broker_id, hops = self.broker.id, self._hops
        failures = self._topics.failures
        silent_ms = at - (self.last_seen or self.since)
        if self.missing_since and failures:
            hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
        elif failures > 1:
            hops.failed(Kind.BROKER, broker_id, self._topics.error, slow=False)
        elif silent_ms >= self._reports.pace.silent_ms:
            why = f"has not reported for {silent_ms // 1000} s"
            hops.failed(Kind.BROKER, broker_id, why, slow=silent_ms < self._reports.pace.down_ms)
        elif self.missing_since:
            hops.failed(Kind.BROKER, broker_id, "answers, and is not registered", slow=True)
        elif self.last_seen and not failures:
            hops.answered(Kind.BROKER, broker_id)
        state = hops.expect(Kind.BROKER, broker_id).state
        silent = state is not HopState.OK
        source = self._reports.topics.sources.get(broker_id)
        if source is not None and source.silent != silent:
            self._tasks.spawn(
                "silence", in_turns(self._reports.topics.set_silent(broker_id, silent))
            )
