"""The ends of transactions on topics and subscriptions, requested of the brokers that serve them until it is done.

What this broker serves itself is ended without a request, as long as that succeeds at once.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import partial

from engine.base.errors import MagnetarError
from engine.base.measures.durations import Durations
from engine.base.tasks import TaskScope
from engine.broker.errors import BrokerError
from engine.broker.transactions.ports import OwnedEnds
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
Participant = tuple[str, str | None]
"""A topic, and the subscription where the transaction acknowledged on it; None where it published."""


class _End:
    """The end of one transaction, which some participants have not confirmed yet."""

    __slots__ = ("commit", "ended", "left", "low_water_mark", "tasks", "txn")

    def __init__(
        self,
        txn: TxnId,
        *,
        commit: bool,
        low_water_mark: Callable[[], int],
        tasks: TaskScope,
        ended: Callable[[], None],
    ) -> None:
        self.txn = txn
        self.commit = commit
        self.low_water_mark = low_water_mark
        self.tasks = tasks
        self.ended = ended
        self.left = 0

    def confirmed(self) -> None:
        self.left -= 1
        if not self.left:
            self.ended()

    def frame(self, participant: Participant) -> Frame:
        """Return the request for the broker that serves the participant."""
        topic, subscription = participant
        txn, commit, mark = self.txn, self.commit, self.low_water_mark
        if subscription is None:
            return lambda request_id: say.end_on_partition(
                txn, request_id, topic, commit=commit, low_water_mark=mark()
            )
        return lambda request_id: say.end_on_subscription(
            txn, request_id, topic, subscription, commit=commit, low_water_mark=mark()
        )


class Participants:
    """Ends on the participants of transactions, of which at most ``requests_max`` are requested of other brokers at a
    time.

    ``client`` bounds the time of each request; one without an answer is repeated, which is safe.
    """

    def __init__(self, client: PulsarClient, requests_max: int, owned: OwnedEnds) -> None:
        self._client = client
        self._owned = owned
        self._room = asyncio.Semaphore(requests_max)
        self._links: OrderedDict[str, BrokerLink] = OrderedDict()
        self.pending = 0
        """Ends under way, with those that wait for their turn to be requested."""
        self.times = {True: Durations(), False: Durations()}
        """Durations of ends, by whether they were commits, from the first request until it succeeded. Requests that
        were repeated count as failed."""

    def end(
        self,
        txn: TxnId,
        partitions: Collection[str],
        subscriptions: Collection[tuple[str, str]],
        *,
        commit: bool,
        low_water_mark: Callable[[], int],
        tasks: TaskScope,
        ended: Callable[[], None],
    ) -> None:
        """End a transaction on topics and subscriptions, in parallel, and call ``ended`` when all have confirmed it,
        maybe within the call.

        Requests that are awaited run as ``tasks``; when these are cancelled, ``ended`` is not called.
        """
        end = _End(txn, commit=commit, low_water_mark=low_water_mark, tasks=tasks, ended=ended)
        end.left = len(partitions) + len(subscriptions)
        if not end.left:
            ended()
        for topic in partitions:
            self._end_soon(end, (topic, None))
        for participant in subscriptions:
            self._end_soon(end, participant)

    def _end_soon(self, end: _End, participant: Participant) -> None:
        """End on one participant here, or else request it."""
        began_s = self._client.clock.monotonic_s()
        self.pending += 1
        outcome = partial(self._ended_here, end, participant, began_s)
        try:
            taken = self._owned.end(
                end.txn,
                *participant,
                commit=end.commit,
                low_water_mark=end.low_water_mark(),
                outcome=outcome,
            )
        except BrokerError as error:
            outcome(error)
            return
        if not taken:
            self.pending -= 1
            self._request(end, participant)

    def _ended_here(
        self, end: _End, participant: Participant, began_s: float, error: BrokerError | None
    ) -> None:
        self.pending -= 1
        if error is None:
            self.times[end.commit].add(self._client.clock.monotonic_s() - began_s)
            end.confirmed()
            return
        self.times[end.commit].failed += 1
        if error.code in FINAL:
            self._give_up(end.txn, participant[0], error)
            end.confirmed()
        else:
            self._request(end, participant)

    def _give_up(self, txn: TxnId, topic: str, error: MagnetarError) -> None:
        """Leave a transaction as it is on a topic: else it would stay, and hold its coordinator's log, for ever."""
        log.error("transaction %s cannot be ended on %s: %s", txn, topic, error)

    def _request(self, end: _End, participant: Participant) -> None:
        """Request an end of the broker that serves the participant, until it is done."""
        if not end.tasks.closed:
            end.tasks.spawn(f"end {end.txn}", self._requested(end, participant))

    async def _requested(self, end: _End, participant: Participant) -> None:
        await self._end(end.txn, participant[0], end.frame(participant), end.commit)
        end.confirmed()

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
                        self._give_up(txn, topic, error)
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
