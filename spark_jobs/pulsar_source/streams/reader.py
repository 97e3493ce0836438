"""The stream reader: ``spark.readStream.format("pulsar")``. The same offsets give the same rows.

The driver looks at the topics' ledgers at each trigger; tasks read ranges of them as in a batch. No subscription takes
part. Entries that are trimmed before the stream has read them fail the query, unless ``failOnDataLoss`` is false.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from engine.base.ids import Position
from engine.base.names import TopicName
from spark_jobs.pulsar_source.bounds import check_places, start_of
from spark_jobs.pulsar_source.committed import CommittedEnds
from spark_jobs.pulsar_source.connection import link_to
from spark_jobs.pulsar_source.offsets import (
    Ahead,
    DataLossError,
    Offsets,
    TopicLedgers,
    TopicOffset,
    advanced,
    ahead,
    batch_ranges,
    of_json,
    shares,
    to_json,
)
from spark_jobs.pulsar_source.options import LATEST, parse
from spark_jobs.pulsar_source.partitions import LedgerRange, plan
from spark_jobs.pulsar_source.patience import patiently
from spark_jobs.pulsar_source.planning import look_at, look_at_committed
from spark_jobs.pulsar_source.streams.follower import StreamFollower
from spark_jobs.pulsar_source.streams.watch import TopicWatch
from spark_jobs.pulsar_source.tasks import read_group, tasks_of
from spark_jobs.pulsar_source.topics import find_topics

log = logging.getLogger(__name__)
FOLLOW_S = 1.0
"""Seconds that planning waits for the subscription at most: Spark kills this process soon after the last batch."""
LOOK_S = 0.05
"""Seconds between two looks at the topics: Spark asks again at once while there is nothing to read."""


class PulsarStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over the selected topics, each read from its first entry when it joins later."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse(options, start=LATEST)
        self._watch = TopicWatch(self._options.selection, password=self._options.password)
        self._looked_s = float("-inf")
        self._known: dict[str, TopicLedgers] = {}
        self._until: dict[str, Position] | None = None
        self._last: dict[str, Any] | None = None
        self._follower: StreamFollower | None = None

    def initialOffset(self) -> dict[str, Any]:
        return to_json(link_to(self._options.stores).run(self._initial()))

    async def _initial(self) -> Offsets:
        link = link_to(self._options.stores)
        names = await find_topics(link.store, self._options.selection)
        check_places(self._options, names)
        looked = await self._look_at_all(names)
        brokers = link.brokers(self._options)
        starts = (
            start_of(self._options, link.store, link.ledgers, known, brokers) for known in looked
        )
        places = dict(zip(looked, await asyncio.gather(*starts), strict=True))
        if follower := await self._following():
            # Before the first batch is planned: from here on its entries are kept.
            await follower.hold(
                {known.topic: known.last_before(place) for known, place in places.items()}
            )
        return {
            known.topic: TopicOffset(place, creation=known.creation)
            for known, place in places.items()
        }

    async def _look_at_all(self, names: Iterable[TopicName]) -> list[TopicLedgers]:
        """Return the ledgers of topics up to all committed entries stored now."""
        link = link_to(self._options.stores)
        brokers = link.brokers(self._options)
        seen = await look_at(link.store, link.ledgers, names, brokers, confirmed=False)
        committed = CommittedEnds(self._options.password)
        return await look_at_committed(link.store, link.ledgers, seen, brokers, committed)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.entries_per_trigger:
            return ReadMaxRows(self._options.entries_per_trigger)
        if self._options.bytes_per_trigger:
            return ReadMaxBytes(self._options.bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        link = link_to(self._options.stores)
        brokers = link.brokers(self._options)
        look = partial(self._watch.look_settled, link.store, link.ledgers, brokers)
        self._until = {topic: known.end for topic, known in link.run(patiently(look)).items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = of_json(start)
        self._look(before)
        if self._options.commit_subscription:
            # Spark plans from the end of the last batch that is in its commit log; it calls commit() a batch later.
            self._commit(before)
        coming: dict[str, Ahead] = {}
        for topic, known in self._known.items():
            if self._until is None or topic in self._until:
                seen = known if self._until is None else known.before(self._until[topic])
                coming[topic] = ahead(before.get(topic), seen)
        self._report([f"{topic}: {part.lost}" for topic, part in coming.items() if part.lost])
        entries = sum(part.entries for part in coming.values())
        # A batch that waits for more rows would never come when there is nothing behind the end.
        if isinstance(limit, ReadMinRows) and self._until is None and entries < limit.min_rows:
            return start
        counts = shares(list(coming.values()), *self._limits(limit))
        after = {
            topic: advanced(part, count)
            for (topic, part), count in zip(coming.items(), counts, strict=True)
        }
        # A topic that was deleted leaves; one of its name that is made later is read from its beginning.
        kept = {topic: offset for topic, offset in before.items() if topic in self._known}
        self._last = to_json(kept | after)
        return self._last

    def _look(self, started: Offsets) -> None:
        wait_s = self._looked_s + LOOK_S - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        link = link_to(self._options.stores)
        brokers = link.brokers(self._options)
        look = partial(self._watch.look, link.store, link.ledgers, started, brokers)
        self._known = link.run(patiently(look))
        self._looked_s = time.monotonic()

    async def _following(self) -> StreamFollower | None:
        """Return the subscription that follows the stream, if there is one."""
        name = self._options.commit_subscription
        if name and self._follower is None:
            self._follower = StreamFollower(self._options.service_url, name)
        return self._follower

    def _commit(self, offsets: Offsets) -> None:
        """Move the subscription behind ``offsets``, without waiting for a broker that does not answer."""
        moving = link_to(self._options.stores).start(self._follow(offsets))
        with suppress(TimeoutError):
            moving.result(FOLLOW_S)

    async def _follow(self, offsets: Offsets) -> None:
        if follower := await self._following():
            known = self._known
            await follower.follow(
                {t: known[t].last_before(offsets[t].at) for t in offsets.keys() & known.keys()}
            )

    def stop(self) -> None:
        if self._follower is not None:
            link_to(self._options.stores).run(self._follower.close())
            self._follower = None

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """Return the most entries and bytes of a micro-batch. Spark may ask for all in spite of the options."""
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows, self._options.bytes_per_trigger or None
        return None, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None

    def reportLatestOffset(self) -> dict[str, Any] | None:
        ends = {
            topic: TopicOffset(known.end, creation=known.creation)
            for topic, known in self._known.items()
        }
        return to_json(ends) if ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = of_json(start), of_json(end)
        changed = [topic for topic, offset in after.items() if before.get(topic) != offset]
        known = self._known
        if end != self._last:  # a batch of an earlier run of the query is read again
            names = list(map(TopicName.parse, changed))
            link = link_to(self._options.stores)
            look = partial(self._look_at_all, names)
            known = {seen.topic: seen for seen in link.run(patiently(look))}
        ranges: list[LedgerRange] = []
        lost = []
        for topic in changed:
            of_topic, reason = batch_ranges(before.get(topic), after[topic], known.get(topic))
            ranges += of_topic
            if reason:
                lost.append(f"{topic}: {reason}")
        self._report(lost)
        # The sizes of an open ledger's entries are means that change, so the same offsets would become other tasks. A
        # sink that knows a row by its task and place would then take it for another.
        sized = [replace(ledger_range, size=0) for ledger_range in ranges]
        options = self._options
        limits = options.entries_per_partition, options.bytes_per_partition
        return list(tasks_of(options, plan(sized, *limits, options.partitions_min)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_group(self._options, partition)

    def _report(self, lost: list[str]) -> None:
        """Raise DataLossError when entries are lost, unless the options allow it."""
        if lost and self._options.fail_on_data_loss:
            raise DataLossError(
                f"{'; '.join(lost)}. To go on with what is left set option failOnDataLoss to false. Entries are kept"
                " until they are read when a subscription follows the query: option commitSubscription"
            )
        for reason in lost:
            log.warning("%s", reason)
