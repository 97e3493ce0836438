"""Evaluation of the rules of a cluster, once a second over what the collector knows, and sending of notifications.

Of several gateways the one with the lease evaluates and sends. Its firings and the deliveries about them are stored in
one transaction, so that the gateway that takes over continues with both (J8). No rule, object or topic has a timer.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from django.conf import settings
from django.db import DatabaseError, close_old_connections

from gateway.alerts import store
from gateway.alerts.conditions import Observed, Outcome, evaluate
from gateway.alerts.sending import SendError, message_of, send
from gateway.alerts.transitions import (
    ActiveRule,
    FiringChanges,
    Open,
    advance,
    end,
    notify,
    notify_ended,
)
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import rights_are_judged
from gateway.http.auth.viewers import Viewers
from gateway.services.attention.part_items import Instance
from gateway.services.clock import now_ms

log = logging.getLogger(__name__)
T = TypeVar("T")
TICK_S = 1.0
LOOK_MS = 5_000
"""Interval at which rules are read, and the lease is renewed."""
IDLE_LOOK_MS = 20_000
"""The same without rules. The gateway where one is made looks at once (``wake``), so that only a takeover waits."""
REMOVE_MS = 3_600_000
FAULT = "a fault of the gateway, which its log describes, prevents the evaluation"
GAP_MS = 60_000
"""Time without evaluation after which what was pending counts from anew."""
SENDERS = 4
SENT_AT_ONCE = 20
"""Deliveries of one channel that are sent before others have their turn."""
TURN_S = 10.0
"""Time after which a channel that answers slowly lets others have their turn."""


class Evaluator:
    """The rules of one cluster in this process, on the link's loop. ``clock``: ms since the epoch."""

    def __init__(self, cluster: Cluster, clock: Callable[[], int] = now_ms) -> None:
        self._cluster = cluster
        self._clock = clock
        self._holder = secrets.token_hex(8)
        self._database = ThreadPoolExecutor(1, "alerts")
        self._senders = ThreadPoolExecutor(SENDERS, "alert-senders")
        self._sending: dict[int, asyncio.Future[None]] = {}
        """The channels that are being sent to."""
        self._retried: set[int] = set()
        """Channels among them that failed before: they never have all senders."""
        self._look_at = 0
        """Time of the next look, ms."""
        self._removed_at = 0
        self._loaded: store.Loaded | None = None
        """The rules, while this process has the lease."""
        self._open: dict[int, Open] = {}
        """Open firings by rule."""
        self._stamps: dict[int, int] = {}
        self._failing: set[int] = set()
        """Rules whose evaluation raised an unexpected error the last time."""

    async def run(self) -> None:
        """Evaluate and send for the life of the process."""
        sending = asyncio.get_running_loop().create_task(self._send(), name="alerts/send")
        failing = False
        try:
            while True:
                try:
                    await self._tick()
                    failing = False
                except store.LeaseLostError:
                    self._loaded = None
                except Exception as error:  # rules must be evaluated again after any error
                    self._loaded = None
                    if not failing:  # once per outage
                        expected = isinstance(error, DatabaseError)
                        log.warning(
                            "alert rules are not evaluated error=%r",
                            error,
                            exc_info=None if expected else error,
                        )
                    failing = True
                await asyncio.sleep(TICK_S)
        finally:
            sending.cancel()
            self._senders.shutdown(wait=False, cancel_futures=True)
            self._database.shutdown(wait=False)

    def wake(self) -> None:
        """Have rules, silences and acknowledgements read at the next tick. For any thread."""
        self._look_at = 0

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._database, partial(_closing, work)
        )

    async def _tick(self) -> None:
        now = self._clock()
        # A clock that was set back leaves a time that is too far away.
        if not 0 < self._look_at - now <= IDLE_LOOK_MS:
            self._look_at = now + LOOK_MS
            if not await self._in_thread(partial(self._look, now)) and self._look_at:
                self._look_at = now + IDLE_LOOK_MS
        seen = None if self._loaded is None else self.observed()
        if self._loaded is None or seen is None:
            return
        changes = self.evaluated(self._loaded, seen)
        if changes:
            await self._in_thread(partial(self._write, changes, seen.now))

    # In the thread of the database

    def _look(self, now: int) -> bool:
        """Read what to evaluate; return whether any gateway has work."""
        name = self._cluster.name
        if not store.has_work(name):
            if self._loaded is not None:
                store.release(name, self._holder)
                self._loaded = None
            return False
        lease = store.take_lease(name, self._holder, now)
        if lease is None:
            self._loaded = None
            return True
        if self._loaded is None or lease.is_new:
            self._open = {}
            for firing in store.open_of(name):
                if firing.state == "pending" and now - lease.evaluated_at > GAP_MS:
                    firing.since = now
                self._open.setdefault(firing.rule_id, {})[firing.object] = firing
            self._stamps = {}
        else:
            acknowledged = store.acknowledged(name)
            for firings in self._open.values() if acknowledged else ():
                for firing in firings.values():
                    firing.acked_at = acknowledged.get(firing.pk)
            store.note_evaluated(name, self._holder, now)
        self._loaded = store.load(name, now)
        if now - self._removed_at >= REMOVE_MS:
            self._removed_at = now
            store.remove_old(name, now)
        return True

    def _write(self, changes: FiringChanges, now: int) -> None:
        store.write(self._cluster.name, self._holder, changes, now)

    # On the link's loop

    def observed(self) -> Observed | None:
        """Return what the collector knows; None before its first round."""
        collector = self._cluster.collector
        snapshot = collector.latest
        if snapshot is None:
            return None
        now, last_seen = self._clock(), snapshot.known_until()
        brokers = snapshot.brokers
        current = bool(brokers) and last_seen is not None and now - last_seen <= collector.late_ms
        damaged = self._cluster.part(Viewers).damaged() if rights_are_judged() else {}
        return Observed(
            self._cluster.name,
            now,
            snapshot.topics,
            collector.findings,
            snapshot.attention,
            collector.link_figures(),
            Instance(
                collector.health.hops.bad,
                brokers,
                snapshot.bookies,
                damaged,
                self._cluster.settings.part_prefix,
                collector.repair.last,
            ),
            current,
            current and snapshot.attention.last_round[1],
            snapshot.subscriptions,
        )

    def evaluated(self, loaded: store.Loaded, seen: Observed) -> FiringChanges:
        """Return what this evaluation of all rules changes."""
        changes = FiringChanges()
        unknown_ms = settings.ALERTS.alert_unknown_minutes * 60_000
        silences = [silence for silence in loaded.silences if silence.until > seen.now]
        rules = {rule.id: rule for rule in loaded.rules}
        for rule_id in list(self._open):
            rule = rules.get(rule_id)
            reason = "" if rule else "the rule was switched off or deleted"
            if rule and self._stamps.get(rule_id, rule.stamp) != rule.stamp:
                reason = "the rule was changed"
            if reason:
                for firing in self._open.pop(rule_id).values():
                    end(firing, seen.now, reason, changes)
        self._stamps = {rule.id: rule.stamp for rule in loaded.rules}
        for rule in loaded.rules:
            self._evaluate(rule, loaded, seen, changes, unknown_ms)
            firings = self._open.get(rule.id, {}).values()
            left_out = loaded.unknown[rule.id][2]
            notify(rule, firings, silences, seen.now, changes, left_out)
        ended = [firing for firing in changes.changed.values() if firing.state == "ended"]
        notify_ended(ended, changes)
        return changes

    def _evaluate(
        self,
        rule: ActiveRule,
        loaded: store.Loaded,
        seen: Observed,
        changes: FiringChanges,
        unknown_ms: int,
    ) -> None:
        firings = self._open.setdefault(rule.id, {})
        try:
            outcome = evaluate(rule.definition, seen)
            left_out = advance(rule, outcome, firings, seen.now, changes, unknown_ms)
            self._failing.discard(rule.id)
        except Exception as error:  # a fault that one rule meets must not end the others
            if rule.id not in self._failing:  # once per fault
                log.error("alert rule %d cannot be evaluated", rule.id, exc_info=error)
            self._failing.add(rule.id)
            outcome = Outcome((), 0, lambda key: None, FAULT)
            left_out = advance(rule, outcome, firings, seen.now, changes, unknown_ms)
        since, _, before = loaded.unknown[rule.id]
        if bool(outcome.problem) != (since is not None) or left_out != before:
            since = (since or seen.now) if outcome.problem else None
            state = since, outcome.problem, left_out
            changes.rules[rule.id] = loaded.unknown[rule.id] = state

    # Sending

    async def _send(self) -> None:
        failing = False
        while True:
            try:
                if self._loaded is not None:
                    await self._send_due()
                failing = False
            except Exception as error:  # deliveries must be sent after any error
                if not failing:
                    log.warning("alerts are not sent error=%r", error, exc_info=error)
                failing = True
            await asyncio.sleep(TICK_S)

    async def _send_due(self) -> None:
        """Begin to send to each channel with due deliveries that is not being sent to. None waits for another: a
        destination that hangs would hold up all notifications."""
        for channel in [channel for channel, sent in self._sending.items() if sent.done()]:
            self._retried.discard(channel)
            self._sending.pop(channel).result()
        channels = await self._in_thread(
            partial(store.due_channels, self._cluster.name, self._clock())
        )
        loop = asyncio.get_running_loop()
        for channel, attempts in channels.items():
            if channel in self._sending or len(self._sending) >= SENDERS:
                continue
            if attempts:
                if len(self._retried) >= SENDERS // 2:
                    continue
                self._retried.add(channel)
            work = partial(_closing, partial(self._drain, channel))
            self._sending[channel] = loop.run_in_executor(self._senders, work)

    def _drain(self, channel: int) -> None:
        """Send the due deliveries of a channel in their order, until one fails or its turn is over."""
        ends_s = time.monotonic() + TURN_S
        for _ in range(SENT_AT_ONCE):
            if time.monotonic() >= ends_s:
                return
            delivery = store.claim(channel, self._clock())
            if delivery is None:
                return
            error = ""
            try:
                send(delivery.channel, message_of(delivery))
            except SendError as failure:
                error = str(failure)
                if delivery.attempt == 1:
                    log.warning("alert not delivered delivery=%s: %s", delivery.pk, error)
            store.finish(delivery, error, self._clock())
            if error:
                return


def _closing(work: Callable[[], T]) -> T:
    """Return the result of work with the database, whose connection is checked before and after it."""
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()
