"""One attached producer: hands runs to its topic, answers with receipts once per confirmed range."""

import asyncio
import logging
from collections import Counter

from engine.base.slices import Slice
from engine.broker.connection.outlet import Outlet
from engine.broker.topics.counters import Traffic
from engine.broker.topics.topic import Topic
from engine.managed.errors import AppendFailedError
from engine.wire import commands
from engine.wire.errors import ServerError
from engine.wire.kernels import SendRun, build_receipts, head_sequences

log = logging.getLogger(__name__)


class Producer:
    """An ``AppendSink``. Receipts go out in send order (D9); after a failed append nothing more of it is stored until
    the client has come anew, so that order holds."""

    def __init__(
        self,
        outlet: Outlet,
        producer_id: int,
        name: str,
        topic: Topic,
        *,
        now_ms: int,
        epoch: int = 0,
        named_by_user: bool = True,
        metadata: dict[str, str] | None = None,
    ) -> None:
        self.outlet = outlet
        self.producer_id = producer_id
        self.name = name
        self.topic = topic
        self.epoch = epoch
        self.named_by_user = named_by_user
        self.metadata = metadata or {}
        self.connected_ms = now_ms
        self.published = Traffic()
        self._pending = 0
        self._drained: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def takes(self) -> bool:
        """False once it is being sent away: what it sends is ignored, the client sends it again."""
        return not self._closed and not self.topic.closing

    def send(self, run: SendRun) -> None:
        """Publish ``run``, unless the producer does not take it any more."""
        if self.takes:
            self.started(run.count)
            self.outlet.publish_started(run.size)
            self.topic.publish(self, run)

    def started(self, entries: int) -> None:
        """So many more are on their way."""
        self._pending += entries

    def appended(self, run: Slice, start: int, stop: int) -> None:
        assert isinstance(run, SendRun)
        whole = start == 0 and stop == run.count
        size = (
            run.size
            if whole
            else sum(run.spans[2 * i + 1] - run.spans[2 * i] for i in range(start, stop))
        )
        messages = (
            run.messages
            if whole
            else (stop - start if run.counts is None else sum(run.counts[start:stop]))
        )
        self.topic.stored(messages, size)
        self.outlet.send(build_receipts(run.ledger_id, run.first + start, run.heads, start, stop))
        if stop == run.count:
            run.heads = []  # the run may stay cached for long, and small entries weigh less than these
        self.outlet.publish_ended(size)
        self.stored(stop - start, messages, size)

    def stored(self, entries: int, messages: int, size: int) -> None:
        """Of what was on its way, so many entries, messages and bytes are durable."""
        self.published.messages.total += messages
        self.published.bytes.total += size
        self._ended(entries)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        size = sum(run.spans[2 * start + 1 :: 2]) - sum(run.spans[2 * start :: 2])
        if not self._closed:
            if isinstance(error, AppendFailedError):
                self._tell(run, start, error)
            self.disconnect()
        self.outlet.publish_ended(size)
        self._ended(run.count - start)

    def _tell(self, run: Slice, start: int, error: AppendFailedError) -> None:
        """Why: SEND_ERROR for each entry of the run. What was sent behind it fails with the producer, as it must."""
        assert isinstance(run, SendRun)
        log.debug("append failed topic=%s producer=%s: %s", self.topic.name, self.name, error)
        text = f"The message could not be stored: {error}"
        for sequence_id, highest in head_sequences(run.heads[start:]):
            self.outlet.send(
                commands.send_error(
                    self.producer_id, max(sequence_id, highest), ServerError.PersistenceError, text
                )
            )

    def _ended(self, entries: int) -> None:
        self._pending -= entries
        if self._drained is not None and not self._pending and not self._drained.done():
            self._drained.set_result(None)

    async def drained(self) -> None:
        """Return when nothing it sent is pending any more. Cancel-safe."""
        if self._pending:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def leave(self) -> None:
        """The client closed it, or a newer one replaces it. Safe to call twice."""
        self._closed = True
        self.topic.remove_producer(self)

    def disconnect(self) -> None:
        """Send it away: the client comes back by itself and sends again what has no receipt."""
        if not self._closed:
            self.leave()
            self.outlet.drop_producer(self.producer_id)


class ProducerGroup:
    """An ``AppendSink`` for one run of SENDs of several producers of a connection and a topic: their receipts leave
    together, and what each sent is counted for it."""

    def __init__(self, outlet: Outlet, topic: Topic, producers: dict[int, Producer]) -> None:
        self._outlet = outlet
        self._topic = topic
        self._producers = producers
        self._owners: list[int] = []

    def send(self, run: SendRun, owners: list[int]) -> None:
        """Publish ``run``, whose entry ``i`` is of producer ``owners[i]``."""
        self._owners = owners
        for producer_id, entries in Counter(owners).items():
            self._producers[producer_id].started(entries)
        self._outlet.publish_started(run.size)
        self._topic.publish(self, run)

    def appended(self, run: Slice, start: int, stop: int) -> None:
        assert isinstance(run, SendRun)
        spans, counts = run.spans, run.counts
        shares: dict[int, list[int]] = {}
        total = 0
        for i in range(start, stop):
            size = spans[2 * i + 1] - spans[2 * i]
            total += size
            share = shares.get(self._owners[i])
            if share is None:
                share = shares[self._owners[i]] = [0, 0, 0]
            share[0] += 1
            share[1] += 1 if counts is None else counts[i]
            share[2] += size
        self._topic.stored(sum(share[1] for share in shares.values()), total)
        self._outlet.send(build_receipts(run.ledger_id, run.first + start, run.heads, start, stop))
        if stop == run.count:
            run.heads, run.owners = [], None
        self._outlet.publish_ended(total)
        for producer_id, share in shares.items():
            self._producers[producer_id].stored(*share)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        assert isinstance(run, SendRun)
        for producer_id in dict.fromkeys(self._owners[start:]):
            own = [i for i in range(start, run.count) if self._owners[i] == producer_id]
            self._producers[producer_id].append_failed(run.pick(own), 0, error)
