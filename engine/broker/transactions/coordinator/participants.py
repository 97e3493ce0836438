"""The ends of transactions on topics and subscriptions, requested of the brokers that serve them until it is done."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable

from engine.base.errors import MagnetarError
from engine.base.measures.durations import Durations
from engine.broker.transactions.txn_id import TxnId
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.wire import client_commands as say
from engine.wire.errors import RefusedError, ServerError

log = logging.getLogger(__name__)

LINKS_KNOWN_MAX = 10_000
LASTING = 6
"""Consecutive failures, some seconds, from which a warning is logged. An unload causes fewer."""
GONE = (ServerError.TopicNotFound, ServerError.SubscriptionNotFound)
"""Answers of a broker, or of a lookup, about what was deleted: nothing of a transaction is left there."""
FINAL = (ServerError.InvalidTxnStatus, ServerError.InvalidTopicName)
"""Answers that stay the same: the transaction was ended there the other way, or there is no such topic."""
Frame = Callable[[int], bytes]
"""Returns the frame of a request with this id."""


class Participants:
    """Requests to end transactions, at most ``requests_max`` at a time.

    ``client`` bounds the time of each request; one without an answer is repeated, which is safe.
    """

    def __init__(self, client: PulsarClient, requests_max: int) -> None:
        self._client = client
        self._room = asyncio.Semaphore(requests_max)
        self._links: OrderedDict[str, BrokerLink] = OrderedDict()
        self.pending = 0
        """Requests under way, with those that wait for their turn."""
        self.times = {True: Durations(), False: Durations()}
        """Durations of ends, by whether they were commits, from the first request until it succeeded. Requests that
        were repeated count as failed."""

    async def end(
        self,
        txn: TxnId,
        partitions: Iterable[str],
        subscriptions: Iterable[tuple[str, str]],
        *,
        commit: bool,
        low_water_mark: Callable[[], int],
    ) -> None:
        """End a transaction on topics and subscriptions, in parallel, and return when all have confirmed it.
        Cancel-safe."""

        def on_partition(topic: str) -> Frame:
            return lambda request_id: say.end_on_partition(
                txn, request_id, topic, commit=commit, low_water_mark=low_water_mark()
            )

        def on_subscription(topic: str, subscription: str) -> Frame:
            return lambda request_id: say.end_on_subscription(
                txn,
                request_id,
                topic,
                subscription,
                commit=commit,
                low_water_mark=low_water_mark(),
            )

        await asyncio.gather(
            *(self._end(txn, topic, on_partition(topic), commit) for topic in partitions),
            *(
                self._end(txn, topic, on_subscription(topic, subscription), commit)
                for topic, subscription in subscriptions
            ),
        )

    async def _end(self, txn: TxnId, topic: str, frame: Frame, commit: bool) -> None:
        """Repeat a request until it succeeds, is refused for good, or what it is about is gone."""
        backoff, failures = self._client.backoff(), 0
        began_s = self._client.clock.monotonic_s()
        self.pending += 1
        try:
            while True:
                try:
                    async with self._room:
                        await self._ask(topic, frame)
                    self.times[commit].add(self._client.clock.monotonic_s() - began_s)
                    return
                except MagnetarError as error:
                    if isinstance(error, RefusedError) and error.code in GONE:
                        return
                    self.times[commit].failed += 1
                    if isinstance(error, RefusedError) and error.code in FINAL:
                        # Else the transaction would stay, and hold its coordinator's log, for ever.
                        log.error("transaction %s cannot be ended on %s: %s", txn, topic, error)
                        return
                    failures += 1
                    if failures == LASTING:
                        log.warning("transaction %s is not ended yet on %s: %s", txn, topic, error)
                await asyncio.sleep(backoff.next_s(self._client.entropy.random()))
        finally:
            self.pending -= 1

    async def _ask(self, topic: str, frame: Frame) -> None:
        link = self._links.get(topic)
        if link is None or link.closing:
            link = await self._client.owner(topic)
            self._links[topic] = link
            while len(self._links) > LINKS_KNOWN_MAX:
                self._links.popitem(last=False)
        request_id = link.new_id()
        try:
            await link.request(request_id, frame(request_id))
        except MagnetarError:
            # Another broker may serve the topic by now.
            self._links.pop(topic, None)
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
