"""The brokers that are registered or were, and their lines of the overview."""

import asyncio
from dataclasses import dataclass
from typing import Any

from engine.admin.client import BrokerAddress
from engine.base.tasks import TaskScope
from gateway.services.clock import now_ms
from gateway.services.collection.followed_broker import UNREGISTERED, FollowedBroker, Reports
from gateway.services.engine_link import Engine
from gateway.services.feeds.turns import in_turns
from gateway.services.health.hops import Hops, HopState, Kind
from gateway.services.index.rows import RATES

GONE_MS = 2_000
"""Time after which an unregistered broker that does not answer is gone; it may have lost its session for a moment."""
REGISTERS_MS = 10_000
"""Time that an unregistered broker which answers has to register again."""
GONE_KEPT_MS = 3_600_000
"""Time that a gone broker stays in the overview, while it had topics that no broker has loaded since."""
CRASH_KEPT_MS = 600_000
"""Time that a broker which crashed stays there in any case: its topics are loaded elsewhere within seconds."""


@dataclass(slots=True)
class _Gone:
    """A broker that is not registered any more, with its line of the overview. ``topics``: those that it had loaded
    and no broker has loaded since; ``crashed``: it was down before its registration ended."""

    line: dict[str, Any]
    topics: set[str]
    at: int
    crashed: bool

    def is_over(self, at: int) -> bool:
        """Return whether the overview leaves it out from now on."""
        age_ms = at - self.at
        is_news = bool(self.topics) or (self.crashed and age_ms <= CRASH_KEPT_MS)
        return not is_news or age_ms > GONE_KEPT_MS


class FollowedBrokers:
    """All registered brokers, each of which is followed, and those that are gone."""

    def __init__(self, reports: Reports, hops: Hops, tasks: TaskScope) -> None:
        self.registered: list[BrokerAddress] = []
        self._followed: dict[str, FollowedBroker] = {}
        self._gone: dict[str, _Gone] = {}
        self._last_seen = 0
        """Time of the last report of brokers that are gone, ms; 0: none."""
        self._reports = reports
        self._topics = reports.topics
        self._hops = hops
        self._tasks = tasks

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
        return all(followed.has_all_topics for followed in self._followed.values())

    @property
    def have_all_subscriptions(self) -> bool:
        """True while the list of subscriptions of each registered broker is complete."""
        return all(self._followed[broker.id].has_all_subscriptions for broker in self.registered)

    @property
    def have_all_links(self) -> bool:
        """True while the list of replicated topics of each registered broker is complete."""
        return all(self._followed[broker.id].has_all_links for broker in self.registered)

    def answering(self) -> list[BrokerAddress]:
        """Return the brokers that answer."""
        return [
            followed.broker
            for followed in self._followed.values()
            if self._hops.expect(Kind.BROKER, followed.broker.id).state is HopState.OK
        ]

    @property
    def any_is_down(self) -> bool:
        """True while a registered broker is down."""
        states = (self._hops.expect(Kind.BROKER, broker.id).state for broker in self.registered)
        return HopState.DOWN in states

    def with_links(self) -> set[str]:
        """Return the ids of the brokers that answer, and whose list of replicated topics is complete."""
        answering = {broker.id for broker in self.answering()}
        return {id for id in answering if self._followed[id].has_all_links}

    def known_until(self) -> list[int]:
        """Return the times in ms up to which the registered brokers have reported; without one, that of the last
        report of any. 0: no report yet."""
        last_seen = max(
            self._last_seen, *(followed.last_seen for followed in self._followed.values()), 0
        )
        if not self.registered:
            return [last_seen]
        followed = [self._followed[broker.id] for broker in self.registered]
        # All that a broker which has not reported yet could change is known up to its registration.
        is_known = self._topics.complete
        return [
            broker.known_until or (min(broker.since, last_seen) if is_known else 0)
            for broker in followed
        ]

    def follow(self, engine: Engine, registered: list[BrokerAddress]) -> None:
        """Follow the registered brokers, each until ``forget_gone`` drops it."""
        for broker in registered:
            followed = self._followed.get(broker.id)
            if followed is None:
                followed = FollowedBroker(broker, self._reports, self._hops, self._tasks)
                self._followed[broker.id] = followed
                followed.start(engine)
                self._gone.pop(broker.id, None)
            followed.broker = broker
        self.registered = registered

    async def wait_for_reports(self, timeout_s: float) -> None:
        """Wait for the first report or failure of every broker, at most ``timeout_s``."""
        until = now_ms() + int(timeout_s * 1000)
        while any(
            not (followed.last_seen or followed.failures) for followed in self._followed.values()
        ):
            if now_ms() > until:
                return
            await asyncio.sleep(0.01)

    async def forget_gone(self, at: int) -> None:
        """Stop following brokers that are not registered any more. The overview keeps one while no other broker has
        loaded all of its topics, and for a while where it crashed. ``at``: now, ms."""
        registered = {broker.id for broker in self.registered}
        for broker_id, followed in list(self._followed.items()):
            if broker_id in registered:
                followed.missing_since = 0
            elif not followed.missing_since:
                followed.missing_since = at
                # One that is stopped unregisters at once; a registration outlives a process that was killed.
                followed.crashed = at - followed.last_seen > self._reports.pace.down_ms
            elif at - followed.missing_since > (GONE_MS if followed.failures else REGISTERS_MS):
                await self._forget(followed, at)
        for broker_id, gone in list(self._gone.items()):
            gone.topics = {name for name in gone.topics if self._topics.is_unloaded(name)}
            gone.line = {**gone.line, "topics": len(gone.topics)}
            if gone.is_over(at):
                del self._gone[broker_id]
                self._hops.forget(Kind.BROKER, broker_id)

    async def _forget(self, followed: FollowedBroker, at: int) -> None:
        broker_id = followed.broker.id
        followed.end()
        self._last_seen = max(self._last_seen, followed.last_seen)
        self._reports.findings.forget(broker_id)
        self._reports.links.forget(broker_id)
        line = self._line(followed.broker)
        del self._followed[broker_id]
        source = self._topics.sources.get(broker_id)
        topics = set(source.parts) if source is not None else set()
        await in_turns(self._topics.forget(broker_id))
        hop = self._hops.expect(Kind.BROKER, broker_id)
        self._hops.failed(Kind.BROKER, broker_id, UNREGISTERED, slow=False)
        line |= {"state": "down", "since": hop.since, "known": "last", **dict.fromkeys(RATES)}
        self._gone[broker_id] = _Gone(line, topics, at, followed.crashed)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the overview, by id."""
        lines = [*map(self._line, self.registered), *(gone.line for gone in self._gone.values())]
        return sorted(lines, key=lambda line: str(line["id"]))

    def _line(self, broker: BrokerAddress) -> dict[str, Any]:
        """Return the broker's line of the overview."""
        source = self._topics.sources.get(broker.id)
        hop = self._hops.expect(Kind.BROKER, broker.id)
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
