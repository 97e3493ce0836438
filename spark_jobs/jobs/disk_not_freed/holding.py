"""The stored ledgers of topics with what holds them, by the rules of brokers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.managed.settings import LedgerConfig
from engine.managed.writing.ledger_holders import Holder, held_spans
from spark_jobs.jobs.kit.retention import Retention
from spark_jobs.jobs.kit.stored import StoredLedger, StoredTopic


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
    """Return what holds each ledger of a topic, in topic order, with those that it has dropped at the end."""
    line = topic.line()
    spans = held_spans(
        line,
        {
            item.name: item.state.acks(line).mark
            for item in topic.subscriptions
            if item.state is not None
        },
        config_of(retention),
        now_ms,
        unknown=[item.name for item in topic.subscriptions if item.state is None],
        offloaded={item.ledger_id for item in topic.ledgers if item.offloaded and item.on_bookies},
    )
    held = [
        HeldLedger(topic.name, ledger, span.holder, span.subscriptions, span.until_ms)
        for ledger, span in zip(topic.ledgers, spans, strict=True)
    ]
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
