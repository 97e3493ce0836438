"""One attached producer: hands runs to its topic, answers with receipts once per confirmed range."""

import asyncio
import logging

from engine.base.slices import Slice
from engine.broker.outlet import Outlet
from engine.broker.rates import Traffic
from engine.broker.topic import Topic
from engine.managed.errors import AppendFailedError
from engine.wire import commands
from engine.wire.errors import ServerError
from engine.wire.kernels import SendRun, build_receipts, head_sequences

log = logging.getLogger(__name__)


class Producer:
    """An ``AppendSink``. Receipts go out in send order; after a failed append nothing more of it is stored until the
    client has come anew, so that order holds."""

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

    def send(self, run: SendRun) -> None:
        """Publish ``run``. Ignored once the producer is being sent away: the client sends it again."""
        if self._closed or self.topic.closing:
            return
        self._pending += run.count
        self.outlet.publish_started(run.size)
        self.topic.publish(self, run)

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
        self.published.messages.total += messages
        self.published.bytes.total += size
        self.topic.stored(messages, size)
        self.outlet.send(build_receipts(run.ledger_id, run.first + start, run.heads, start, stop))
        if stop == run.count:
            run.heads = []  # the run may stay cached for long, and small entries weigh less than these
        self._ended(stop - start, size)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        size = sum(run.spans[2 * start + 1 :: 2]) - sum(run.spans[2 * start :: 2])
        if not self._closed:
            if isinstance(error, AppendFailedError):
                self._tell(run, start, error)
            self.disconnect()
        self._ended(run.count - start, size)

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

    def _ended(self, entries: int, size: int) -> None:
        self._pending -= entries
        self.outlet.publish_ended(size)
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
