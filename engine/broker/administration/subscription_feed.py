"""The feed of rows of subscriptions, with the cause of those that are behind.

Work is proportional to the number of touched topics, and of those whose causes may begin or end by now
(``Watch.next_s``). Besides, each topic that is behind is read once in ``SWEEP_ROUNDS``, for changes that touch no
topic.
"""

import asyncio
import logging
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rows import OLDEST_UNKNOWN, SubscriptionCell, age_target_s
from engine.admin.lag import Lag, LagCause
from engine.base.errors import MagnetarError
from engine.broker.administration.backlog_messages import Measured, MessageMeans
from engine.broker.administration.change_feed import ChangeFeed, Sweep
from engine.broker.administration.lag_causes import Sighting, Watch
from engine.broker.administration.reports import oldest_or_unknown, rate_out
from engine.broker.context import Context
from engine.broker.control.row_log import Row, RowLog
from engine.broker.dispatch.consumer import Consumer
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic

log = logging.getLogger(__name__)

SWEEP_ROUNDS = 30
"""Rounds in which every topic that is behind is read once."""
STUCK_MS = 300_000
"""Time without an acknowledgement after which one consumer among others is stuck."""
AGES_MAX = 20
"""Entries that are read in a second for the age of a backlog."""
NAME_MAX = 100
"""Characters after which names of consumers are cut."""
ROW_BYTES = 110
LAG_BYTES = 300
"""Approximate bytes of a subscription in an answer beside its name, and of its cause in addition."""

Watched = dict[str, Watch]
"""Watches by subscription."""


class SubscriptionFeed(ChangeFeed):
    """The subscriptions of loaded topics."""

    def __init__(self, registry: TopicRegistry, context: Context, incarnation: str) -> None:
        super().__init__(RowLog(_row_bytes), context.clock, incarnation)
        self._registry = registry
        self._watched: dict[Topic, Watched] = {}
        self._next: list[tuple[float, int, Topic]] = []
        """A heap of topics by the time when they are to be read; entries that differ from ``_next_s`` are void."""
        self._next_s: dict[Topic, float] = {}
        self._turns = 0
        self._sweep = Sweep(lambda: list(self._watched))
        self._to_find: dict[Subscription, Topic] = {}
        """Subscriptions whose first unacknowledged entry is to be read for its age."""

    def count(self, touched: Iterable[Topic]) -> None:
        """Update the rows of touched topics, once a second; ``touched`` is what the registry's tick returned."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        due = dict.fromkeys(touched)
        while self._next and self._next[0][0] <= now_s:
            at_s, _, topic = heappop(self._next)
            if self._next_s.get(topic) == at_s:
                due[topic] = None
        swept = self._sweep.visit(len(self._watched) / SWEEP_ROUNDS)
        due |= dict.fromkeys(topic for topic in swept if topic in self._watched)
        for topic in due:
            self._update(topic, now_s, now_ms)
        self._notify()

    def _update(self, topic: Topic, now_s: float, now_ms: int) -> None:
        name = topic.name.full
        self._next_s.pop(topic, None)
        if self._registry.loaded(topic.name) is not topic:
            self._watched.pop(topic, None)
            if self._registry.loaded(topic.name) is None and name in self._log:
                self._log.drop(name)
            return
        before = self._watched.pop(topic, {})
        watched: Watched = {}
        row: Row = [name]
        means = MessageMeans(topic)
        for title, subscription in topic.subscriptions.items():
            backlog = subscription.cursor.backlog_entries()
            rate = rate_out(subscription)[0]
            watch = before.get(title)
            if watch is not None or backlog:
                watch = _follow(watch, topic, subscription, backlog, rate, now_s, now_ms)
                if watch is not None:
                    watched[title] = watch
            lag = None if watch is None else self._lag(topic, subscription, watch, now_s, now_ms)
            row.append(self._cell(topic, subscription, means, round(rate * 1000), lag))
        for title, why in topic.subscriptions.unread.items():
            seen = Sighting(now_s, 0, unread=True)
            watch = watched[title] = _watched_with(before.get(title), seen)
            lag = _unread(topic, watch, why, now_s, now_ms)
            row.append(SubscriptionCell(title, None, 0, lag, OLDEST_UNKNOWN, None, None, None))
        self._keep(topic, watched, now_s)
        self._log.put(row)

    def _cell(
        self,
        topic: Topic,
        subscription: Subscription,
        means: MessageMeans,
        rate: int,
        lag: Lag | None,
    ) -> SubscriptionCell:
        waiting, kind = means.measure(subscription), subscription.dispatch.kind
        oldest_ms = subscription.oldest.publish_ms()
        if waiting.entries and subscription.oldest.at_hand() is None:
            self._to_find[subscription] = topic
        return SubscriptionCell(
            subscription.name,
            waiting.entries,
            rate,
            lag,
            oldest_or_unknown(oldest_ms),
            waiting.messages,
            waiting.estimated,
            waiting.unmeasured,
            len(subscription.consumers),
            subscription.unacked,
            "" if kind is None else kind.title,
            age_target_s(subscription.cursor.cursor_properties),
        )

    async def find_ages(self, elapsed_s: float) -> None:
        """Read the first entries of backlogs whose age is not known, at most ``AGES_MAX``. Called once a second.

        What cannot be read is tried again when its subscription is next looked at.
        """
        due = list(islice(self._to_find.items(), AGES_MAX))
        for subscription, _ in due:
            del self._to_find[subscription]
        await asyncio.gather(*(_find_age(topic, subscription) for subscription, topic in due))

    def _keep(self, topic: Topic, watched: Watched, now_s: float) -> None:
        if watched:
            self._watched[topic] = watched
        times = [watch.next_s for watch in watched.values() if watch.next_s is not None]
        if times:
            self._turns += 1
            at_s = self._next_s[topic] = max(min(times), now_s)
            heappush(self._next, (at_s, self._turns, topic))

    # --- evidence of a cause --------------------------------------------------------------------

    def _lag(
        self, topic: Topic, subscription: Subscription, watch: Watch, now_s: float, now_ms: int
    ) -> Lag | None:
        cause = watch.cause
        if cause is None:
            return None
        since_ms = now_ms - int((now_s - watch.since_s) * 1000)
        if cause is LagCause.NO_CONSUMER and subscription.counters.left_ms:
            since_ms = min(subscription.counters.left_ms, now_ms)
        evidence: JsonObject = {
            "consumers": len(subscription.consumers),
            "acked_ms": subscription.counters.acked_ms,
            "loaded_ms": topic.loaded_ms,
            "rate_in": round(topic.published.messages.per_second, 1),
            "rate_out": round(rate_out(subscription)[0], 1),
        }
        waiting = MessageMeans(topic).measure(subscription)
        if not waiting.unmeasured:
            evidence |= {"messages": _rounded(waiting), "estimated": not waiting.exact}
        evidence |= self._evidence(topic, subscription, watch, cause, now_ms)
        return Lag(cause, watch.severity, since_ms, round(watch.growth * 1000), evidence)

    def _evidence(
        self,
        topic: Topic,
        subscription: Subscription,
        watch: Watch,
        cause: LagCause,
        now_ms: int,
    ) -> JsonObject:
        """Return the figures that matter for this cause."""
        if cause is LagCause.NO_CONSUMER:
            return {"left_ms": subscription.counters.left_ms}
        consumers, state = subscription.consumers, subscription.dispatch.state
        out: JsonObject = {"unacked": _unacked(topic, subscription)}
        about: Consumer | None = state.active or (consumers[0] if len(consumers) == 1 else None)
        match cause:
            case LagCause.RECONNECTING:
                out["joined"] = watch.joined
            case LagCause.HELD:
                out["refused"] = watch.refused
            case LagCause.STANDBY:
                out["standby"] = len(consumers) - 1
            case LagCause.UNACKED_LIMIT:
                policies = topic.policies
                out["limit"] = (
                    policies.dispatch.unacked_per_subscription
                    if state.blocked
                    else policies.dispatch.unacked_per_consumer
                )
                if subscription.cursor.blocked is not None:
                    out["reason"] = subscription.cursor.blocked
            case LagCause.REDELIVERY:
                out["given_back"] = subscription.dispatch.again
            case LagCause.DELAYED:
                out["delayed"] = state.delayed
            case LagCause.HOT_KEY:
                held = subscription.dispatch.held
                if held is not None:
                    about = held.owner
                    out |= {"waiting": held.entries, "keys": held.keys, "unacked": about.unacked}
            case LagCause.NOT_ACKNOWLEDGED:
                stuck = _stuck(consumers, now_ms)
                if stuck and len(stuck) < len(consumers):
                    about = max(stuck, key=lambda consumer: consumer.unacked)
                    out |= {"unacked": about.unacked, "acked_ms": about.acked_ms}
        if about is not None:
            out |= {"consumer": about.name[:NAME_MAX], "address": about.outlet.address[:NAME_MAX]}
        return out


def _rounded(waiting: Measured) -> int:
    """Return the number of messages; an estimate is rounded to two digits, so that not every batch changes the row."""
    if waiting.exact:
        return waiting.messages
    return max(int(float(f"{waiting.messages:.2g}")), waiting.entries)


def _follow(
    watch: Watch | None,
    topic: Topic,
    subscription: Subscription,
    backlog: int,
    rate: float,
    now_s: float,
    now_ms: int,
) -> Watch | None:
    """Return the watch with a new sighting; None when it need not be kept. Subscriptions that are not durable are not
    watched: they end with their consumer, and keep nothing."""
    if not subscription.durable:
        return None
    watch = _watched_with(watch, _sighting(topic, subscription, backlog, rate, now_s, now_ms))
    return None if watch.forgettable else watch


def _sighting(
    topic: Topic,
    subscription: Subscription,
    backlog: int,
    rate: float,
    now_s: float,
    now_ms: int,
) -> Sighting:
    consumers, state, cursor = (
        subscription.consumers,
        subscription.dispatch.state,
        subscription.cursor,
    )
    full = bool(consumers) and all(consumer.blocked for consumer in consumers)
    messages = MessageMeans(topic).measure(subscription).messages
    return Sighting(
        now_s,
        backlog,
        delayed=state.delayed,
        again=subscription.dispatch.again,
        out=bool(_unacked(topic, subscription)),
        consumers=len(consumers),
        paused=state.paused_for,
        limited=state.blocked or full or cursor.blocked is not None,
        acked=(subscription.counters.acked_ms, cursor.mark),
        flowed=subscription.counters.flow_ms,
        given_back=subscription.counters.given_back,
        joined=subscription.counters.joined,
        refused=subscription.counters.refused,
        standby=len(consumers) - 1 if state.active is not None else 0,
        stuck=sum(consumer.unacked for consumer in _stuck(consumers, now_ms)),
        # In entries, because it is compared with the backlog.
        rate_out=rate * backlog / messages if messages else rate,
        messages=messages,
    )


def _unacked(topic: Topic, subscription: Subscription) -> int:
    """Return the number of delivered, unacknowledged messages; for ordered types that of entries read and not
    acknowledged."""
    kind, cursor = subscription.dispatch.kind, subscription.cursor
    if kind is None or not kind.ordered:
        return sum(consumer.unacked for consumer in subscription.consumers)
    log = topic.log
    return log.entries_between(log.next_position(cursor.mark_delete), cursor.read_position)


def _watched_with(watch: Watch | None, seen: Sighting) -> Watch:
    if watch is None:
        return Watch(seen)
    watch.look(seen)
    return watch


def _stuck(consumers: list[Consumer], now_ms: int) -> list[Consumer]:
    """Return the consumers that hold messages and acknowledged none for ``STUCK_MS``; none without other consumers."""
    if len(consumers) < 2:
        return []
    before = now_ms - STUCK_MS
    return [
        consumer
        for consumer in consumers
        if consumer.unacked
        and max(consumer.acked_ms, consumer.connected_ms, consumer.flow_ms) < before
    ]


def _unread(topic: Topic, watch: Watch, why: str, now_s: float, now_ms: int) -> Lag | None:
    if watch.cause is None:
        return None
    since_ms = now_ms - int((now_s - watch.since_s) * 1000)
    return Lag(
        watch.cause,
        watch.severity,
        since_ms,
        0,
        {"reason": why[:500], "loaded_ms": topic.loaded_ms},
    )


async def _find_age(topic: Topic, subscription: Subscription) -> None:
    if topic.closing or not subscription.cursor.backlog_entries():
        return
    try:
        await subscription.oldest.find()
    except MagnetarError as error:
        name = subscription.name
        log.debug("age of backlog not read topic=%s subscription=%s: %s", topic.name, name, error)
    else:
        topic.touched()


def _row_bytes(row: Row) -> int:
    cells = [cell for cell in row if isinstance(cell, SubscriptionCell)]
    return sum(
        ROW_BYTES + len(cell.name) + (LAG_BYTES if cell.lag is not None else 0) for cell in cells
    )
