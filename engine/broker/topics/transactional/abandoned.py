"""Transactions that stay open on topics and subscriptions because no coordinator will end them (X11).

A client can send messages and acknowledgements in a transaction that never began, or that it did not add them to. They
would hold back what follows, or the messages, for ever. What is open for long is therefore asked about, and aborted
when its coordinator states that it is over.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, restarting
from engine.broker.topic_table import TopicTable
from engine.broker.topics.topic import Topic
from engine.broker.transactions.ports import TransactionAcks, TransactionBuffer
from engine.broker.transactions.txn_id import TxnId

log = logging.getLogger(__name__)

CHECK_S = 10.0
ASK_AFTER_S = 30.0
"""Seconds for which a transaction is open before its coordinator is asked, each time twice as long as before."""
ASK_AFTER_MAX_S = 600.0
TOPICS_AT_ONCE = 1000
"""Topics that are looked through between two turns of the event loop."""
ASKED_MAX = 100
"""Open transactions of a topic, or of a subscription, that are watched at the same time; the oldest."""


class Inquiry(Protocol):
    """Asks coordinators; see ``CoordinatorInquiry``."""

    async def is_over(self, txn: TxnId, topic: str, subscription: str | None, /) -> bool: ...


class _Open(NamedTuple):
    """A transaction that is open on a topic, or on a subscription of it."""

    txn: TxnId
    topic: str
    subscription: str | None


class _Watch(NamedTuple):
    """Time at which a coordinator is asked next, and how long that is after the time before."""

    due_s: float
    pause_s: float


class AbandonedTransactions:
    """Watches the transactions of the topics that one broker has ``loaded``. Created inside a running loop."""

    def __init__(self, loaded: TopicTable[Topic], inquiry: Inquiry, clock: Clock) -> None:
        self._loaded = loaded
        self._inquiry = inquiry
        self._clock = clock
        self._watched: dict[_Open, _Watch] = {}
        self._tasks = TaskScope("abandoned transactions")

    def start(self) -> None:
        """Begin to watch. Called once."""
        self._tasks.spawn("watch", restarting("watch over open transactions", self._watch))

    async def close(self) -> None:
        """End. Safe to call twice."""
        await self._tasks.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            await self.check()

    async def check(self) -> None:
        """Ask about what is open for long, one after the other, and abort what is over."""
        watched, self._watched = self._watched, {}
        for count, topic in enumerate(list(self._loaded)):
            if not (count + 1) % TOPICS_AT_ONCE:
                await asyncio.sleep(0)
            await self._check(topic, watched)

    async def _check(self, topic: Topic, watched: Mapping[_Open, _Watch]) -> None:
        now_s = self._clock.monotonic_s()
        for place in list(_open_on(topic)):
            watch = watched.get(place) or _Watch(now_s + ASK_AFTER_S, ASK_AFTER_S)
            if watch.due_s <= now_s:
                pause_s = min(2 * watch.pause_s, ASK_AFTER_MAX_S)
                watch = _Watch(now_s + pause_s, pause_s)
                await self._ask(place)
            self._watched[place] = watch

    async def _ask(self, place: _Open) -> None:
        try:
            if not await self._inquiry.is_over(*place):
                return
            part = self._part(place)
            if part is not None and place.txn in part.open:
                log.warning(
                    "transaction %s is over and is aborted topic=%s subscription=%s", *place
                )
                await part.end(place.txn, commit=False, low_water_mark=-1)
        except MagnetarError as error:
            log.debug("not known whether %s is over on %s: %s", place.txn, place.topic, error)

    def _part(self, place: _Open) -> TransactionBuffer | TransactionAcks | None:
        """Return what has the transaction; None when it is not loaded any more."""
        topic = self._loaded.get(place.topic)
        if topic is None or place.subscription is None:
            return None if topic is None else topic.transactions
        subscription = topic.subscriptions.get(place.subscription)
        return None if subscription is None else subscription.pending_acks


def _open_on(topic: Topic) -> Iterator[_Open]:
    """Iterate over the oldest transactions that are open on a topic, and on its subscriptions."""
    full = topic.name.full
    if topic.transactions is not None:
        for txn in islice(topic.transactions.open, ASKED_MAX):
            yield _Open(txn, full, None)
    for name, subscription in topic.subscriptions.items():
        if subscription.pending_acks is not None:
            for txn in islice(subscription.pending_acks.open, ASKED_MAX):
                yield _Open(txn, full, name)
