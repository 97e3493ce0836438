"""Effects of a changed list of replication clusters: topics that begin to be sent, messages that are not sent
any more, and topics that this cluster stops serving. From the collector's figures; nothing is requested for it."""

from collections.abc import Collection, Iterable
from typing import Any

from engine.base.errors import Conflict
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.topics import list_topics
from gateway.clusters.cluster import Cluster
from gateway.services.admin import existence
from gateway.services.collection.snapshot import Snapshot
from gateway.services.engine_link import Engine
from gateway.services.geo.link_index import Links

Json = dict[str, Any]
_RATES = ("msg_rate_in", "bytes_rate_in")


async def flows_of(
    cluster: Cluster,
    engine: Engine,
    place: NamespaceName | TopicName,
    overriding: Collection[str],
    before: Iterable[str],
    after: Iterable[str],
) -> Json:
    """Return the effect of the list ``after`` instead of ``before``, in the shape ``ReplicationFlows``. ``overriding``:
    topics of the namespace with a list of their own. Raises NotFound."""
    if isinstance(place, TopicName):
        parts = await existence.members(engine, place)
    else:
        stored = map(TopicName.parse, await list_topics(engine.store, place))
        parts = [part for part in stored if str(part.partitioned) not in overriding]
    snapshot = await cluster.collector.snapshot()
    topics = {str(part.partitioned) for part in parts}
    here = _figures(snapshot, topics)
    links = cluster.collector.links.of_topics(map(str, parts))
    old, new = set(before), set(after)
    return {
        "at": snapshot.at,
        "topics": len(topics),
        "starts": [{"cluster": name, **here} for name in sorted(new - old - {cluster.name})],
        "ends": [
            {"cluster": name, **_unsent(links, len(parts), name)}
            for name in sorted(old - new - {cluster.name})
        ],
        "leaves": cluster.name in old and cluster.name not in new,
    }


def check(flows: Json, previewed: Json) -> None:
    """Raise Conflict when more messages stay unsent than were previewed on a link that sends nothing. One that sends
    changes with every message."""
    before = {end["cluster"]: end["unsent"] for end in previewed["ends"]}
    for end in flows["ends"]:
        if not end["sending"] and end["unsent"] > before.get(end["cluster"], 0):
            raise Conflict(
                f"By now more messages would not be sent to {end['cluster']}; nothing was saved"
            )


def _figures(snapshot: Snapshot, topics: Iterable[str]) -> Json:
    """Return what is stored, and what arrives per second; null where it is not known for a topic."""
    rows = [snapshot.topics.row(name, snapshot.taken) for name in topics if name in snapshot.topics]
    names = (*_RATES, "storage_bytes")
    values = {name: [row[name] for row in rows] for name in names}
    return {
        name: None if None in column or not snapshot.topics.complete else sum(column)
        for name, column in values.items()
    }


def _unsent(links: dict[str, Links], parts: int, remote: str) -> Json:
    sent = [
        sent
        for topic in links.values()
        for name, sent, _ in topic
        if name == remote and sent is not None
    ]
    return {
        "unsent": sum(link.backlog for link in sent),
        "sending": any(link.messages and not link.is_stopped for link in sent),
        "unknown": parts - len(sent),
    }
