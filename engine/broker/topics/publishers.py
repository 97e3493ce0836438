"""The producers of a topic: those attached by name, or an exclusive one, and those that wait to be exclusive.

The access modes are Pulsar's (PIP-68). Each time that a producer becomes exclusive the topic's epoch grows, durably and
before the producer is notified. A producer that was fenced is recognized by its older epoch when it connects again. It
is then refused in every mode but Shared. Apache's broker would let it wait again, or let two producers fence each other
without end.
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
from engine.broker.policies import (
    PublishPolicies,
)
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
"""Property of the managed ledger that holds the epoch, with the name that Apache's broker uses."""


NAME_BYTES_MAX = 1024
"""Bound of the names of producers and consumers, in bytes."""
ADOPTED_MAX = 1 << 62
"""Greatest epoch that is adopted from a producer when the topic's is lower or lost. No broker issued a greater one, and
the epochs that follow must fit int64."""


def stored_epoch(text: str) -> int | None:
    """Return the epoch that a property holds; None for text that no broker stored: then epochs begin again."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(INT64_MAX))):
        return None
    epoch = int(text)
    return epoch if epoch < INT64_MAX else None


class PublishersHost(Protocol):
    """Parts of a topic that its producers' admission uses."""

    name: TopicName
    log: Log
    scope: TaskScope

    @property
    def terminated(self) -> bool: ...

    def check_open(self) -> None: ...

    def touched(self) -> None: ...

    async def change_properties(self, changes: dict[str, str | None]) -> None: ...


class Publishers:
    """The producers of one topic.

    ``attached`` has those that may publish, by name. ``waiting`` has those that wait to be exclusive, in order, each
    with a future of its epoch.
    """

    __slots__ = (
        "_exclusive",
        "_exclusive_lock",
        "_host",
        "_policies",
        "attached",
        "epoch",
        "waiting",
    )

    def __init__(self, host: PublishersHost) -> None:
        self._host = host
        self._policies = PublishPolicies()
        self.attached: dict[str, Producer] = {}
        self.waiting: dict[Producer, asyncio.Future[int]] = {}
        self._exclusive: Producer | None = None
        """Producer that is exclusive or about to be."""
        self._exclusive_lock = asyncio.Lock()
        """Lock held while one producer becomes exclusive, by request or because its turn came."""
        self.epoch = stored_epoch(host.log.properties.get(EPOCH, ""))
        """Number of times, less one, that a producer became exclusive; None when none ever did."""

    @property
    def busy(self) -> bool:
        """True when a producer is attached, exclusive or waiting."""
        return bool(self.attached or self.waiting or self._exclusive)

    @property
    def has_clients(self) -> bool:
        """True when a producer is attached, exclusive or waiting that is no other cluster's replicator."""
        return bool(self.waiting or self._exclusive or self._clients())

    async def admit(self, producer: Producer) -> "int | asyncio.Future[int] | None":
        """Attach ``producer`` and return the topic's epoch, or a future of it when the producer has to wait.

        The producer may publish once the future is done, unless its result is a refusal. The connection of a producer
        that prevents the attachment is probed, and that producer is removed when the connection is dead. A newer epoch
        of the same connection and id replaces the older producer. Cancel-safe.

        Raises ServiceNotReady, TopicTerminated, ProducerBusy (name in use, limit reached, another producer is
        exclusive), ProducerFenced (cannot become exclusive), PersistenceError (nothing can be stored), MetadataError
        (encryption is required). Backlog quotas are checked by ``quotas.admit`` before the producer is created.
        """
        self._check_open()
        if self._lacks_encryption(producer):
            raise self._encryption_required()
        await self._check_writable()
        if producer.access_mode == pb.Shared:
            await self._share(producer)
            return self.epoch
        async with self._exclusive_lock:
            return await self._request_exclusive(producer)

    def remove(self, producer: Producer) -> None:
        """Remove a producer that left, and let the next waiting one become exclusive. Safe to call twice."""
        if self.attached.get(producer.name) is producer:
            del self.attached[producer.name]
            self._host.touched()
        future = self.waiting.pop(producer, None)
        if future is not None:
            future.cancel()
        if self._exclusive is producer:
            self._exclusive = None
        self._serve_waiting()

    def revoke(self, producer: Producer, error: BrokerError) -> None:
        """Disconnect a producer that lost its right; one that waits to be exclusive is refused with ``error``."""
        future = self.waiting.pop(producer, None)
        if future is not None:
            future.set_exception(error)
        else:
            producer.disconnect()

    def apply(self, policies: PublishPolicies) -> None:
        """Apply the topic's policies; producers that do not encrypt are disconnected when it is required now."""
        self._policies = policies
        for producer in list(self.attached.values()):
            if self._lacks_encryption(producer):
                producer.disconnect()
        for producer in list(filter(self._lacks_encryption, self.waiting)):
            self.waiting.pop(producer).set_exception(self._encryption_required())

    def _lacks_encryption(self, producer: Producer) -> bool:
        return self._policies.encryption_required and not producer.encrypted

    def _encryption_required(self) -> MetadataError:
        return MetadataError(f"Encryption is required in {self._host.name}")

    def refuse_waiting(self, error: BrokerError) -> None:
        """Refuse all producers that wait to be exclusive."""
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            future.set_exception(error)

    # --- shared ---------------------------------------------------------------------------------

    async def _share(self, producer: Producer) -> None:
        while True:
            self._check_open()
            rival = self._exclusive or next(iter(self.waiting), None)
            if rival is None:
                rival = self.attached.get(producer.name)
            if rival is None:
                break
            if not await self._is_removed(rival, producer):
                if rival is self._exclusive or rival in self.waiting:
                    raise ProducerBusy(f"Topic has an existing exclusive producer: {rival.name}")
                raise ProducerBusy(
                    f"Producer with name '{producer.name}' is already connected to topic "
                    f"'{self._host.name}'"
                )
        limit = self._policies.max_producers
        # Other clusters' replicators are no clients of the tenant.
        if not producer.origin and limit > 0 and reached(limit, self._clients()):
            raise ProducerBusy(f"Topic '{self._host.name}' reached max producers limit")
        self._attach(producer)

    def _clients(self) -> int:
        return sum(not attached.origin for attached in self.attached.values())

    async def _is_removed(self, rival: Producer, producer: Producer) -> bool:
        """Return whether ``rival``, which prevents ``producer`` from attaching, is removed now."""
        if rival.outlet is producer.outlet:
            replaced = rival.producer_id == producer.producer_id and producer.epoch > rival.epoch
        else:
            replaced = not await rival.outlet.is_alive()
        if replaced:
            rival.leave()
        # The rival may have left by itself during the probe.
        return replaced or not (
            rival is self._exclusive
            or rival in self.waiting
            or self.attached.get(rival.name) is rival
        )

    # --- alone ----------------------------------------------------------------------------------

    async def _request_exclusive(self, producer: Producer) -> "int | asyncio.Future[int]":
        while True:
            self._check_open()
            self._check_epoch(producer)
            if producer.access_mode == pb.ExclusiveWithFencing:
                return await self._make_exclusive(producer)
            rival = self._exclusive or next(iter(self.attached.values()), None)
            # A producer that was the last exclusive one and lost its connection resumes before those that wait.
            resumes = producer.topic_epoch is not None and producer.topic_epoch == self.epoch
            if rival is None and (resumes or not self.waiting):
                return await self._make_exclusive(producer)
            if rival is not None and await self._is_removed(rival, producer):
                continue
            if producer.access_mode == pb.WaitForExclusive:
                future = asyncio.get_running_loop().create_future()
                # A refusal is retrieved here, because the caller that would await it may have given up.
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

    async def _make_exclusive(self, producer: Producer) -> int:
        """Make ``producer`` exclusive, disconnect all others and return the epoch (D13).

        Raises BrokerError; then nothing has changed.
        """
        before, self._exclusive = self._exclusive, producer
        try:
            epoch = await self._next_epoch(producer)
            self._check_open()
            if self._exclusive is not producer:
                raise ServiceNotReady(f"Producer {producer.name} left")
        except BaseException:
            if self._exclusive is producer:
                self._exclusive = before if before in self.attached.values() else None
            self._serve_waiting()
            raise
        if producer.access_mode == pb.ExclusiveWithFencing:
            self.refuse_waiting(ProducerFenced(f"Fenced by {producer.name}"))
        for other in list(self.attached.values()):
            if other.outlet is producer.outlet and other.producer_id == producer.producer_id:
                other.leave()  # a notice would close the client's new producer, which has the same id
            else:
                other.disconnect()
        self._attach(producer)
        return epoch

    async def _next_epoch(self, producer: Producer) -> int:
        """Store and return the epoch under which ``producer`` is exclusive: a new one, or the one that it had."""
        epoch = producer.topic_epoch
        if epoch is None or (epoch > ADOPTED_MAX and epoch != self.epoch):
            epoch = 0 if self.epoch is None else self.epoch + 1
        if epoch != self.epoch:
            if self._host.name.persistent:
                await self._host.change_properties({EPOCH: str(epoch)})
            self.epoch = epoch
        return epoch

    def _serve_waiting(self) -> None:
        if self.waiting:
            self._host.scope.spawn("next producer", self._give_turn())

    async def _give_turn(self) -> None:
        async with self._exclusive_lock:
            while self.waiting and self._exclusive is None and not self.attached:
                producer = next(iter(self.waiting))
                try:
                    self._check_epoch(producer)
                    epoch = await self._make_exclusive(producer)
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
        """Refuse a producer while there is no ledger to write to: it would be attached, fail and try again."""
        topic = self._host.name
        try:
            await self._host.log.writable()
        except AppendFailedError as error:
            raise PersistenceError(f"Topic {topic} cannot be written: {error}") from error
        except ManagedLedgerTerminatedError as error:
            raise TopicTerminated("Topic was already terminated") from error
        except ManagedLedgerError as error:
            raise ServiceNotReady(f"Topic {topic} is being unloaded") from error
