"""Items about links to other clusters on which messages are not sent. Pure."""

from collections.abc import Callable, Iterable
from urllib.parse import quote

from engine.admin.link_causes import LinkCause
from engine.auth.viewer import Viewer
from gateway.services.attention.part_items import PART_SCORE, Item, item
from gateway.services.geo.link_figures import Cause, LinkFigures, causes_of
from gateway.services.geo.link_index import UNLOADED, TopicLink

WAIT_MS = 5_000
"""Time after which a stopped topic is a problem: it connects again within that time after a broker restarted."""
LINK_SCORE = PART_SCORE / 2
_NO_PROBLEM = frozenset((LinkCause.RATE_LIMIT, LinkCause.CONNECTING))
_TEXTS: dict[str, tuple[str, str]] = {
    LinkCause.UNREACHABLE: (
        "cannot be reached",
        "Check that its brokers run and that its record has their addresses. Sending resumes automatically.",
    ),
    LinkCause.REFUSED: (
        "refuses the replicator",
        "Check the log of its brokers. Sending is tried again automatically.",
    ),
    LinkCause.QUOTA: (
        "has reached a backlog quota",
        "Consume the backlog there, or raise its backlog quota. Sending resumes automatically.",
    ),
    LinkCause.SCHEMA: (
        "refuses the schema",
        "Make the schemas of the topic compatible there, or relax the compatibility check.",
    ),
    LinkCause.RIGHTS: (
        "does not accept the credentials of this cluster, or they have too few rights",
        "Set credentials of a superuser of that cluster in its record here.",
    ),
    LinkCause.TOPIC_MISSING: (
        "does not have the topic",
        "Create the topic, namespace or tenant there, or allow topics to be created automatically.",
    ),
    LinkCause.PARTITIONS: (
        "has another number of partitions",
        "Give the topic the same number of partitions in both clusters.",
    ),
    LinkCause.RECORD: (
        "has a record that cannot be used",
        "Correct the addresses and settings in the record of that cluster.",
    ),
    LinkCause.TRANSACTION: (
        "cannot receive a message of a transaction",
        "Enable transactions on the brokers here (transactionCoordinatorEnabled), or skip the message.",
    ),
    LinkCause.VERSION: (
        "has brokers of a version that cannot receive",
        "Upgrade its brokers: Apache Pulsar 3.0.11, 4.0.4 or newer.",
    ),
    LinkCause.UNCONFIRMED: (
        "does not confirm messages",
        "Check the storage of that cluster. Sending continues automatically.",
    ),
    LinkCause.STORAGE: (
        "is not sent messages that cannot be read here",
        "Check that all bookies and the metadata store of this cluster run.",
    ),
    LinkCause.FAILED: (
        "is not sent messages because of an unexpected error",
        "Check the log of this cluster's brokers. Sending is tried again automatically.",
    ),
    UNLOADED: (
        "is not sent messages of topics that no broker has loaded",
        "Publish to or look up these topics: they are loaded then, and sending resumes.",
    ),
}
"""Title, which continues after the cluster's name, and advice by cause."""


Broken = tuple[LinkFigures, list[Cause]]
"""A link on which messages are not sent, and why, at least one cause."""
Behind = Callable[[str], Iterable[TopicLink]]
"""Returns the topics that are behind on the link to a cluster."""


def broken_links(links: Iterable[LinkFigures], now_ms: int) -> list[Broken]:
    """Return the links with topics that are not sent for longer than a reconnection takes."""
    broken = []
    for link in links:
        causes = [
            cause
            for cause in link.causes
            if cause.cause not in _NO_PROBLEM and now_ms - cause.since >= WAIT_MS
        ]
        if causes:
            broken.append((link, causes))
    return broken


def seen_links(
    broken: Iterable[Broken], behind: Behind, viewer: Viewer, now_ms: int
) -> list[Broken]:
    """Return the links that are broken for topics which a viewer sees, with the causes of those topics alone."""
    seen = []
    for link, _ in broken:
        topics = [item for item in behind(link.remote) if viewer.sees_topic(item.topic)]
        seen.append(link._replace(causes=causes_of((item.topic, item.sent) for item in topics)))
    return broken_links(seen, now_ms)


def link_item(broken: Broken, cluster: str, *, of_all: bool = True) -> Item:
    """Return the item of the overview about a link, with the first of its causes.

    ``of_all``: the causes are those of all topics; otherwise the number of topics of the link is left out.
    """
    link, causes = broken
    first = causes[0]
    text, advice = _TEXTS.get(first.cause, _TEXTS[LinkCause.FAILED])
    stopped = sum(cause.topics for cause in causes)
    share = f"{stopped:,} of {link.topics:,}" if of_all else f"{stopped:,}"
    noun = "topic" if stopped == 1 and not of_all else "topics"
    counts = f"{share} {noun} {'is' if stopped == 1 else 'are'} not sent"
    more = [f"{cause.topics:,} × {cause.cause}" for cause in causes[1:]]
    why = f"{first.topic.removeprefix('persistent://')}: {first.why}" if first.why else ""
    starts = [cause.since for cause in causes if cause.since]
    return item(
        f"link-{link.remote}",
        "error" if of_all and stopped == link.topics else "warning",
        f"Replication: {link.remote} {text}",
        " · ".join(filter(None, (counts, f"also {', '.join(more)}" if more else "", why))),
        advice,
        score=LINK_SCORE,
        since=min(starts, default=None),
        link=f"/c/{quote(cluster, safe='')}/geo/{quote(link.remote, safe='')}",
    )
