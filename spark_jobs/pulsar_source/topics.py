"""The topics of a selection, looked up in the metadata store."""

import asyncio
import re

from engine.base.errors import NotFound
from engine.base.names import NamespaceName, TopicName, split_partition
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.store import MetadataStore
from engine.tenancy.listing import all_namespaces, namespaces_of
from engine.tenancy.topics import find_partitions, list_topics, topic_exists
from spark_jobs.analysis import AnalysisTarget
from spark_jobs.pulsar_source.connection import connected_store
from spark_jobs.pulsar_source.options import OptionError, TopicChoice

_NAMESPACE_OF_PATTERN = re.compile(r"persistent://([-\w]+/[-\w]+)/[^|]*")


def topics_of(stores: StoreUrls, kind: AnalysisTarget, name: str = "") -> list[str]:
    """Return the full names of a target's persistent topics, partitions one by one; system topics only when named.

    Blocks. Raises OptionError when there is no such target.
    """

    async def find() -> list[str]:
        async with connected_store(stores) as store:
            return [str(topic) for topic in await find_topics(store, TopicChoice.of(kind, name))]

    return asyncio.run(find())


async def find_topics(store: MetadataStore, selection: TopicChoice) -> list[TopicName]:
    """Return the selected topics, each partition as a topic of its own, ordered by topic and partition.

    Partitions that were never used are included when their topic is named. Raises OptionError when a named topic,
    namespace or tenant does not exist.
    """
    if selection.topics:
        named: dict[TopicName, None] = {}
        for name in selection.topics:
            named |= dict.fromkeys(await _named(store, TopicName.parse(name)))
        return list(named)
    pattern = re.compile(selection.pattern) if selection.pattern else None
    names: list[str] = []
    for namespace in await _namespaces(store, selection):
        try:
            listed = await list_topics(store, NamespaceName.parse(namespace))
        except NotFound as error:
            if selection.namespace:
                raise OptionError(f"option namespace: there is no namespace {namespace}") from error
            continue  # deleted meanwhile
        names += [name for name in listed if pattern is None or pattern.fullmatch(_whole(name))]
    return sorted(map(TopicName.parse, names), key=lambda name: (_whole(str(name)), name.partition))


def _whole(name: str) -> str:
    return split_partition(name)[0] or name


async def _named(store: MetadataStore, topic: TopicName) -> list[TopicName]:
    record = await find_partitions(store, topic)
    if record is not None:
        return [topic.partition_at(index) for index in range(int(record["partitions"]))]
    if not await topic_exists(store, topic):
        raise OptionError(f"option topic: there is no topic {topic}")
    return [topic]


async def _namespaces(store: MetadataStore, selection: TopicChoice) -> list[str]:
    if selection.namespace:
        return [selection.namespace]
    if selection.tenant:
        namespaces = await namespaces_of(store, selection.tenant)
        if not namespaces:
            raise OptionError(
                f"option tenant: there are no namespaces of tenant {selection.tenant}"
            )
        return namespaces
    only = _NAMESPACE_OF_PATTERN.fullmatch(selection.pattern)
    if only is not None:
        return [only[1]]
    return await all_namespaces(store)
