"""Estimates of what a run would read, from the metadata of ledgers and from earlier runs, without reading a message."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.statistics import INTERNAL_INFO, INTERNAL_STATS, InternalStats
from engine.base.errors import Failed, NotFound, NotReady
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.listing import all_namespaces, namespaces_of
from engine.tenancy.topics import list_topics
from gateway.jobs.models import JobRun, RunState
from gateway.services.admin import existence
from gateway.services.catalog import each
from gateway.services.engine_link import Engine
from spark_jobs.analysis import AnalysisTarget

TOPICS_MAX = 2_000
"""Topics whose ledgers are looked up; the amounts of more are not estimated."""
AT_ONCE = 32
LOOK_S = 10.0
"""Time within which the ledgers must be looked up."""
RUNS = 20
"""Earlier runs, the newest, from whose rates a time is estimated."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Entries and bytes of topics; ``exact`` is False where ledgers that are being written are not counted."""

    entries: int
    bytes: int
    exact: bool = True

    def part(self, entries: int) -> "Amount":
        """Return at most so many of the entries, with their share of the bytes."""
        if entries >= self.entries:
            return self
        return Amount(entries, round(self.bytes * entries / self.entries), self.exact)


async def estimate(
    engine: Engine, kind: AnalysisTarget, target: str, last_entries: int = 0
) -> dict[str, Any]:
    """Return the number of topics, plain ones and partitions, and the entries and bytes that a run reads of them, as
    far as they are known: of each topic the ``last_entries``, 0 for all."""
    topics = await _topics(engine, kind, target)
    total: Amount | None = None
    if len(topics) <= TOPICS_MAX:
        try:
            async with asyncio.timeout(LOOK_S):
                amounts = await each(
                    topics, lambda topic: _amount(engine, topic, last_entries), AT_ONCE
                )
        except (TimeoutError, NotReady, Failed):
            pass  # not known while brokers do not answer
        else:
            exact = all(amount.exact for amount in amounts)
            entries = sum(amount.entries for amount in amounts)
            total = Amount(entries, sum(amount.bytes for amount in amounts), exact)
    return {
        "topics": len(topics),
        "entries": total.entries if total else None,
        "bytes": total.bytes if total else None,
        "exact": total is not None and total.exact,
    }


async def _topics(engine: Engine, kind: AnalysisTarget, target: str) -> list[TopicName]:
    if kind is AnalysisTarget.TOPIC:
        return await existence.members(engine, TopicName.parse(target))
    namespaces = [target]
    if kind is AnalysisTarget.TENANT:
        namespaces = await namespaces_of(engine.store, target)
    elif kind is AnalysisTarget.CLUSTER:
        namespaces = await all_namespaces(engine.store)

    async def of_namespace(name: str) -> list[TopicName]:
        try:
            listed = await list_topics(engine.store, NamespaceName.parse(name))
        except NotFound:
            return []  # deleted meanwhile
        return [TopicName.parse(topic) for topic in listed]

    return [topic for topics in await each(namespaces, of_namespace, AT_ONCE) for topic in topics]


async def _amount(engine: Engine, topic: TopicName, last_entries: int) -> Amount:
    """Return what is read of a topic: of its closed ledgers by the metadata, of an open one by its owner."""
    try:
        info = await engine.call(INTERNAL_INFO, OnTopic(topic))
    except NotFound:
        return Amount(0, 0)  # never used, or deleted meanwhile
    ledgers = [
        Amount(int(ledger["entries"]), int(ledger["size"]))
        for ledger in info["ledgers"]
        if ledger.get("entries") is not None
    ]
    exact = len(ledgers) == len(info["ledgers"])
    if not exact:
        with suppress(NotFound, NotReady, Failed):
            stats = await engine.call(INTERNAL_STATS, InternalStats(topic))
            entries = int(stats["numberOfEntries"]) - sum(ledger.entries for ledger in ledgers)
            size = int(stats["totalSize"]) - sum(ledger.bytes for ledger in ledgers)
            # Less than nothing where ledgers were trimmed between the two answers.
            ledgers.append(Amount(max(entries, 0), max(size, 0)))
            exact = True
    return _newest(ledgers, last_entries, exact)


def _newest(ledgers: Sequence[Amount], last_entries: int, exact: bool) -> Amount:
    """Return the amount of the ``last_entries`` of ledgers from the oldest to the newest, 0 for all."""
    entries = size = 0
    for ledger in reversed(ledgers):
        part = ledger.part(last_entries - entries) if last_entries else ledger
        entries, size = entries + part.entries, size + part.bytes
    return Amount(entries, size, exact)


def from_earlier_runs(
    *, analysis: str, cluster: str, target: str, amount: dict[str, Any]
) -> dict[str, Any]:
    """Return how many messages the target has and how many seconds the run takes, by earlier runs; None where no run
    has it.

    Messages: by the messages per entry of the target's last run. Seconds: by the median rate of the last runs of the
    analysis, each weighted by its bytes, without the start of Spark; and at least as long as the shortest.
    """
    runs = JobRun.objects.filter(
        analysis=analysis, cluster=cluster, state=RunState.SUCCEEDED, work_at__isnull=False
    )
    return {
        "messages": _messages(runs.filter(target=target), amount["entries"]),
        "seconds": _seconds(runs, amount["bytes"]),
    }


def _messages(runs: Any, entries: int | None) -> int | None:
    last = runs.values_list("result__input__messages", "result__input__entries").first()
    if entries is None or last is None or None in last or not last[1]:
        return None
    messages: int = round(entries * last[0] / last[1])
    return messages


def _seconds(runs: Any, size: int | None) -> float | None:
    columns = ("result__input__bytes", "work_at", "finished_at")
    earlier = [
        (row[0], max(row[2] - row[1], 1) / 1000) for row in runs.values_list(*columns)[:RUNS]
    ]
    sized = sorted((read / seconds, read, seconds) for read, seconds in earlier if read)
    if size is None or not sized:
        return None
    # By bytes, since runs that read little have low rates; a median, since a cold or disturbed run is an exception.
    passed = list(accumulate(read for _, read, _ in sized))
    rate: float = sized[bisect_left(passed, passed[-1] / 2)][0]
    shortest: float = min(seconds for *_, seconds in sized)
    return round(max(size / rate, shortest), 1)
