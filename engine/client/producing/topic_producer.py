"""A producer of a topic, with or without partitions: chooses the partition and follows new partitions."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.tasks import restarting
from engine.client.client import PulsarClient, is_final_at_first, partition_names
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import PartitionChoice
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
)

log = logging.getLogger(__name__)

PARTITIONS_CHECK_S = 60.0
"""Seconds between checks whether a partitioned topic has grown."""


class TopicProducer:
    """A producer made by ``open``. Messages to one partition without a key, or with the same one, keep their order.

    ``budget`` counts messages without a result: stop sending while it is ``high``. ``on_results``: see
    PartitionProducer.
    """

    def __init__(
        self,
        client: PulsarClient,
        topic: str,
        settings: ProducerSettings,
        budget: Budget,
        on_results: Callable[[Sequence[SendResult]], None],
    ) -> None:
        self.topic = topic
        self._client = client
        self._settings = settings
        self._budget = budget
        self._on_results = on_results
        self._parts: list[PartitionProducer] = []
        self._choice: PartitionChoice | None = None
        self._growth: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        client: PulsarClient,
        topic: str,
        settings: ProducerSettings,
        *,
        budget: Budget,
        on_results: Callable[[Sequence[SendResult]], None],
    ) -> "TopicProducer":
        """Attach to all partitions. Raises RefusedError, ClientError within the operation's time; cancel-safe."""
        producer = cls(client, topic, settings, budget, on_results)
        count = await client.patiently(
            lambda: client.partitions(topic),
            timeout_s=client.operation_timeout_s,
            is_final=is_final_at_first,
        )
        await producer._open_parts(count)
        if count:
            batching = settings.batching
            producer._choice = PartitionChoice(
                settings.routing,
                settings.hashing,
                client.entropy.below(count),
                int(batching.delay_s * 1000) if batching is not None else 0,
            )
            task_name = f"partitions of {topic}"
            producer._growth = client.spawn(
                task_name, restarting(task_name, producer._follow_growth)
            )
        return producer

    async def _open_parts(self, count: int) -> None:
        """Open producers of the partitions that have none yet; all or none. ``count`` 0: the topic itself."""
        names = partition_names(self.topic, count)
        new = [
            PartitionProducer(
                self._client,
                names[index],
                self._settings,
                self._budget,
                self._on_results,
                index if count else -1,
            )
            for index in range(len(self._parts), len(names))
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for part in new:
                    group.create_task(part.open())
        except BaseExceptionGroup as errors:
            await asyncio.gather(*(part.close() for part in new))
            raise errors.exceptions[0] from None
        except BaseException:
            await asyncio.gather(*(part.close() for part in new))
            raise
        self._parts += new

    async def _follow_growth(self) -> None:
        while True:
            await asyncio.sleep(PARTITIONS_CHECK_S)
            try:
                count = await self._client.partitions(self.topic)
                if count > len(self._parts):
                    await self._open_parts(count)
            except MagnetarError as error:
                log.debug("partitions not known now topic=%s: %s", self.topic, error)

    @property
    def names(self) -> list[str]:
        """The producer's name on each partition."""
        return [part.name for part in self._parts]

    @property
    def schema_version(self) -> bytes:
        """The version of the settings' schema at the last attachment; empty without one."""
        return self._parts[0].schema_version

    @property
    def error(self) -> MagnetarError | None:
        """The error of a partition that accepts no messages any more, if any."""
        return next((part.error for part in self._parts if part.error is not None), None)

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send in order without waiting. Each message gets one result by ``on_results``, possibly before this
        returns."""
        if self._choice is None:
            self._parts[0].send(messages)
            return
        now_ms, count = self._client.clock.wall_ms(), len(self._parts)
        by_partition: dict[int, list[OutgoingMessage]] = {}
        for message in messages:
            by_partition.setdefault(self._choice.of(message, count, now_ms), []).append(message)
        for index, run in by_partition.items():
            self._parts[index].send(run)

    async def close(self) -> None:
        """Detach from the topic. Messages stored until then get a result, the others do not. Safe to repeat."""
        if self._growth is not None:
            self._growth.cancel()
        await asyncio.gather(*(part.close() for part in self._parts))
