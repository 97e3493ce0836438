"""Firings over time, with the database between several gateways: begin, end, silence, escalation, takeover."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.alerts import evaluator as evaluating
from gateway.alerts import store
from gateway.alerts.conditions import Observed, Outcome, evaluate
from gateway.alerts.definitions import Definition
from gateway.alerts.evaluator import Evaluator
from gateway.alerts.messages import Notification
from gateway.alerts.models import (
    AlertChannel,
    AlertDelivery,
    AlertFiring,
    AlertLease,
    AlertRule,
    AlertSilence,
    DeliveryState,
)
from gateway.alerts.sending import SendError
from gateway.alerts.store import LEASE_MS, LeaseLostError
from tests.support.waiting import until
from tests.unit.gateway.alerts.conftest import Alerts, T

pytestmark = pytest.mark.django_db
MINUTE_MS = 60_000


class Named:
    """A cluster of which only the name is used."""

    name = "c"


class Bench:
    """Gateways over the figures of a test. ``sent``: subject and channel of each notification."""

    def __init__(self, alerts: Alerts) -> None:
        self.alerts = alerts
        self.sent: list[tuple[str, str]] = []
        self.error = ""
        self.gateways = [self.gateway()]
        self.channel = self.make_channel("ops")

    def gateway(self) -> Evaluator:
        return Evaluator(Named(), clock=lambda: self.alerts.now)  # type: ignore[arg-type]

    def make_channel(self, name: str) -> AlertChannel:
        return AlertChannel.objects.create(
            cluster="c", name=name, kind="webhook", secret_url="https://x.example/", created_at=0
        )

    def rule(self, **more: Any) -> AlertRule:
        definition = {"kind": "topic", "figure": "backlog", "threshold": 100, "op": "above"}
        values = {"for_s": 0, "channels": [self.channel.pk], "name": "deep", "severity": "error"}
        values |= {"definition": definition, "created_at": 0, "changed_at": 0, "cluster": "c"}
        return AlertRule.objects.create(**values | more)

    def send(self, channel: AlertChannel, message: Notification) -> None:
        if self.error:
            raise SendError(self.error)
        self.sent.append((message.subject, channel.name))

    def round(self, gateway: Evaluator | None = None, seconds: float = 1) -> None:
        """Look, evaluate and send as one gateway does in a round."""
        self.alerts.now += int(seconds * 1_000)
        gateway = gateway or self.gateways[0]
        gateway._look(self.alerts.now)
        if gateway._loaded is None:
            return
        changes = gateway.evaluated(gateway._loaded, self.alerts.seen())
        if changes:
            gateway._write(changes, self.alerts.now)
        self.deliver(gateway)

    def deliver(self, gateway: Evaluator) -> None:
        for channel in store.due_channels("c", self.alerts.now):
            gateway._drain(channel)

    def backlog(self, messages: int, name: str = "a") -> None:
        self.alerts.topic(name, backlog=messages, backlog_messages=messages)


@pytest.fixture
def bench(alerts: Alerts, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(alerts)
    monkeypatch.setattr(evaluating, "send", bench.send)
    monkeypatch.setattr(evaluating, "close_old_connections", lambda: None)
    return bench


BEGIN, END = ("[c] error firing: deep: t/n/a", "ops"), ("[c] error ended: deep: t/n/a", "ops")


def test_a_firing_begins_after_its_time_ends_and_is_notified_once_each(bench: Bench) -> None:
    bench.rule(for_s=60)
    bench.backlog(500)
    bench.round()
    bench.round(seconds=30)
    assert AlertFiring.objects.get().state == "pending"
    assert bench.sent == []
    bench.round(seconds=31)
    bench.round()
    assert bench.sent == [BEGIN]
    assert AlertFiring.objects.get().detail == "backlog 500 messages, above 100 messages"
    bench.backlog(10)
    bench.round()
    bench.round()
    assert bench.sent == [BEGIN, END]
    firing = AlertFiring.objects.get()
    assert (firing.state, firing.ended_at) == ("ended", bench.alerts.now - 1_000)


def test_a_condition_that_does_not_last_leaves_no_record(bench: Bench) -> None:
    bench.rule(for_s=60)
    bench.backlog(500)
    bench.round()
    bench.backlog(0)
    bench.round(seconds=50)
    assert not AlertFiring.objects.exists()
    assert bench.sent == []


def test_unknown_figures_neither_begin_nor_end_a_firing(bench: Bench) -> None:
    bench.rule()
    bench.backlog(500)
    bench.round()
    for _ in bench.alerts.topics.set_silent("b:1", True):
        pass
    bench.round(seconds=30)
    assert bench.sent == [BEGIN]
    assert AlertFiring.objects.get(unevaluated=False).state == "firing"
    rule = AlertRule.objects.get()
    assert rule.unknown_why == "the figures of 1 of 1 topics are not known now"


def test_a_rule_that_is_not_evaluated_for_long_says_so(bench: Bench) -> None:
    bench.rule()
    bench.backlog(5)
    for _ in bench.alerts.topics.set_silent("b:1", True):
        pass
    bench.round()
    bench.round(seconds=240)
    assert bench.sent == []
    bench.round(seconds=61)
    assert bench.sent == [("[c] error firing: deep: The rule cannot be evaluated", "ops")]
    for _ in bench.alerts.topics.set_silent("b:1", False):
        pass
    bench.round()
    assert bench.sent[1:] == [("[c] error ended: deep: The rule cannot be evaluated", "ops")]
    assert AlertRule.objects.get().unknown_since is None


def test_one_gateway_evaluates_and_another_takes_over_when_it_ends(bench: Bench) -> None:
    bench.rule()
    second = bench.gateway()
    bench.round()
    bench.backlog(500)
    bench.round(second)
    assert not AlertFiring.objects.exists(), "the first has the lease"
    bench.round(second, seconds=LEASE_MS / 1_000)
    assert bench.sent == [BEGIN]
    bench.backlog(1)
    first = bench.gateways[0]
    assert first._loaded is not None
    changes = first.evaluated(first._loaded, bench.alerts.seen())
    if changes:
        with pytest.raises(LeaseLostError):
            first._write(changes, bench.alerts.now)
    bench.round(second)
    assert bench.sent == [BEGIN, END]


def test_a_gateway_that_lost_its_lease_unnoticed_writes_nothing(bench: Bench) -> None:
    bench.rule()
    bench.round()
    second = bench.gateway()
    bench.round(second, seconds=LEASE_MS / 1_000 + 1)
    bench.backlog(500)
    first = bench.gateways[0]
    assert first._loaded is not None
    changes = first.evaluated(first._loaded, bench.alerts.seen())
    with pytest.raises(LeaseLostError):
        first._write(changes, bench.alerts.now)
    assert not AlertFiring.objects.exists()
    bench.round(second)
    assert bench.sent == [BEGIN]


def test_a_pending_firing_continues_to_count_after_a_short_gap_only(bench: Bench) -> None:
    bench.rule(for_s=120)
    bench.backlog(500)
    bench.round()
    bench.round(seconds=100)
    bench.round(bench.gateway(), seconds=30)
    assert bench.sent == [BEGIN]
    bench.backlog(500, "b")
    gateway = bench.gateways[0]
    bench.round(bench.gateway(), seconds=20)
    bench.round(gateway, seconds=300)
    bench.round(gateway, seconds=60)
    assert AlertFiring.objects.get(topic=T + "b").state == "pending", "nobody looked for minutes"


def test_a_delivery_left_by_a_process_that_ended_is_sent_by_the_next(bench: Bench) -> None:
    bench.rule()
    bench.backlog(500)
    first = bench.gateways[0]
    first._look(bench.alerts.now)
    assert first._loaded is not None
    first._write(first.evaluated(first._loaded, bench.alerts.seen()), bench.alerts.now)
    assert bench.sent == []  # it ends before it sends
    bench.round(bench.gateway(), seconds=LEASE_MS / 1_000 + 1)
    assert bench.sent == [BEGIN]


def test_a_claimed_delivery_is_not_sent_by_others_until_the_claim_ends(bench: Bench) -> None:
    bench.rule()
    bench.backlog(500)
    first = bench.gateways[0]
    first._look(bench.alerts.now)
    assert first._loaded is not None
    first._write(first.evaluated(first._loaded, bench.alerts.seen()), bench.alerts.now)
    claimed = store.claim(bench.channel.pk, bench.alerts.now)
    assert claimed is not None
    assert store.claim(bench.channel.pk, bench.alerts.now) is None
    bench.round(bench.gateway(), seconds=LEASE_MS / 1_000 + 1)
    assert bench.sent == []
    bench.round(bench.gateway(), seconds=store.CLAIM_MS / 1_000)
    assert bench.sent == [BEGIN]
    store.finish(claimed, "late", bench.alerts.now)
    assert AlertDelivery.objects.get().state == "sent", (
        "a late result of a lost claim counts no more"
    )


def test_a_failed_delivery_is_tried_again_later_and_in_order(bench: Bench) -> None:
    bench.rule()
    bench.backlog(500)
    bench.error = "ops answers HTTP 500"
    bench.round()
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.error) == ("due", "ops answers HTTP 500")
    assert delivery.next_at == bench.alerts.now + store.RETRY_FIRST_MS
    bench.backlog(5)
    bench.round()
    bench.error = ""
    bench.round(seconds=5)
    assert bench.sent == [], "the end waits for the beginning"
    bench.round(seconds=10)
    assert bench.sent == [BEGIN, END]


def test_a_delivery_is_given_up_after_a_day(bench: Bench) -> None:
    bench.rule()
    bench.backlog(500)
    bench.error = "away"
    bench.round()
    bench.round(seconds=86_400)
    assert AlertDelivery.objects.get().state == DeliveryState.FAILED


def test_firings_that_begin_together_are_one_notification(bench: Bench) -> None:
    bench.rule()
    for index in range(30):
        bench.backlog(500, f"t{index}")
    bench.round()
    assert bench.sent == [("[c] error firing: deep: 30 objects", "ops")]


def test_a_silence_defers_the_notification_while_it_lasts(bench: Bench) -> None:
    rule = bench.rule()
    AlertSilence.objects.create(
        cluster="c", rule_id=rule.pk, scope=T + "a", until=bench.alerts.now + MINUTE_MS,
        reason="upgrade", created_at=0,
    )  # fmt: skip
    bench.backlog(500)
    bench.backlog(500, "b")
    bench.round()
    assert bench.sent == [("[c] error firing: deep: t/n/b", "ops")]
    assert AlertFiring.objects.get(topic=T + "a").silenced == "upgrade"
    bench.round(seconds=60)
    assert bench.sent[1:] == [BEGIN]


def test_a_firing_without_acknowledgement_is_escalated_once(bench: Bench) -> None:
    boss = bench.make_channel("boss")
    bench.rule(escalate_s=300, escalate_to=[boss.pk])
    bench.backlog(500)
    bench.round()
    bench.round(seconds=299)
    assert bench.sent == [BEGIN]
    bench.round()
    bench.round()
    assert bench.sent[1:] == [("[c] error not acknowledged: deep: t/n/a", "boss")]
    bench.backlog(0)
    bench.round()
    assert {channel for _, channel in bench.sent[2:]} == {"ops", "boss"}


def test_an_acknowledged_firing_is_not_escalated(bench: Bench) -> None:
    boss = bench.make_channel("boss")
    bench.rule(escalate_s=300, escalate_to=[boss.pk])
    bench.backlog(500)
    bench.round()
    AlertFiring.objects.update(acked_at=bench.alerts.now, acked_by="ada")
    bench.round(seconds=400)
    assert bench.sent == [BEGIN]
    assert AlertFiring.objects.get().acked_by == "ada", "evaluation keeps what others wrote"


@pytest.mark.parametrize("change", ["changed", "disabled", "deleted"])
def test_a_rule_that_changes_ends_its_firings(bench: Bench, change: str) -> None:
    rule = bench.rule()
    bench.backlog(500)
    bench.round()
    if change == "deleted":
        rule.delete()
    elif change == "disabled":
        AlertRule.objects.update(enabled=False)
    else:
        definition = rule.definition | {"threshold": 1_000}
        AlertRule.objects.update(definition=definition, changed_at=1)
    bench.round()
    reason = (
        "the rule was changed" if change == "changed" else "the rule was switched off or deleted"
    )
    assert AlertFiring.objects.get().end_reason == reason
    assert bench.sent == [BEGIN, END]
    bench.round()
    if change != "changed":
        assert AlertLease.objects.get().until == 0, "without work the lease is given up"


def test_old_firings_are_removed(bench: Bench) -> None:
    bench.rule()
    bench.backlog(500)
    bench.round()
    bench.backlog(0)
    bench.round()
    store.remove_old("c", bench.alerts.now + 29 * store.DAY_MS)
    assert AlertFiring.objects.count() == 1
    store.remove_old("c", bench.alerts.now + 31 * store.DAY_MS)
    assert (AlertFiring.objects.count(), AlertDelivery.objects.count()) == (0, 0)


def test_rules_are_looked_for_less_often_while_there_are_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    rules: list[AlertRule] = []

    def look(gateway: Evaluator, now: int) -> bool:
        looks.append(now)
        return bool(rules)

    async def at_once(gateway: Evaluator, work: Callable[[], Any]) -> Any:
        return work()

    monkeypatch.setattr(Evaluator, "_look", look)
    monkeypatch.setattr(Evaluator, "_in_thread", at_once)
    (gateway,) = bench.gateways

    def looked(seconds: int) -> int:
        """Return how often it looked in so many rounds."""
        before = len(looks)
        for _ in range(seconds):
            bench.alerts.now += 1_000
            asyncio.run(gateway._tick())
        return len(looks) - before

    assert looked(60) == 3
    rules.append(bench.rule())
    gateway.wake()
    assert looked(1) == 1, "the gateway where a rule is made looks at once"
    assert looked(60) == 12
    bench.alerts.now -= 3_600_000
    assert looked(1) == 1, "a clock that was set back"


async def test_a_channel_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Evaluator(Named(), clock=lambda: 0)  # type: ignore[arg-type]
    released, sent = threading.Event(), list[int]()

    def drain(channel: int) -> None:
        if channel == 1:
            released.wait(60)
        sent.append(channel)

    monkeypatch.setattr(gateway, "_drain", drain)
    monkeypatch.setattr(evaluating, "close_old_connections", lambda: None)
    due = iter([{1: 0, 2: 0}, {1: 0, 3: 0}, {1: 0}])
    monkeypatch.setattr(store, "due_channels", lambda *_: next(due))
    try:
        await gateway._send_due()
        await gateway._send_due()
        await until(lambda: sorted(sent) == [2, 3])
        released.set()
        await until(lambda: sorted(sent) == [1, 2, 3])
        await until(lambda: all(future.done() for future in gateway._sending.values()))
        await gateway._send_due()
        await until(lambda: sent.count(1) == 2)
    finally:
        released.set()
        gateway._senders.shutdown()


def test_a_channel_that_answers_slowly_lets_others_have_their_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluating, "TURN_S", 0.0)
    bench.rule()
    bench.backlog(500)
    bench.round()
    assert bench.sent == []
    monkeypatch.setattr(evaluating, "TURN_S", 10.0)
    bench.round()
    assert bench.sent == [BEGIN]


def test_a_fault_that_one_rule_meets_ends_no_other_and_is_a_firing_of_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ALERTS = replace(settings.ALERTS, alert_unknown_minutes=1)
    broken = bench.rule(name="broken")
    bench.rule()

    def evaluated(definition: Definition, seen: Observed) -> Outcome:
        if definition.figure == "msg_rate_in":
            raise ValueError("too many values to unpack")
        return evaluate(definition, seen)

    monkeypatch.setattr(evaluating, "evaluate", evaluated)
    AlertRule.objects.filter(pk=broken.pk).update(
        definition={**broken.definition, "figure": "msg_rate_in"}
    )
    bench.backlog(500)
    bench.round()
    assert bench.sent == [BEGIN]
    broken.refresh_from_db()
    assert broken.unknown_why == evaluating.FAULT
    bench.round(seconds=61)
    assert bench.sent[1:] == [("[c] error firing: broken: The rule cannot be evaluated", "ops")]


async def test_channels_that_failed_before_never_have_all_senders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = Evaluator(Named(), clock=lambda: 0)  # type: ignore[arg-type]
    released, begun = threading.Event(), list[int]()

    def drain(channel: int) -> None:
        begun.append(channel)
        released.wait(60)

    monkeypatch.setattr(gateway, "_drain", drain)
    monkeypatch.setattr(evaluating, "close_old_connections", lambda: None)
    due = iter([{1: 3, 2: 3, 3: 3, 4: 3}, {5: 0, 3: 3, 4: 3}, {6: 0, 7: 0, 3: 3}, {3: 3, 4: 1}])
    monkeypatch.setattr(store, "due_channels", lambda *_: next(due))
    try:
        for expected in ([1, 2], [1, 2, 5], [1, 2, 5, 6]):
            await gateway._send_due()
            await until(lambda expected=expected: sorted(begun) == expected)
        released.set()
        await until(lambda: all(future.done() for future in gateway._sending.values()))
        await gateway._send_due()
        await until(lambda: sorted(begun) == [1, 2, 3, 4, 5, 6])
    finally:
        released.set()
        gateway._senders.shutdown()


def test_channels_are_due_by_how_often_they_were_tried(bench: Bench) -> None:
    second = bench.make_channel("second")
    bench.rule(channels=[bench.channel.pk, second.pk])
    bench.backlog(500)
    bench.error = "down"
    bench.round()
    AlertDelivery.objects.filter(channel=second).update(attempt=0)
    AlertDelivery.objects.update(next_at=0)
    assert list(store.due_channels("c", bench.alerts.now).items()) == [
        (second.pk, 0),
        (bench.channel.pk, 1),
    ]
