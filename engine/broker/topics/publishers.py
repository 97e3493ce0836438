"""Who publishes to a topic: producers by name, or one alone, and the line of those who wait to be that one.

The modes are Pulsar's (PIP-68). Each time that a producer gets a topic to itself the topic's epoch grows, durably and
before the producer is told: one that was shut out is known by its older epoch when it comes again. It is then refused
in every mode but Shared; Apache's broker would put it back in line, or let two that fence each other do so for ever.
"""

import asyncio
from typing import Protocol

from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.broker.errors import (
    BrokerError,
    MetadataError,
    PersistenceError,
    ProducerBusy,
    ProducerFenced,
    ServiceNotReady,
    TopicTerminated,
)
from engine.broker.ports import TopicPolicies
from engine.broker.topics.limits import reached
from engine.broker.topics.ports import Log
from engine.broker.topics.publish import Producer
from engine.managed.errors import (
    AppendFailedError,
    ManagedLedgerError,
    ManagedLedgerTerminatedError,
)
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import INT64_MAX

EPOCH = "pulsar.topic.epoch"
"""The managed ledger's property that keeps the epoch, as Apache's broker names it."""


NAME_BYTES_MAX = 1024
"""Names of producers and consumers."""
ADOPTED_MAX = 1 << 62
"""A producer's epoch is adopted up to this one, where the topic has a lower one or has lost its own: a greater one was
given by no broker, and those that follow it must fit int64."""


def stored_epoch(text: str) -> int | None:
    """The epoch that a property holds; None for what none of our brokers has stored: then counting begins anew."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(INT64_MAX))):
        return None
    epoch = int(text)
    return epoch if epoch < INT64_MAX else None


class PublishersHost(Protocol):
    """What they need of their topic."""

    name: TopicName
    log: Log
    policies: TopicPolicies
    scope: TaskScope

    @property
    def terminated(self) -> bool: ...

    def check_open(self) -> None: ...

    def touched(self) -> None: ...

    async def change_properties(self, changes: dict[str, str | None]) -> None: ...


class Publishers:
    """Of one topic. ``attached``: those who may publish, by name. ``waiting``: each with the epoch that it will get."""

    __slots__ = ("_host", "_one_at_a_time", "_sole", "attached", "epoch", "waiting")

    def __init__(self, host: PublishersHost) -> None:
        self._host = host
        self.attached: dict[str, Producer] = {}
        self.waiting: dict[Producer, asyncio.Future[int]] = {}
        self._sole: Producer | None = None
        """Has the topic to itself, or is about to."""
        self._one_at_a_time = asyncio.Lock()
        """Held by who asks for the topic alone, and by who gets its turn."""
        self.epoch = stored_epoch(host.log.properties.get(EPOCH, ""))
        """How often, less one, somebody got the topic alone; None: never."""

    @property
    def busy(self) -> bool:
        """Somebody may publish, or waits to."""
        return bool(self.attached or self.waiting or self._sole)

    async def admit(self, producer: Producer) -> "int | asyncio.Future[int] | None":
        """Let ``producer`` publish; the topic's epoch. A future: it waits in line and may publish when that is done,
        unless it holds a refusal.

        Raises ServiceNotReady, TopicTerminated, ProducerBusy (name taken, limit reached, the topic is another's alone),
        ProducerFenced (cannot have it alone), PersistenceError (nothing can be stored), MetadataError (it must encrypt
        and does not). Backlog quotas are asked by ``quotas.admit``, before anything is made for the producer.

        Who stands in the way is asked for a sign of life; a newer epoch of the same connection and id replaces the
        older one. Cancel-safe.
        """
        self._check_open()
        if self._too_plain(producer):
            raise self._encryption_required()
        await self._check_writable()
        if producer.access_mode == pb.Shared:
            await self._share(producer)
            return self.epoch
        async with self._one_at_a_time:
            return await self._ask_alone(producer)

    def remove(self, producer: Producer) -> None:
        """It left. Safe to call twice."""
        if self.attached.get(producer.name) is producer:
            del self.attached[producer.name]
            self._host.touched()
        future = self.waiting.pop(producer, None)
        if future is not None:
            future.cancel()
        if self._sole is producer:
            self._sole = None
        self._next()

    def apply(self) -> None:
        """The topic's policies may be others: who does not encrypt and must is sent away."""
        for producer in list(self.attached.values()):
            if self._too_plain(producer):
                producer.disconnect()
        for producer in [one for one in self.waiting if self._too_plain(one)]:
            self.waiting.pop(producer).set_exception(self._encryption_required())

    def _too_plain(self, producer: Producer) -> bool:
        return self._host.policies.encryption_required and not producer.encrypted

    def _encryption_required(self) -> MetadataError:
        return MetadataError(f"Encryption is required in {self._host.name}")

    def refuse_waiting(self, error: BrokerError) -> None:
        """Nobody of them gets the topic."""
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            future.set_exception(error)

    # --- shared ---------------------------------------------------------------------------------

    async def _share(self, producer: Producer) -> None:
        while True:
            self._check_open()
            rival = self._sole or next(iter(self.waiting), None)
            if rival is None:
                rival = self.attached.get(producer.name)
            if rival is None:
                break
            if not await self._gives_way(rival, producer):
                if rival is self._sole or rival in self.waiting:
                    raise ProducerBusy(f"Topic has an existing exclusive producer: {rival.name}")
                raise ProducerBusy(
                    f"Producer with name '{producer.name}' is already connected to topic "
                    f"'{self._host.name}'"
                )
        if reached(self._host.policies.max_producers, len(self.attached)):
            raise ProducerBusy(f"Topic '{self._host.name}' reached max producers limit")
        self._attach(producer)

    async def _gives_way(self, rival: Producer, producer: Producer) -> bool:
        """Whether ``rival``, who stands in the way, is gone now."""
        if rival.outlet is producer.outlet:
            gone = rival.producer_id == producer.producer_id and producer.epoch > rival.epoch
        else:
            gone = not await rival.outlet.is_alive()
        if gone:
            rival.leave()
        return gone or not (
            rival is self._sole or rival in self.waiting or self.attached.get(rival.name) is rival
        )

    # --- alone ----------------------------------------------------------------------------------

    async def _ask_alone(self, producer: Producer) -> "int | asyncio.Future[int]":
        while True:
            self._check_open()
            self._check_epoch(producer)
            if producer.access_mode == pb.ExclusiveWithFencing:
                return await self._take(producer)
            rival = self._sole or next(iter(self.attached.values()), None)
            back = producer.topic_epoch is not None and producer.topic_epoch == self.epoch
            if rival is None and (back or not self.waiting):
                return await self._take(producer)
            if rival is not None and await self._gives_way(rival, producer):
                continue
            if producer.access_mode == pb.WaitForExclusive:
                future = asyncio.get_running_loop().create_future()
                # A refusal may find that its client has just given up.
                future.add_done_callback(lambda done: done.cancelled() or done.exception())
                self.waiting[producer] = future
                self._host.touched()
                return future
            if rival is not None and rival.access_mode == pb.Shared:
                raise ProducerFenced("Topic has existing shared producers")
            holder = rival or next(iter(self.waiting))
            raise ProducerFenced(f"Topic has an existing exclusive producer: {holder.name}")

    def _check_epoch(self, producer: Producer) -> None:
        given, epoch = producer.topic_epoch, self.epoch
        if given is not None and epoch is not None and given < epoch:
            raise ProducerFenced(
                f"Topic epoch has already moved. Current epoch: {epoch}, Producer epoch: {given}"
            )

    async def _take(self, producer: Producer) -> int:
        """The topic is ``producer``'s alone; all others are sent away (D13). Raises BrokerError, nothing changed."""
        before, self._sole = self._sole, producer
        try:
            epoch = await self._grow(producer)
            self._check_open()
            if self._sole is not producer:
                raise ServiceNotReady(f"Producer {producer.name} left")
        except BaseException:
            if self._sole is producer:
                self._sole = before if before in self.attached.values() else None
            self._next()
            raise
        if producer.access_mode == pb.ExclusiveWithFencing:
            self.refuse_waiting(ProducerFenced(f"Fenced by {producer.name}"))
        for other in list(self.attached.values()):
            if other.outlet is producer.outlet and other.producer_id == producer.producer_id:
                other.leave()  # the client knows: it comes again under the same id
            else:
                other.disconnect()
        self._attach(producer)
        return epoch

    async def _grow(self, producer: Producer) -> int:
        """The epoch under which ``producer`` has the topic: a new one, or the one that it had when it went."""
        epoch = producer.topic_epoch
        if epoch is None or (epoch > ADOPTED_MAX and epoch != self.epoch):
            epoch = 0 if self.epoch is None else self.epoch + 1
        if epoch != self.epoch:
            if self._host.name.persistent:
                await self._host.change_properties({EPOCH: str(epoch)})
            self.epoch = epoch
        return epoch

    def _next(self) -> None:
        if self.waiting:
            self._host.scope.spawn("next producer", self._give_turn())

    async def _give_turn(self) -> None:
        async with self._one_at_a_time:
            while self.waiting and self._sole is None and not self.attached:
                producer = next(iter(self.waiting))
                try:
                    self._check_epoch(producer)
                    epoch = await self._take(producer)
                except BrokerError as error:
                    future = self.waiting.pop(producer, None)
                    if future is not None:
                        future.set_exception(error)
                else:
                    self.waiting.pop(producer).set_result(epoch)

    # --- both -----------------------------------------------------------------------------------

    def _attach(self, producer: Producer) -> None:
        self.attached[producer.name] = producer
        self._host.touched()

    def _check_open(self) -> None:
        self._host.check_open()
        if self._host.terminated:
            raise TopicTerminated("Topic was already terminated")

    async def _check_writable(self) -> None:
        """Refuse who would come, fail and come again for as long as there is no ledger to write to."""
        topic = self._host.name
        try:
            await self._host.log.writable()
        except AppendFailedError as error:
            raise PersistenceError(f"Topic {topic} cannot be written: {error}") from error
        except ManagedLedgerTerminatedError as error:
            raise TopicTerminated("Topic was already terminated") from error
        except ManagedLedgerError as error:
            raise ServiceNotReady(f"Topic {topic} is being unloaded") from error
