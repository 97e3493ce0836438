"""Effectively once: each input partition's results go through producers of its own, under sequence ids made of the
inputs' positions, to topics that drop repeated ones.

Why it holds. A failover subscription gives a partition to one instance at a time. The producers are named for the
partition, and a broker has one producer of a name: another instance is let in after the one before has left, or was
found dead. The broker returns to it the last stored sequence id: results up to there are stored, those behind are
not. An input is acknowledged after its result is stored. So whatever is processed again is stored once, however
many instances there are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zlib import crc32

from engine.base.backoff import Backoff
from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient, partition_names
from engine.client.consuming.attachment import Attachment
from engine.client.consuming.incoming import Incoming
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, key_hash
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
)
from engine.functions.instance.result_publishing import finish, not_busy
from engine.functions.instance.user.processing import MessageRun, PartitionTenure
from engine.wire.errors import RefusedError, ServerError

log = logging.getLogger(__name__)

LEAVE_S = 5.0
"""Seconds that a lost partition's producers stay, at most, so that its slices are logged."""
LEDGER_BITS, ENTRY_BITS, BATCH_BITS = 27, 24, 12
"""Bits of a sequence id, 63 together."""


class PositionTooLargeError(MagnetarError):
    """An input whose position does not fit into a sequence id."""


class NoDeduplicationError(MagnetarError):
    """The output topic stores what it has stored before."""


def sequence_of(message: Incoming) -> int:
    """Return the sequence id of a message's result: rising along the partition. Raises PositionTooLargeError."""
    ledger, entry = message.position
    index = max(message.batch_index, 0)
    if ledger >> LEDGER_BITS or entry >> ENTRY_BITS or index >> BATCH_BITS:
        raise PositionTooLargeError(
            f"{message.topic} at {ledger}:{entry}:{index}: effectively-once results need ledger ids below "
            f"2^{LEDGER_BITS}, entries below 2^{ENTRY_BITS} and batches of at most {1 << BATCH_BITS}"
        )
    return (ledger << ENTRY_BITS | entry) << BATCH_BITS | index


class PartitionLane:
    """One input partition on this instance, between its first message and the loss of the partition."""

    def __init__(
        self, tenure: PartitionTenure, producers: Sequence[PartitionProducer], spread: int
    ) -> None:
        self.tenure = tenure
        self.producers = producers
        self.held: list[list[tuple[int, OutgoingMessage]]] = []
        """Results that wait until deduplication is known to work."""
        self.checked = any(producer.stored_sequence_id >= 0 for producer in producers)
        self.checking = False
        self._spread = spread
        self._next: dict[PartitionProducer, int] = {}

    def send(self, results: Sequence[tuple[int, OutgoingMessage]]) -> list[SendResult]:
        """Send results with their sequence ids; return those that were stored before, which are not sent (F5)."""
        stored: list[SendResult] = []
        runs: dict[PartitionProducer, list[OutgoingMessage]] = {}
        for sequence, message in results:
            producer = self.producer_of(message)
            if sequence <= producer.stored_sequence_id:
                stored.append(SendResult(message.token, None))
                continue
            run = runs.setdefault(producer, [])
            if sequence != self._next.get(producer):
                if run:
                    producer.send(run)
                    run = runs[producer] = []
                producer.resume_at(sequence)
            run.append(message)
            self._next[producer] = sequence + 1
        for producer, run in runs.items():
            producer.send(run)
            producer.flush()
        return stored

    def producer_of(self, message: OutgoingMessage) -> PartitionProducer:
        """Return the producer of a result, the same each time: by its key, else by the input partition."""
        count = len(self.producers)
        if message.key is None:
            return self.producers[self._spread % count]
        return self.producers[key_hash(Hashing.JAVA_STRING, message.key) % count]


class PartitionLanes:
    """The lanes of an instance. ``give`` takes runs when their lane is open; ``on_error`` what ends the instance.

    ``begin`` is awaited before a partition's first run, ``end`` before the producers of a lost partition leave.
    """

    def __init__(
        self,
        client: PulsarClient,
        name: str,
        topic: str,
        settings: ProducerSettings,
        budget: Budget,
        give: Callable[[MessageRun], None],
        on_results: Callable[[Sequence[SendResult]], None],
        on_error: Callable[[MagnetarError], None],
        begin: Callable[[str, PartitionTenure], Awaitable[None]],
        end: Callable[[str], Awaitable[None]],
    ) -> None:
        self._client = client
        self._begin = begin
        self._end = end
        self._name = name
        self._topic = topic
        # An entry must keep its sequence id for ever: nothing is given up, and chunks would need ids of their own.
        self._settings = replace(settings, send_timeout_s=0.0, initial_sequence_id=None)
        self._budget = budget
        self._give = give
        self._on_results = on_results
        self._on_error = on_error
        self._lanes: dict[PartitionTenure, PartitionLane] = {}
        self._tenures: dict[Attachment, PartitionTenure] = {}
        self._waiting: dict[Attachment, list[MessageRun]] = {}
        self._leaving: dict[Attachment, asyncio.Task[None]] = {}

    def receive(self, attachment: Attachment, run: MessageRun) -> None:
        """Have a run processed after its lane is open."""
        tenure = self._tenures.get(attachment)
        if tenure is None:
            tenure = self._tenures[attachment] = PartitionTenure()
            self._waiting[attachment] = []
            self._client.spawn(f"lane of {attachment.topic}", self._open(attachment, tenure))
        run = run._replace(tenure=tenure)
        waiting = self._waiting.get(attachment)
        if waiting is None:
            self._give(run)
        else:
            waiting.append(run)

    def lost(self, attachment: Attachment) -> int:
        """End a lane: all that it did not acknowledge is redelivered to the present consumer of the partition.

        Return how many messages waited for the lane; they are dropped, and the caller gives their room back (F11).
        """
        tenure = self._tenures.pop(attachment, None)
        waiting = self._waiting.pop(attachment, ())
        if tenure is None:
            return 0
        tenure.over = True
        lane = self._lanes.pop(tenure, None)
        if lane is not None:
            self._leaving[attachment] = self._client.spawn(
                f"leave {attachment.topic}", self._leave(attachment.topic, lane.producers)
            )
        return sum(len(run.messages) for run in waiting)

    async def _leave(self, partition: str, producers: Sequence[PartitionProducer]) -> None:
        """Let the next instance in, after what this one has processed is logged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._end(partition)
        await _close(producers)

    async def _open(self, attachment: Attachment, tenure: PartitionTenure) -> None:
        leaving = self._leaving.pop(attachment, None)
        if leaving is not None:
            await leaving
        producers: list[PartitionProducer] = []
        try:
            await self._open_producers(producers, attachment.topic, tenure)
            await self._begin(attachment.topic, tenure)
        except MagnetarError as error:
            if not tenure.over:
                self._on_error(error)
                return
        if tenure.over:
            # The instance that has the partition now waits for their names.
            await _close(producers)
            return
        self._lanes[tenure] = PartitionLane(tenure, producers, crc32(attachment.topic.encode()))
        for run in self._waiting.pop(attachment, ()):
            self._give(run)

    async def _open_producers(
        self, producers: list[PartitionProducer], partition: str, tenure: PartitionTenure
    ) -> None:
        """Open a producer on each partition of the output, and append it to ``producers``; the instance before may have
        them still. Raises MagnetarError."""
        if not self._topic:
            return
        count = await self._client.patiently(
            lambda: self._client.partitions(self._topic),
            timeout_s=self._client.operation_timeout_s,
        )
        settings = replace(self._settings, name=f"{self._name}-{partition}")
        for name in partition_names(self._topic, count):
            producer = self._producer(name, settings)
            producers.append(producer)
            backoff = Backoff(initial_s=0.05, max_s=1.0)
            while not tenure.over:
                try:
                    await producer.open()
                    break
                except RefusedError as error:
                    if error.code != ServerError.ProducerBusy:
                        raise
                    log.debug("waiting for the instance that has %s", partition)
                await asyncio.sleep(backoff.next_s(self._client.entropy.random()))

    def _producer(self, topic: str, settings: ProducerSettings) -> PartitionProducer:
        return PartitionProducer(self._client, topic, settings, self._budget, self._on_results)

    def send(self, tenure: PartitionTenure, results: Sequence[tuple[int, OutgoingMessage]]) -> None:
        """Send results of a lane; those of one that is over have no effect."""
        lane = self._lanes.get(tenure)
        if lane is None or not results:
            return
        if lane.checked:
            self._report(lane.send(results))
            return
        lane.held.append(list(results))
        if not lane.checking:
            lane.checking = True
            self._client.spawn("check deduplication", self._check(lane))

    def _report(self, stored: Sequence[SendResult]) -> None:
        if stored:
            self._on_results(stored)

    async def _check(self, lane: PartitionLane) -> None:
        """Store the first result alone and see that the broker remembers it, before anything depends on that."""
        first = lane.held[0].pop(0)
        sequence, message = first
        producer = lane.producer_of(message)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        alone = PartitionProducer(
            self._client,
            producer.topic,
            replace(self._settings, name=producer.name),
            Budget(1 << 40),
            lambda results: finish(done, results[0].error),
        )
        again = self._producer(producer.topic, replace(self._settings, name=producer.name))
        try:
            await producer.close()
            await self._reopened(alone)
            alone.send_as(replace(message, token=None), sequence)
            alone.flush()
            await done
            await alone.close()
            await self._reopened(again)
        except MagnetarError as error:
            if not lane.tenure.over:
                self._on_error(error)
                return
        if lane.tenure.over:
            await _close((alone, again))
            return
        if again.stored_sequence_id < sequence:
            self._on_error(
                NoDeduplicationError(
                    f"{self._topic} has no deduplication: results of effectively-once processing would be repeated"
                )
            )
            return
        lane.producers = [again if other is producer else other for other in lane.producers]
        lane.checked = True
        self._report([SendResult(message.token, None)])
        held, lane.held = lane.held, []
        for results in held:
            self._report(lane.send(results))

    async def _reopened(self, producer: PartitionProducer) -> None:
        """Open a producer whose namesake has just left. Raises MagnetarError."""
        await self._client.patiently(
            producer.open, timeout_s=self._client.operation_timeout_s, is_final=not_busy
        )

    async def close(self) -> None:
        """End all lanes and leave the partitions."""
        for attachment in list(self._tenures):
            self.lost(attachment)
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)


async def _close(producers: Sequence[Any]) -> None:
    for producer in producers:
        with suppress(MagnetarError):  # it is gone already
            await producer.close()
