"""Figures of the links of a cluster, of which it is known how far they are known. Pure."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from engine.admin.link_causes import SENDING
from gateway.services.geo.link_index import LinkIndex, Sent
from gateway.services.index.rows import LAST, LIVE, NO

ORDER = (
    *("rights", "record", "topic-missing", "partitions", "schema", "quota", "version"),
    *("transaction", "refused", "unreachable", "storage", "unconfirmed", "failed"),
    *("unloaded", "connecting", "rate-limit"),
)
"""Causes, those first that pass only when an operator changes something."""


class Cause(NamedTuple):
    """Topics of a link that are not sent, or slowed down, for one cause. ``why`` and ``since`` (ms, 0: not known): of
    the topic that has it for longest."""

    cause: str
    topics: int
    topic: str
    why: str
    since: int


class LinkFigures(NamedTuple):
    """A link in both directions, summed over the brokers of this cluster. Rates are in thousandths per second.

    ``oldest``: publish time of the oldest message that is not known to be stored there, ms; 0: there is none, None: not
    known. ``known``: LIVE, or LAST when a broker of the sum is silent, or NO when a broker has not reported at all:
    figures are then those of the others. ``silent``: these brokers.
    """

    remote: str
    topics: int
    stopped: int
    backlog: int
    oldest: int | None
    messages: int
    bytes: int
    causes: list[Cause]
    received_topics: int
    received_messages: int
    received_bytes: int
    known: int
    silent: list[str]
    at: int


def figures_of(
    index: LinkIndex, remote: str, *, answering: Collection[str], registered: Collection[str]
) -> LinkFigures:
    """Return the figures of a link. ``answering``: the brokers whose reports are complete and current."""
    sums = index.sums(remote)
    silent = [broker for broker in (*registered, *sums) if broker and broker not in answering]
    silent = list(dict.fromkeys(silent))
    # Without a registered broker it is not known that there is nothing.
    known = LIVE if registered else NO
    if silent:
        known = LAST if all(broker in index.at for broker in silent) else NO
    times = [index.at[broker] for broker in sums if broker]
    causes = causes_of(item for entry in sums.values() for item in entry.behind.items())
    return LinkFigures(
        remote,
        sum(entry.topics for entry in sums.values()),
        sum(cause.topics for cause in causes if cause.cause not in SENDING),
        sum(entry.backlog for entry in sums.values()),
        _oldest(sent for entry in sums.values() for sent in entry.behind.values()),
        sum(entry.messages for entry in sums.values()),
        sum(entry.bytes for entry in sums.values()),
        causes,
        sum(entry.received_topics for entry in sums.values()),
        sum(entry.received_messages for entry in sums.values()),
        sum(entry.received_bytes for entry in sums.values()),
        known,
        silent,
        min(times, default=max(index.at.values(), default=0)),
    )


def _oldest(behind: Iterable[Sent]) -> int | None:
    oldest = 0
    for sent in behind:
        if sent.oldest is None:
            return None
        if sent.oldest:
            oldest = min(sent.oldest, oldest or sent.oldest)
    return oldest


def causes_of(behind: Iterable[tuple[str, Sent]]) -> list[Cause]:
    """Return why topics that are behind are not sent, those causes first that need an operator."""
    causes: dict[str, Cause] = {}
    for topic, sent in behind:
        if sent.cause is None:
            continue
        before = causes.get(sent.cause)
        if before is None:
            causes[sent.cause] = Cause(sent.cause, 1, topic, sent.why, sent.since)
        elif 0 < sent.since < (before.since or sent.since + 1):
            causes[sent.cause] = Cause(sent.cause, before.topics + 1, topic, sent.why, sent.since)
        else:
            causes[sent.cause] = before._replace(topics=before.topics + 1)
    # A cause that a broker of a later version reports is behind all others.
    rank = {cause: place for place, cause in enumerate(ORDER)}
    return sorted(causes.values(), key=lambda cause: rank.get(cause.cause, len(ORDER)))
