"""Reasons for which the ledgers of a topic are not deleted, by the rules of trimming. Pure."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.settings import LedgerConfig
from engine.managed.writing.lifecycle import trimmable


class Holder(StrEnum):
    """The first reason, in this order, for which a ledger is on the bookies."""

    CURRENT = "the current ledger"
    UNKNOWN = "a subscription that cannot be read"
    SUBSCRIPTION = "a subscription"
    UNDO = "a change that can be undone"
    RETENTION = "retention"
    NOTHING = "nothing"
    DELETED = "its deletion, which is not finished"
    OFFLOADED = "tiered storage"


EXPLANATIONS = {
    Holder.CURRENT: "new messages are written to it; it is closed when it is full or old enough",
    Holder.UNKNOWN: "nothing is deleted before the subscription's state is known",
    Holder.SUBSCRIPTION: "a subscription has not acknowledged all of it, or of a ledger before it",
    Holder.UNDO: "a skip or reset passed it, and it is kept while the change can be undone",
    Holder.RETENTION: "it is acknowledged, and retention keeps it",
    Holder.NOTHING: "it is deleted when its topic is loaded and checked next",
    Holder.DELETED: "the topic has dropped it; its deletion was interrupted, and is repeated when the topic is loaded",
    Holder.OFFLOADED: "it has a copy in tiered storage, from which it is read; its copies on bookies are deleted later",
}


NEXT_STEPS = {
    Holder.CURRENT: "nothing: it is closed by itself, or at once when the topic is unloaded",
    Holder.UNKNOWN: "read why the subscription cannot be read, and repair or delete it",
    Holder.SUBSCRIPTION: "let its consumers acknowledge, or skip or delete the subscription",
    Holder.UNDO: "wait until the change cannot be undone any more",
    Holder.RETENTION: "shorten the retention of the topic or the namespace",
    Holder.NOTHING: "trim the topic, or wait for its next check",
    Holder.DELETED: "load the topic",
    Holder.OFFLOADED: "wait for the deletion lag of tiered storage, or shorten it",
}


class HeldSpan(NamedTuple):
    """A ledger and what holds it. ``subscriptions``: those that have not acknowledged all of it, the last one first.

    ``until_ms``: when retention ends by time; None where it does not, or something else holds the ledger.
    """

    span: LedgerSpan
    holder: Holder
    subscriptions: tuple[str, ...] = ()
    until_ms: int | None = None


def held_spans(
    line: LedgerLine,
    marks: Mapping[str, int],
    config: LedgerConfig,
    now_ms: int,
    *,
    unknown: Collection[str] = (),
    offloaded: Collection[int] = (),
    undo_limit: int | None = None,
) -> list[HeldSpan]:
    """Return what holds each ledger of a topic, in topic order.

    ``marks``: the ordinal by subscription below which it has acknowledged all. ``unknown``: subscriptions that cannot
    be read. ``offloaded``: ledgers on the bookies with a complete copy in tiered storage. ``undo_limit``: the ordinal
    from which entries are kept so that a change can be undone. Ledgers are deleted from the front only, so that the
    subscription furthest behind, and the oldest ledger that retention keeps, hold all ledgers behind.
    """
    consumed = line.base if unknown else min([line.durable_to, *marks.values()])
    if undo_limit is not None:
        consumed = min(consumed, undo_limit)
    free = trimmable(line.ledgers, line.base, consumed, now_ms, config)
    held: list[HeldSpan] = []
    stop = line.base
    for number, span in enumerate(line.ledgers):
        stop += span.entries
        behind = sorted((name for name in marks if marks[name] < stop), key=lambda n: (marks[n], n))
        until_ms = None
        if span.ledger_id in offloaded:
            holder = Holder.OFFLOADED
        elif number == len(line.ledgers) - 1:
            holder = Holder.CURRENT
        elif unknown:
            holder, behind = Holder.UNKNOWN, sorted(unknown)
        elif behind:
            holder = Holder.SUBSCRIPTION
        elif number < free:
            holder = Holder.NOTHING
        elif undo_limit is not None and stop > undo_limit:
            holder = Holder.UNDO
        else:
            holder = Holder.RETENTION
            if config.retention_s > 0:
                until_ms = span.timestamp_ms + round(1000 * config.retention_s)
        held.append(HeldSpan(span, holder, tuple(behind), until_ms))
    return held
