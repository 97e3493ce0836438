"""Every topic of the cluster by name, from the metadata store: plain ones and partitioned parents."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, cast

from engine.base.names import DOMAINS, PARTITION_SUFFIX, TopicName, decode_name
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError

IN_FLIGHT_MAX = 64

T = TypeVar("T")
R = TypeVar("R")


async def children(store: MetadataStore, path: str) -> list[str]:
    """Children of ``path``, none when it does not exist."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def each(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """``work`` on every item, at most ``IN_FLIGHT_MAX`` at a time; results in order. Waits for all of them, and raises
    then what the first that failed raised."""
    gate = asyncio.Semaphore(IN_FLIGHT_MAX)
    failures: list[Exception] = []

    async def one(item: T) -> R | None:
        async with gate:
            try:
                return await work(item)
            except Exception as error:  # raised below, when the others have ended
                failures.append(error)
                return None

    results = await asyncio.gather(*(one(item) for item in items))
    if failures:
        raise failures[0]
    return cast(list[R], list(results))


async def namespaces(store: MetadataStore) -> list[str]:
    """All ``tenant/namespace``, sorted."""
    tenants = await children(store, paths.POLICIES)
    found = await each(tenants, lambda tenant: children(store, paths.tenant(tenant)))
    return [
        f"{tenant}/{name}" for tenant, names in zip(tenants, found, strict=True) for name in names
    ]


async def partition_count(store: MetadataStore, topic: TopicName) -> int:
    """Partitions of a partitioned topic, 0 when ``topic`` is none."""
    path = paths.partitioned_topic(str(topic.namespace), topic.local, topic.domain)
    try:
        value, _ = await store.get(path)
    except NoNodeError:
        return 0
    return int(json.loads(value).get("partitions", 0))


async def topics(store: MetadataStore) -> dict[str, int]:
    """All topics as of ``topics_in``, with their number of partitions (0: plain)."""
    found = await each(await namespaces(store), lambda namespace: topics_in(store, namespace))
    parents = [TopicName.parse(name) for partitioned, _ in found for name in partitioned]
    counts = await each(parents, lambda name: partition_count(store, name))
    numbers = {str(name): count for name, count in zip(parents, counts, strict=True)}
    return numbers | {name: 0 for _, plain in found for name in plain}


async def topics_in(store: MetadataStore, namespace: str) -> tuple[list[str], list[str]]:
    """Partitioned topics of ``tenant/namespace`` and plain ones, by full name. Partitions of a known parent are left
    out; system topics (``__`` in front) too."""
    parents: list[str] = []
    for domain in DOMAINS:
        encoded = await children(store, paths.partitioned_topics(namespace, domain))
        parents += [f"{domain}://{namespace}/{decode_name(part)}" for part in encoded]
    plain: list[str] = []
    for part in await children(store, paths.managed_ledgers(namespace)):
        name = f"persistent://{namespace}/{decode_name(part)}"
        base, mark, index = name.rpartition(PARTITION_SUFFIX)
        is_partition = bool(mark) and index.isdecimal() and base in parents
        if not is_partition and not name.startswith(f"persistent://{namespace}/__"):
            plain.append(name)
    return parents, plain
