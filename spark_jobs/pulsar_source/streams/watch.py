"""The ledgers of a stream's topics, looked up again and again on the driver."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.metadata.store import MetadataStore
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.committed import CommittedEnds
from spark_jobs.pulsar_source.offsets import TopicLedgers
from spark_jobs.pulsar_source.options import OptionError, TopicChoice
from spark_jobs.pulsar_source.planning import look_at, look_at_committed
from spark_jobs.pulsar_source.topics import find_topics

TOPICS_S = 5.0
"""Seconds between two lookups of the selected topics and their partitions."""
SETTLE_S = 0.2
"""Seconds after which an entry that an ack quorum stores is read although bookies do not know it as confirmed (Q3).

A writer announces the confirmation of an entry with the next one. Without this the last entry of an idle topic would
be read only after another one.
"""


class TopicWatch:
    """The ledgers of the selected topics as of the last look. New topics and partitions join."""

    def __init__(
        self,
        selection: TopicChoice,
        monotonic_s: Callable[[], float] = time.monotonic,
        password: bytes = b"",
    ) -> None:
        self._committed = CommittedEnds(password)
        self._selection = selection
        self._monotonic_s = monotonic_s
        self._selected: list[TopicName] = []
        self._selected_s = float("-inf")
        self._confirmed: dict[str, TopicLedgers] = {}
        self._stored: dict[str, tuple[Position, float]] = {}
        self._settled: dict[str, Position] = {}

    async def look(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        started: Iterable[str] = (),
        brokers: BrokerAccess | None = None,
    ) -> dict[str, TopicLedgers]:
        """Return the ledgers of the selected topics and of ``started`` ones, as far as they exist, up to the entries
        that no recovery can cut off, and to the first one of an open transaction."""
        await self._select(store)
        names = {str(topic): topic for topic in self._selected}
        names |= {topic: TopicName.parse(topic) for topic in started if topic not in names}
        looked_s = self._monotonic_s()
        before, self._confirmed = self._confirmed, {}
        for known in await look_at(store, ledgers, names.values(), brokers, confirmed=True):
            self._confirmed[known.topic] = known
        # Where the confirmed end moves, all but the entries of the last moment are confirmed.
        idle = [name for topic, name in names.items() if self._rests(topic, before)]
        for stored in await look_at(store, ledgers, idle, brokers, confirmed=False):
            self._settle(stored, looked_s)
        seen = map(self._readable, self._confirmed.values())
        readable = await look_at_committed(store, ledgers, seen, brokers, self._committed)
        return {known.topic: known for known in readable}

    def _rests(self, topic: str, before: dict[str, TopicLedgers]) -> bool:
        """Return whether a topic's last ledger is open and its confirmed end did not move since the last look."""
        known = self._confirmed.get(topic)
        if known is None or not known.ledgers or known.ledgers[-1].closed_ms:
            return False
        return topic in before and before[topic].end == known.end

    def _settle(self, stored: TopicLedgers, looked_s: float) -> None:
        end, since_s = self._stored.get(stored.topic, (stored.end, looked_s))
        if looked_s - since_s >= SETTLE_S:
            self._settled[stored.topic] = end
            end, since_s = stored.end, looked_s
        self._stored[stored.topic] = end, since_s

    def _readable(self, confirmed: TopicLedgers) -> TopicLedgers:
        """Return the confirmed entries and the settled ones."""
        ledger_id, entries = self._settled.get(confirmed.topic, confirmed.end)
        last = confirmed.ledgers[-1] if confirmed.ledgers else None
        if last is None or last.closed_ms or last.ledger_id != ledger_id or last.entries >= entries:
            return confirmed
        ledgers = (*confirmed.ledgers[:-1], last._replace(entries=entries))
        return replace(confirmed, ledgers=ledgers)

    async def _select(self, store: MetadataStore) -> None:
        if self._monotonic_s() - self._selected_s < TOPICS_S:
            return
        try:
            self._selected = await find_topics(store, self._selection)
        except OptionError:
            # The topic or namespace was deleted; it may be made again.
            if self._selected_s == float("-inf"):
                raise
        self._selected_s = self._monotonic_s()

    async def look_settled(
        self, store: MetadataStore, ledgers: LedgerClient, brokers: BrokerAccess | None = None
    ) -> dict[str, TopicLedgers]:
        """Return the ledgers of the selected topics up to all entries stored now."""
        await self.look(store, ledgers, brokers=brokers)
        await self.look(store, ledgers, brokers=brokers)
        await asyncio.sleep(SETTLE_S)
        return await self.look(store, ledgers, brokers=brokers)
