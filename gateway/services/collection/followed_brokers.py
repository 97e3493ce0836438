"""The brokers whose reports are requested, their state and their lines of the overview."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import REPLICATION
from engine.admin.api.rows import SUBSCRIPTION_ROWS, TOPIC_ROWS
from engine.admin.client import BrokerAddress
from engine.base.tasks import TaskScope
from gateway.services.attention.findings import Findings
from gateway.services.clock import now_ms
from gateway.services.engine_link import FAILURES, Engine
from gateway.services.feeds.row_follower import ANSWER_TIMEOUT_S, LATE_S, RowFollower
from gateway.services.feeds.turns import in_turns
from gateway.services.health.hops import HopState, Kind
from gateway.services.health.watch import Health
from gateway.services.index.rows import RATES
from gateway.services.index.topic_index import TopicIndex

log = logging.getLogger(__name__)

JUDGE_S = 0.25
"""Time between checks of a silent broker."""
NEEDS_S = 15.0
"""Time between two requests for the quorums in force."""
SILENT_MS = 1_500
"""Silence after which a broker, which reports every second, counts as slow."""
DOWN_MS = 5_000
"""Silence after which a broker counts as down."""
GONE_MS = 2_000
"""Time after which an unregistered broker that does not answer is gone; it may have lost its session for a moment."""
REGISTERS_MS = 10_000
"""Time that an unregistered broker which answers has to register again."""
GONE_KEPT_MS = 3_600_000
"""Time that a gone broker stays in the overview, while it had topics that no broker has loaded since."""
UNREGISTERED = "is not registered any more: it ended, or lost its session"


class Followed:
    """A broker whose reports are requested. ``topics`` and ``subscriptions`` follow its feeds."""

    def __init__(self, topics: RowFollower, subscriptions: RowFollower) -> None:
        self.topics = topics
        self.subscriptions = subscriptions
        self.since = now_ms()
        """Time from which it is followed, ms."""
        self.last_seen = 0
        """Time of its last report of topics with a new count, ms; 0: none yet."""
        self.counted = 0
        """Time of that count, by its clock, ms."""
        self.missing_since = 0
        """Time when it was first missing from the registered brokers, ms; 0: it is registered."""
        self.work: list[asyncio.Task[None]] = []
        self.alarm: asyncio.TimerHandle | None = None
        """Timer that has it judged when it reports nothing."""

    @property
    def broker(self) -> BrokerAddress:
        """The broker's address."""
        return self.topics.broker

    def end(self) -> None:
        """Stop requesting the broker's reports, and cancel its timer."""
        for work in self.work:
            work.cancel()
        if self.alarm is not None:
            self.alarm.cancel()


@dataclass(slots=True)
class _Gone:
    """A broker that is not registered any more, with its line of the overview. ``topics``: those that it had loaded
    and no broker has loaded since."""

    line: dict[str, Any]
    topics: set[str]
    at: int


class FollowedBrokers:
    """All brokers that are registered or were, each of which is followed: its rows are requested repeatedly and
    applied to ``topics`` and ``findings``.

    ``on_change`` is called when ``topics`` changed, ``on_findings`` when ``findings`` changed, ``on_needs`` with the
    broker and each answer to ``REPLICATION``.
    """

    def __init__(
        self,
        topics: TopicIndex,
        findings: Findings,
        health: Health,
        tasks: TaskScope,
        *,
        on_change: Callable[[], None] = lambda: None,
        on_findings: Callable[[], None] = lambda: None,
        on_needs: Callable[[str, dict[str, Any]], None] = lambda broker, answer: None,
    ) -> None:
        self.registered: list[BrokerAddress] = []
        self.last_seen = 0
        """Time of the last report of any broker, ms; 0: none yet."""
        self._followed: dict[str, Followed] = {}
        self._gone: dict[str, _Gone] = {}
        self._topics = topics
        self._findings = findings
        self._health = health
        self._tasks = tasks
        self._on_change = on_change
        self._on_findings = on_findings
        self._on_needs = on_needs

    def end(self) -> None:
        """Stop all requests."""
        for followed in self._followed.values():
            followed.end()

    @property
    def version(self) -> object:
        """A value that changes when brokers register or leave."""
        return self.registered, [gone.line for gone in self._gone.values()]

    @property
    def have_all_topics(self) -> bool:
        """True once each has reported everything that it has loaded."""
        return all(followed.topics.is_complete for followed in self._followed.values())

    @property
    def have_all_subscriptions(self) -> bool:
        """True while the list of subscriptions of each registered broker is complete."""
        return all(
            self._followed[broker.id].subscriptions.is_complete for broker in self.registered
        )

    def answering(self) -> list[BrokerAddress]:
        """Return the brokers that answer."""
        return [
            followed.broker
            for followed in self._followed.values()
            if self._health.hops.expect(Kind.BROKER, followed.broker.id).state is HopState.OK
        ]

    def known_until(self) -> list[int]:
        """Return the times in ms up to which the registered brokers have reported; without one, that of the last
        report of any. 0: no report yet."""
        if not self.registered:
            return [self.last_seen]
        return [
            self._followed[broker.id].last_seen or self._known_before(broker)
            for broker in self.registered
        ]

    def _known_before(self, broker: BrokerAddress) -> int:
        """Return the time in ms up to which everything was known before this broker registered, which has not reported
        yet; 0: none."""
        since = self._followed[broker.id].since
        return min(since, self.last_seen) if self._topics.complete else 0

    def follow(self, engine: Engine, registered: list[BrokerAddress]) -> None:
        """Follow the registered brokers, each until ``forget_gone`` drops it."""
        for broker in registered:
            followed = self._followed.get(broker.id)
            if followed is None:
                followed = self._followed[broker.id] = self._new(broker)
                for name, work in (
                    ("topics", followed.topics.run(engine)),
                    ("subscriptions", followed.subscriptions.run(engine)),
                    ("quorums", self._request_needs(engine, followed)),
                ):
                    followed.work.append(self._tasks.spawn(f"{name} of {broker.id}", work))
                self._set_alarm(followed, SILENT_MS / 1000)
                self._gone.pop(broker.id, None)
                self._health.hops.expect(Kind.BROKER, broker.id)
            followed.topics.broker = followed.subscriptions.broker = broker
        self.registered = registered

    def _new(self, broker: BrokerAddress) -> Followed:
        """Return the state of a broker that is to be followed."""
        followed = Followed(
            RowFollower(
                broker,
                TOPIC_ROWS,
                self._topics,
                self._on_change,
                after=lambda answer: self._note_report(followed, answer),
            ),
            RowFollower(broker, SUBSCRIPTION_ROWS, self._findings, self._on_findings),
        )
        return followed

    async def wait_for_reports(self, timeout_s: float) -> None:
        """Wait for the first report or failure of every broker, at most ``timeout_s``."""
        until = now_ms() + int(timeout_s * 1000)
        while any(
            not (followed.last_seen or followed.topics.failures)
            for followed in self._followed.values()
        ):
            if now_ms() > until:
                return
            await asyncio.sleep(0.01)

    def _note_report(self, followed: Followed, answer: dict[str, Any] | None) -> None:
        """Note when the broker counted the topics that it reports; None: the request failed."""
        if answer is not None and (answer["more"] or answer["at"] != followed.counted):
            # An answer with the old count brings no figures that are newer than the last ones.
            followed.counted = answer["at"]
            followed.last_seen = self.last_seen = now_ms()
            self._set_alarm(followed, SILENT_MS / 1000)
        if answer is None or not answer["more"]:
            self._judge(followed, now_ms())

    async def _request_needs(self, engine: Engine, followed: Followed) -> None:
        """Request the quorums in force repeatedly and report them. A broker of an earlier version, which does not know
        the request, is left out."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await engine.call_on(followed.broker, REPLICATION, NoArguments())
                self._on_needs(followed.broker.id, answer)
            except FAILURES as error:
                log.debug("no quorums reported broker=%s error=%r", followed.broker.id, error)
            # An answer in an unknown form must not end the loop.
            except Exception:
                log.exception("quorums in an unknown form broker=%s", followed.broker.id)
            await asyncio.sleep(NEEDS_S)

    def _set_alarm(self, followed: Followed, after_s: float) -> None:
        """Have the broker judged after ``after_s``, and then every ``JUDGE_S``, until the next call: a broker that
        reports nothing is noticed without an answer."""
        loop = asyncio.get_running_loop()
        due = loop.time() + after_s

        def alarm() -> None:
            # First, so that a failure below does not end the timer.
            self._set_alarm(followed, JUDGE_S)
            # A late timer means that this process was too busy: an answer may have arrived and not been read.
            if loop.time() - due < LATE_S:
                self._judge(followed, now_ms())

        if followed.alarm is not None:
            followed.alarm.cancel()
        followed.alarm = loop.call_at(due, alarm)

    def _judge(self, followed: Followed, at: int) -> None:
        broker_id, hops = followed.broker.id, self._health.hops
        failures = followed.topics.failures
        silent_ms = at - (followed.last_seen or followed.since)
        if followed.missing_since and failures:
            hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
        elif failures > 1:
            hops.failed(Kind.BROKER, broker_id, followed.topics.error, slow=False)
        elif silent_ms >= SILENT_MS:
            why = f"has not reported for {silent_ms // 1000} s"
            hops.failed(Kind.BROKER, broker_id, why, slow=silent_ms < DOWN_MS)
        elif followed.missing_since:
            hops.failed(Kind.BROKER, broker_id, "answers, and is not registered", slow=True)
        elif followed.last_seen and not failures:
            hops.answered(Kind.BROKER, broker_id)
        state = hops.expect(Kind.BROKER, broker_id).state
        silent = state is not HopState.OK
        source = self._topics.sources.get(broker_id)
        if source is not None and source.silent != silent:
            self._tasks.spawn("silence", in_turns(self._topics.set_silent(broker_id, silent)))

    async def forget_gone(self, at: int) -> None:
        """Stop following brokers that are not registered any more. The overview keeps one while no other broker has
        loaded all of its topics. ``at``: now, ms."""
        registered = {broker.id for broker in self.registered}
        for broker_id, followed in list(self._followed.items()):
            if broker_id in registered:
                followed.missing_since = 0
            elif not followed.missing_since:
                followed.missing_since = at
            elif at - followed.missing_since > (
                GONE_MS if followed.topics.failures else REGISTERS_MS
            ):
                await self._forget(followed, at)
        for broker_id, gone in list(self._gone.items()):
            gone.topics = {name for name in gone.topics if self._topics.is_unloaded(name)}
            gone.line = {**gone.line, "topics": len(gone.topics)}
            if not gone.topics or at - gone.at > GONE_KEPT_MS:
                del self._gone[broker_id]
                self._health.hops.forget(Kind.BROKER, broker_id)

    async def _forget(self, followed: Followed, at: int) -> None:
        broker_id = followed.broker.id
        followed.end()
        self._findings.forget(broker_id)
        line = self._line(followed.broker)
        del self._followed[broker_id]
        source = self._topics.sources.get(broker_id)
        topics = set(source.parts) if source is not None else set()
        await in_turns(self._topics.forget(broker_id))
        hop = self._health.hops.expect(Kind.BROKER, broker_id)
        self._health.hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
        line |= {"state": "down", "since": hop.since, "known": "last", **dict.fromkeys(RATES)}
        self._gone[broker_id] = _Gone(line, topics, at)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the overview, by id."""
        lines = [*map(self._line, self.registered), *(gone.line for gone in self._gone.values())]
        return sorted(lines, key=lambda line: str(line["id"]))

    def _line(self, broker: BrokerAddress) -> dict[str, Any]:
        """Return the broker's line of the overview."""
        source = self._topics.sources.get(broker.id)
        hop = self._health.hops.expect(Kind.BROKER, broker.id)
        states = {HopState.SLOW: "slow", HopState.DOWN: "down"}
        return {
            "id": broker.id,
            "url": broker.service_url,
            "state": states.get(hop.state, "up"),
            "since": hop.since,
            "started": broker.started_ms or None,
            "known": "no" if source is None else "last" if source.silent else "live",
            "at": source.at if source else 0,
            "topics": len(source.parts) if source else None,
            "msg_rate_in": source.rate_in / 1000 if source else None,
            "msg_rate_out": source.rate_out / 1000 if source else None,
            "bytes_rate_in": source.bytes_in / 1000 if source else None,
            "bytes_rate_out": source.bytes_out / 1000 if source else None,
        }
