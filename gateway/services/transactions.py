"""Transactions of a cluster: its coordinators, what they know, and what topics and subscriptions know of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_STATS, InternalStats
from engine.admin.api.topics import LOOKUP
from engine.admin.api.transactions import (
    BUFFER_STATS,
    COORDINATOR_STATS,
    DISABLED,
    SLOW_TRANSACTIONS,
    TRANSACTION_IN_BUFFER,
    TRANSACTION_IN_PENDING_ACK,
    TRANSACTION_METADATA,
    BufferStats,
    OnTransaction,
    SlowTransactions,
    TransactionOnSubscription,
)
from engine.base.errors import NotAcceptable, NotFound, NotReady, Refusal
from engine.base.names import TopicName
from engine.tenancy import topics
from engine.tenancy.initialization import COORDINATORS, ensure_coordinators
from gateway.services.engine_link import Engine

Json = dict[str, Any]
T = TypeVar("T")
NO_SNAPSHOT = "Transaction buffer Snapshot for the topic does not exist"
SNAPSHOTS = "__transaction_buffer_snapshot"
"""Topic of a namespace that has the snapshots; those in segments have two, whose names begin with it."""
AT_ONCE = 16
"""Requests about one cluster's transactions at the same time."""


def partition_of(coordinator: int) -> TopicName:
    """Return the topic whose owner serves a coordinator."""
    return COORDINATORS.partition_at(coordinator)


async def count(engine: Engine) -> int:
    """Return the number of coordinators of the cluster. Raises NotReady where brokers have created none."""
    stored = await topics.find_partitions(engine.store, COORDINATORS)
    if stored is None:
        raise NotReady(DISABLED)
    return int(stored["partitions"])


async def coordinators(engine: Engine) -> list[Json]:
    """Return each coordinator with the service URL of its broker. Raises NotReady where transactions are off."""

    async def place(number: int) -> Json:
        await stats(engine, number)
        url = (await engine.call(LOOKUP, OnTopic(partition_of(number))))["brokerUrl"]
        return {"id": number, "brokerServiceUrl": url}

    return list((await _of_each(engine, place)).values())


async def _of_each(engine: Engine, ask: Callable[[int], Awaitable[T]]) -> dict[int, T]:
    """Return the answers about all coordinators by number."""
    room = asyncio.Semaphore(AT_ONCE)

    async def in_turn(number: int) -> T:
        async with room:
            return await ask(number)

    numbers = range(await count(engine))
    answers = await asyncio.gather(*map(in_turn, numbers))
    return dict(zip(numbers, answers, strict=True))


async def stats(engine: Engine, coordinator: int) -> Json:
    """Return TransactionCoordinatorStats."""
    return await engine.call(COORDINATOR_STATS, OnTopic(partition_of(coordinator)))


async def all_stats(engine: Engine) -> dict[str, Json]:
    """Return TransactionCoordinatorStats by coordinator."""
    by_number = await _of_each(engine, lambda number: stats(engine, number))
    return {str(number): answer for number, answer in by_number.items()}


async def slow(engine: Engine, timeout_ms: int, coordinator: int | None) -> dict[str, Json]:
    """Return TransactionMetadata by id of the transactions that are older than ``timeout_ms``, of one coordinator or of
    all."""

    async def ask(number: int) -> dict[str, Json]:
        return await engine.call(
            SLOW_TRANSACTIONS, SlowTransactions(partition_of(number), timeout_ms)
        )

    if coordinator is not None:
        return await ask(coordinator)
    by_number = await _of_each(engine, ask)
    return {txn: metadata for answer in by_number.values() for txn, metadata in answer.items()}


@dataclass(frozen=True, slots=True)
class ClusterTransactions:
    """The transactions of a cluster that are not ended. ``coordinators``: rows; None where the brokers offer no
    transactions. ``transactions``: TransactionMetadata of those of coordinators that answered."""

    coordinators: list[Json] | None
    transactions: list[Json]


async def gathered(engine: Engine, older_ms: int) -> ClusterTransactions:
    """Return the coordinators, and the transactions that began ``older_ms`` ago or before. A coordinator that does not
    answer hides no other."""
    open_ones: list[Json] = []

    async def ask(number: int) -> Json:
        row: Json = dict.fromkeys(
            ("broker", "state", "open", "newest", "low_water_mark", "ready_at")
        )
        row |= {"coordinator": number, "reason": ""}
        try:
            place = partition_of(number)
            row["broker"] = (await engine.call(LOOKUP, OnTopic(place)))["brokerUrl"]
            figures = await stats(engine, number)
            open_ones.extend((await slow(engine, older_ms, number)).values())
        except Refusal as error:
            if isinstance(error, NotReady) and error.reason == DISABLED:
                raise
            return row | {"reason": error.reason}
        return row | {
            "state": figures["state"],
            "open": figures["ongoingTxnSize"],
            "newest": figures["leastSigBits"],
            "low_water_mark": figures["lowWaterMark"],
            "ready_at": figures["recoverEndTime"],
        }

    try:
        rows = await _of_each(engine, ask)
    except NotReady as error:
        if error.reason != DISABLED:
            raise
        return ClusterTransactions(None, [])
    return ClusterTransactions(list(rows.values()), open_ones)


async def metadata(engine: Engine, most: int, least: int) -> Json:
    """Return TransactionMetadata, with what each topic and subscription says about the transaction, {} for those that
    do not answer."""
    if most >= await count(engine):
        raise NotFound(f"Transaction coordinator not found! coordinator id : {most}")
    of = await engine.call(TRANSACTION_METADATA, OnTransaction(partition_of(most), most, least))

    async def fill(into: Json, key: str, ask: Awaitable[Json]) -> None:
        try:
            into[key] = await ask
        except Refusal:
            into[key] = {}

    asked = []
    for topic in of["producedPartitions"]:
        args = OnTransaction(TopicName.parse(topic), most, least)
        answer = engine.call(TRANSACTION_IN_BUFFER, args)
        asked.append(fill(of["producedPartitions"], topic, answer))
    for topic, acked in of["ackedPartitions"].items():
        for name in acked:
            on = TransactionOnSubscription(TopicName.parse(topic), name, most, least)
            asked.append(fill(acked, name, engine.call(TRANSACTION_IN_PENDING_ACK, on)))
    for begin in range(0, len(asked), AT_ONCE):
        await asyncio.gather(*asked[begin : begin + AT_ONCE])
    return of


async def snapshot_stats(engine: Engine, name: TopicName, *, with_metadata: bool) -> Json:
    """Return TransactionBufferInternalStats: of the system topics with the snapshots of a topic's transactions. Raises
    NotFound without a snapshot, as where transactions are off."""
    try:
        buffer = await engine.call(BUFFER_STATS, BufferStats(name))
    except NotReady as error:
        if error.reason != DISABLED:
            raise
        raise NotFound(NO_SNAPSHOT) from error
    if buffer["state"] == "NoSnapshot":
        raise NotFound(NO_SNAPSHOT)

    async def of(local: str) -> Json:
        args = InternalStats(name.namespace.topic(local, "persistent"), with_metadata)
        stats_of = await engine.call(INTERNAL_STATS, args)
        return {"managedLedgerName": local, "managedLedgerInternalStats": stats_of}

    kind = buffer["snapshotType"]
    if kind == "Single":
        return {"snapshotType": kind, "singleSnapshotSystemTopicInternalStats": await of(SNAPSHOTS)}
    return {
        "snapshotType": kind,
        "segmentInternalStats": await of(f"{SNAPSHOTS}_segments"),
        "segmentIndexInternalStats": await of(f"{SNAPSHOTS}_indexes"),
    }


async def scale(engine: Engine, replicas: int) -> None:
    """Give the cluster more coordinators. Raises NotAcceptable unless there are more than before."""
    await stats(engine, 0)
    if replicas <= await count(engine):
        raise NotAcceptable(
            "Number of transaction coordinators should be more than the current number of transaction coordinator"
        )
    await ensure_coordinators(engine.store, replicas)
