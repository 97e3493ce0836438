"""One topic served here: its producers, its subscriptions, and the way of a run of entries into its managed ledger."""

import asyncio
import logging
from typing import TYPE_CHECKING

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.broker.consumer import Consumer
from engine.broker.errors import (
    NotAllowed,
    ProducerBusy,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicTerminated,
)
from engine.broker.ports import TopicPolicies
from engine.broker.rates import Traffic
from engine.broker.subscription import Subscription
from engine.managed.errors import CursorNotFoundError
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.wire.kernels import SendRun

if TYPE_CHECKING:
    from engine.broker.producer import Producer
    from engine.broker.topics import TopicRegistry

log = logging.getLogger(__name__)

RESERVED_CURSORS = ("pulsar.repl", "pulsar.dedup")
"""Cursors with these prefixes are the broker's own."""

CONFIRM_GRACE_S = 3.0
"""How long a closing topic waits for what its producers sent, before it sends them away."""


class Topic:
    """Made by the registry around an open managed ledger. Methods raise BrokerError where they refuse."""

    def __init__(
        self,
        name: TopicName,
        ledger: ManagedLedger,
        policies: TopicPolicies,
        registry: "TopicRegistry",
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.policies = policies
        self.registry = registry
        self.scope = TaskScope(f"topic {name}")
        self.producers: dict[str, Producer] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.closing = False
        self.published = Traffic()
        self.chunks_published = False
        self._changing = asyncio.Lock()
        for cursor_name in sorted(ledger.cursors):
            if not cursor_name.startswith(RESERVED_CURSORS):
                cursor = ledger.cursors[cursor_name]
                self.subscriptions[cursor_name] = Subscription(self, cursor)
        self._stop_listening = ledger.on_appended(self._wake)
        ledger.on_fenced(lambda: registry.reload(self))

    @property
    def use(self) -> str:
        """What keeps the topic from being deleted, for messages."""
        return f"{len(self.producers)} producers and {len(self.subscriptions)} subscriptions"

    @property
    def terminated(self) -> bool:
        return self.ledger.terminated is not None

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, producer: "Producer", run: SendRun) -> None:
        """Append ``run``; its fate goes to ``producer``, maybe within this call."""
        self.ledger.append(run, producer)

    def stored(self, messages: int, size: int) -> None:
        """Count what became durable."""
        self.published.messages.total += messages
        self.published.bytes.total += size

    def _wake(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.wake()

    async def add_producer(self, producer: "Producer") -> None:
        """Let ``producer`` publish. Raises ServiceNotReady, TopicTerminated, ProducerBusy (name taken).

        A holder of the name on another connection is asked for a sign of life; a newer epoch of the same connection and
        id replaces the older one. Cancel-safe.
        """
        while True:
            self._check_open()
            if self.terminated:
                raise TopicTerminated("Topic was already terminated")
            holder = self.producers.get(producer.name)
            if holder is None:
                self.producers[producer.name] = producer
                return
            if holder.outlet is producer.outlet:
                if (
                    holder.producer_id == producer.producer_id
                    and not producer.named_by_user
                    and producer.epoch > holder.epoch
                ):
                    holder.leave()
                    continue
            elif not await holder.outlet.is_alive():
                if self.producers.get(producer.name) is holder:
                    holder.leave()
                continue
            if self.producers.get(producer.name) is not holder:
                continue
            raise ProducerBusy(
                f"Producer with name '{producer.name}' is already connected to topic '{self.name}'"
            )

    def remove_producer(self, producer: "Producer") -> None:
        """It left. Safe to call twice."""
        if self.producers.get(producer.name) is producer:
            del self.producers[producer.name]

    # --- subscriptions --------------------------------------------------------------------------

    async def subscribe(
        self,
        consumer: Consumer,
        name: str,
        *,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
        replicated: bool = False,
    ) -> Subscription:
        """Attach ``consumer`` to the subscription ``name``, made if missing. ``initial`` counts only then.

        Raises ConsumerBusy, NotAllowed (durable onto non-durable or reverse), SubscriptionNotFound (may not be made),
        ServiceNotReady. Cancel-safe: the subscription may remain, without the consumer.
        """
        while True:
            subscription = await self._ensure_subscription(name, durable, initial, properties)
            if subscription.durable != durable:
                kind = "Durable" if subscription.durable else "NonDurable"
                raise NotAllowed(f"{kind} subscription with the same name already exists.")
            if await subscription.attach(consumer):
                return subscription

    async def _ensure_subscription(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
    ) -> Subscription:
        self._check_open()
        subscription = self.subscriptions.get(name)
        if subscription is not None:
            return subscription
        async with self._changing:
            self._check_open()
            subscription = self.subscriptions.get(name)
            if subscription is not None:
                return subscription
            if durable and not self.policies.auto_subscription:
                raise SubscriptionNotFound("Subscription does not exist")
            return await self._make_subscription(name, durable, initial, properties)

    async def create_subscription(
        self, name: str, initial: Position | InitialPosition, properties: dict[str, str]
    ) -> Subscription | None:
        """A new durable subscription for an administrator; None when it exists."""
        self._check_open()
        async with self._changing:
            self._check_open()
            if name in self.subscriptions:
                return None
            return await self._make_subscription(name, True, initial, properties)

    async def _make_subscription(
        self,
        name: str,
        durable: bool,
        initial: Position | InitialPosition,
        properties: dict[str, str],
    ) -> Subscription:
        cursor = await self.ledger.open_cursor(
            name, initial, durable=durable, cursor_properties=properties
        )
        subscription = Subscription(self, cursor)
        self.subscriptions[name] = subscription
        return subscription

    async def delete_subscription(self, name: str, *, force: bool = False) -> None:
        """Raises SubscriptionNotFound, ConsumerBusy (consumers connected and not ``force``)."""
        async with self._changing:
            subscription = self.subscriptions.get(name)
            if subscription is None:
                raise SubscriptionNotFound("Subscription not found")
            await subscription.close(force=force)
            await self._delete(subscription)

    async def _delete(self, subscription: Subscription) -> None:
        try:
            await self.ledger.delete_cursor(subscription.name)
        except CursorNotFoundError:
            log.debug("cursor was gone topic=%s cursor=%s", self.name, subscription.name)
        finally:
            if self.subscriptions.get(subscription.name) is subscription:
                del self.subscriptions[subscription.name]

    def abandoned(self, subscription: Subscription) -> None:
        """The last consumer left: a non-durable subscription goes with it."""
        if not subscription.durable and not self.closing and not self.scope.closed:
            self.scope.spawn(f"delete {subscription.name}", self._drop_if_unused(subscription))

    async def _drop_if_unused(self, subscription: Subscription) -> None:
        async with self._changing:
            if subscription.consumers or self.subscriptions.get(subscription.name) is not (
                subscription
            ):
                return
            await subscription.close(force=False)
            await self._delete(subscription)

    # --- life -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closing:
            raise ServiceNotReady(f"Topic {self.name} is being unloaded")

    async def close(self) -> None:
        """Send every client away (they look the topic up again), persist cursors, close the ledger.

        Producers go last: what they sent before is confirmed first, so that they do not send it twice.
        """
        self.closing = True
        self._stop_listening()
        for subscription in list(self.subscriptions.values()):
            subscription.disconnect()
            subscription.stop()
        closing = self.scope.spawn("close ledger", self.ledger.close())
        await asyncio.wait([closing], timeout=CONFIRM_GRACE_S)
        for producer in list(self.producers.values()):
            producer.disconnect()
        try:
            await closing
        finally:
            await self.scope.close()

    async def terminate(self) -> Position:
        """Seal the topic: producers are disconnected and cannot come back; the last entry's position."""
        position = await self.ledger.terminate()
        for producer in list(self.producers.values()):
            producer.disconnect()
        return position

    def tick(self, elapsed_s: float) -> None:
        """Once a second: rates from counters."""
        self.published.tick(elapsed_s)
        for producer in self.producers.values():
            producer.published.tick(elapsed_s)
        for subscription in self.subscriptions.values():
            subscription.tick(elapsed_s)
