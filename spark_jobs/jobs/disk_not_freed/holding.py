"""Reasons for which the ledgers of a topic are not deleted, by the rules of brokers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.managed.settings import LedgerConfig
from engine.managed.writing.lifecycle import trimmable
from spark_jobs.jobs.kit.retention import Retention
from spark_jobs.jobs.kit.stored import StoredLedger, StoredTopic


class Holder(StrEnum):
    """The first reason, in this order, for which a ledger is on the bookies."""

    CURRENT = "the current ledger"
    UNKNOWN = "a subscription that cannot be read"
    SUBSCRIPTION = "a subscription"
    RETENTION = "retention"
    NOTHING = "nothing"
    DELETED = "its deletion, which is not finished"
    OFFLOADED = "tiered storage"


EXPLANATIONS = {
    Holder.CURRENT: "new messages are written to it; it is closed when it is full or old enough",
    Holder.UNKNOWN: "nothing is deleted before the subscription's state is known",
    Holder.SUBSCRIPTION: "a subscription has not acknowledged all of it, or of a ledger before it",
    Holder.RETENTION: "it is acknowledged, and retention keeps it",
    Holder.NOTHING: "it is deleted when its topic is loaded and checked next",
    Holder.DELETED: "the topic has dropped it; its deletion was interrupted, and is repeated when the topic is loaded",
    Holder.OFFLOADED: "it has a copy in tiered storage, from which it is read; its copies on bookies are deleted later",
}


@dataclass(frozen=True, slots=True)
class HeldLedger:
    """A ledger and what holds it. ``subscriptions``: those that have not acknowledged all of it, the last one first.

    ``until_ms``: when retention ends by time; None where it does not, or something else holds the ledger.
    """

    topic: str
    ledger: StoredLedger
    holder: Holder
    subscriptions: tuple[str, ...] = ()
    until_ms: int | None = None


def held_ledgers(topic: StoredTopic, retention: Retention, now_ms: int) -> list[HeldLedger]:
    """Return what holds each ledger of a topic, in topic order.

    Ledgers are deleted from the front only, so that the subscription furthest behind, and the oldest ledger that
    retention keeps, hold all ledgers behind.
    """
    line = topic.line()
    marks = {
        item.name: item.state.acks(line).mark
        for item in topic.subscriptions
        if item.state is not None
    }
    unknown = tuple(item.name for item in topic.subscriptions if item.state is None)
    consumed = line.base if unknown else min(marks.values(), default=line.durable_to)
    free = trimmable(line.ledgers, line.base, consumed, now_ms, config_of(retention))
    held: list[HeldLedger] = []
    stop = line.base
    for number, ledger in enumerate(topic.ledgers):
        stop += ledger.entries
        behind = sorted((name for name in marks if marks[name] < stop), key=lambda n: (marks[n], n))
        until_ms = None
        if ledger.offloaded and ledger.on_bookies:
            holder = Holder.OFFLOADED
        elif ledger is topic.ledgers[-1]:
            holder = Holder.CURRENT
        elif unknown:
            holder, behind = Holder.UNKNOWN, list(unknown)
        elif behind:
            holder = Holder.SUBSCRIPTION
        elif number < free:
            holder = Holder.NOTHING
        else:
            holder = Holder.RETENTION
            if retention.minutes > 0:
                until_ms = ledger.closed_ms + 60_000 * retention.minutes
        held.append(HeldLedger(topic.name, ledger, holder, tuple(behind), until_ms))
    held += [HeldLedger(topic.name, ledger, Holder.DELETED) for ledger in topic.doomed]
    return held


def config_of(retention: Retention) -> LedgerConfig:
    """Return the settings by which a broker trims a topic with this retention."""
    minutes, megabytes = retention.minutes, retention.megabytes
    return LedgerConfig(
        retention_s=60.0 * minutes if minutes > 0 else float(minutes),
        retention_bytes=megabytes << 20 if megabytes > 0 else megabytes,
    )


@dataclass(frozen=True, slots=True)
class Hold:
    """The ledgers that a subscription holds. ``alone_bytes``: of ledgers that no other subscription needs.

    ``since_ms``: when the oldest ledger that it holds was closed; None while that is still open.
    """

    topic: str
    subscription: str
    ledgers: int
    held_bytes: int
    alone_bytes: int
    since_ms: int | None


def holds_of(held: Sequence[HeldLedger]) -> list[Hold]:
    """Return what each subscription holds in its topic, the largest first. Current ledgers are not counted: they would
    stay anyway."""
    by_subscription: dict[tuple[str, str], list[HeldLedger]] = {}
    for item in held:
        if item.holder in (Holder.SUBSCRIPTION, Holder.UNKNOWN):
            for name in item.subscriptions:
                by_subscription.setdefault((item.topic, name), []).append(item)
    holds = []
    for (topic, name), mine in by_subscription.items():
        alone = [item for item in mine if len(item.subscriptions) == 1]
        holds.append(
            Hold(
                topic,
                name,
                len(mine),
                sum(item.ledger.stored_bytes for item in mine),
                sum(item.ledger.stored_bytes for item in alone),
                min(
                    (item.ledger.closed_ms for item in mine if item.ledger.closed_ms), default=None
                ),
            )
        )
    return sorted(holds, key=lambda hold: (-hold.held_bytes, hold.topic, hold.subscription))
