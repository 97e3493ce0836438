"""A bundle moves to a named broker: its clients follow without a lookup, and every failure leaves it to any broker."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from engine.admin.api.arguments import OnBundle
from engine.admin.api.bundles import TAKE_BUNDLE, TRANSFER_BUNDLE, TransferBundle, Transferred
from engine.admin.client import AdminClient
from engine.base.budget import Budget
from engine.base.errors import Conflict, NotReady
from engine.base.names import BundleName, NamespaceName
from engine.broker.administration.operations import transfers
from engine.broker.control.assignment import BundleAssignment
from engine.broker.errors import ServiceNotReady
from engine.broker.service import BrokerService
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
)
from engine.client.raw_consumer import FROM_EARLIEST, SHARED
from engine.metadata.store import StoreUnavailableError
from engine.ownership.owner import OwnerRecord
from engine.tenancy.resources.isolation import IsolationPolicies
from tests.support.admin.several_brokers import TOKEN, SeveralBrokers
from tests.support.waiting import until
from tests.unit.client.test_client import client_of

pytestmark = pytest.mark.virtual_time

TOPIC = NamespaceName.parse("public/default").topic("moved")


class Clients:
    """A producer and a consumer of ``TOPIC``."""

    def __init__(self, client: PulsarClient) -> None:
        self.client = client
        self.sent = 0
        self.results: list[SendResult] = []
        self.received: list[bytes] = []
        self.producer = PartitionProducer(
            client, TOPIC.full, ProducerSettings(), Budget(1 << 30), self.results.extend
        )

    async def open(self) -> None:
        await self.producer.open()
        self.consumer = await TopicConsumer.open(
            self.client,
            [TOPIC.full],
            ConsumerSettings("s", SHARED, initial=FROM_EARLIEST),
            on_messages=self._receive,
        )
        self.consumer.allow(1 << 20)

    def _receive(self, messages: Sequence[Incoming]) -> None:
        self.received += [bytes(message.content or b"") for message in messages]
        for message in messages:
            self.consumer.acknowledge(message)

    def send(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.producer.send([OutgoingMessage(b"%d" % number, number) for number in numbers])

    async def settled(self) -> None:
        """Wait until everything sent is stored and received; both in order, without errors."""
        await until(lambda: len(self.results) == self.sent)
        assert [result.error for result in self.results] == [None] * self.sent
        await until(lambda: len(set(self.received)) == self.sent)
        order = list(dict.fromkeys(self.received))
        assert order == [b"%d" % number for number in range(self.sent)]


class Cluster(SeveralBrokers):
    """Three brokers; ``owner`` of ``TOPIC`` has clients attached."""

    clients: Clients
    first: BrokerService
    others: list[BrokerService]

    async def start(self, count: int) -> None:
        await super().start(count)
        urls = [broker.record.service_url for broker in self.brokers]
        self.clients = Clients(client_of(*urls))
        await self.clients.open()
        first = self.owner(TOPIC)
        assert first is not None
        self.first = first
        self.others = [broker for broker in self.brokers if broker is not first]
        self.admin = AdminClient(self.store, self.cluster.network, TOKEN)

    @property
    def bundle(self) -> BundleName:
        bundle = self.first.running.ownership.known_bundle(TOPIC)
        assert bundle is not None
        return bundle

    def lookups(self) -> int:
        return sum(broker.running.sessions.lookups.times.count for broker in self.brokers)

    async def transfer(self, destination: str) -> Transferred:
        args = TransferBundle(TOPIC.namespace, self.bundle.range, destination)
        return await self.admin.call(TRANSFER_BUNDLE, args)

    async def close(self) -> None:
        self.admin.close()
        await self.clients.client.close()
        await super().close()


@pytest.fixture
async def three() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.start(3)
    yield made
    await made.close()


async def test_clients_follow_a_moved_bundle_without_a_lookup(three: Cluster) -> None:
    for number in range(4):
        there = three.brokers[number % 3]
        if there is three.owner(TOPIC):
            continue
        three.clients.send(50)
        before = three.lookups()
        moving = asyncio.create_task(three.transfer(there.record.id))
        while not moving.done():
            three.clients.send(1)
            await asyncio.sleep(0.001)
        assert moving.result() == Transferred(moved=True, reason="")
        await three.clients.settled()
        assert three.owner(TOPIC) is there
        assert three.lookups() == before
    assert await three.transfer(there.record.id) == Transferred(moved=True, reason="")


async def test_a_destination_that_is_not_registered_is_refused(three: Cluster) -> None:
    with pytest.raises(Conflict, match="to inactive destination broker"):
        await three.transfer("nowhere:8081")
    assert three.owner(TOPIC) is three.first


async def test_a_destination_that_cannot_prepare_costs_a_plain_unload(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: BundleAssignment, bundle: BundleName) -> None:
        raise ServiceNotReady("not now")

    monkeypatch.setattr(BundleAssignment, "check_place", refuse)
    result = await three.transfer(three.others[0].record.id)
    assert (result["moved"], "cannot prepare: not now" in result["reason"]) == (False, True)
    monkeypatch.undo()
    three.clients.send(10)
    await three.clients.settled()


async def test_a_destination_that_does_not_acquire_leaves_the_bundle_to_any_broker(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(self: BundleAssignment, bundle: BundleName) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(BundleAssignment, "take", hang)
    there = three.others[0]
    moving = asyncio.create_task(three.transfer(there.record.id))
    await until(lambda: not three.first.running.ownership.owned())
    three.clients.send(10)
    assert three.clients.producer.connected  # it is not notified while no broker serves the topic
    result = await moving
    assert (result["moved"], "did not acquire it: no answer" in result["reason"]) == (False, True)
    await three.clients.settled()
    assert three.owner(TOPIC) is not None


async def test_only_the_named_broker_acquires_a_released_bundle(three: Cluster) -> None:
    ownership, bundle = three.first.running.ownership, three.bundle
    there, third = three.others
    await ownership.release(bundle, successor=OwnerRecord.of(there.record))
    for broker in (three.first, third):
        assert not await broker.running.ownership.acquire(bundle)
        place = await broker.running.assignment.place(TOPIC, authoritative=False)
        assert (place.owner, place.here) == (OwnerRecord.of(there.record), False)
    assert (await there.running.assignment.place(TOPIC, authoritative=False)).here
    ownership.forget_successor(bundle)  # too late: the node is the new owner's
    await asyncio.sleep(1.0)
    assert there.running.ownership.serves(TOPIC)


async def test_a_named_broker_owns_nothing_before_it_has_a_node(three: Cluster) -> None:
    ownership, bundle = three.first.running.ownership, three.bundle
    there, third = three.others
    await ownership.release(bundle, successor=OwnerRecord.of(there.record))
    assert not there.running.ownership.serves(TOPIC)
    ownership.forget_successor(bundle)
    await until(lambda: not ownership._tasks._tasks)
    assert await third.running.ownership.acquire(bundle)
    args = OnBundle(bundle.namespace, bundle.range)
    with pytest.raises((Conflict, NotReady), match="held by another broker"):
        address = next(b for b in await three.admin.brokers() if b.id == there.record.id)
        await three.admin.call_on(address, TAKE_BUNDLE, args)
    assert not there.running.ownership.serves(TOPIC)


async def test_a_successor_whose_name_may_not_be_stored_is_forgotten(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = three._stores[three.first]
    put, lost = store.put, 0

    async def lose_answer(*args: Any) -> Any:
        nonlocal lost
        lost += 1
        await put(*args)
        raise StoreUnavailableError("the answer is lost")

    monkeypatch.setattr(store, "put", lose_answer)
    with pytest.raises(NotReady):
        await three.transfer(three.others[0].record.id)
    assert lost
    monkeypatch.undo()
    three.clients.send(10)
    await three.clients.settled()


async def test_a_broker_that_stops_moves_its_bundles_and_clients_look_nothing_up(
    three: Cluster,
) -> None:
    first, third = three.first, three.others[1]
    namespace = TOPIC.namespace
    for bundle in await first.running.ownership.bundles(namespace):
        owner = await first.running.ownership.owner(bundle)
        assert owner is not None or await first.running.ownership.acquire(bundle)
    held = first.running.ownership.owned()
    before = three.lookups()
    three.clients.send(50)
    stopping = asyncio.create_task(three.stop(first))
    while not stopping.done():
        three.clients.send(1)
        await asyncio.sleep(0.001)
    await stopping
    await three.clients.settled()
    assert three.lookups() == before - first.running.sessions.lookups.times.count
    for bundle in held:
        owner = await third.running.ownership.owner(bundle)
        assert owner in [OwnerRecord.of(broker.record) for broker in three.brokers]


async def test_a_broker_that_stops_alone_unloads_its_bundles(three: Cluster) -> None:
    for broker in three.others:
        await three.stop(broker)
    three.clients.send(10)
    await three.clients.settled()
    await three.stop(three.first)
    assert three.first.running.ownership.owned() == []


async def test_a_bundle_is_passed_on_after_its_topics_are_closed(three: Cluster) -> None:
    ownership, there = three.first.running.ownership, three.others[0]

    async def unload(bundle: BundleName) -> None:
        assert not ownership.serves(TOPIC)
        assert not await there.running.ownership.acquire(bundle)

    await ownership.release(three.bundle, unload, successor=OwnerRecord.of(there.record))
    assert await there.running.ownership.acquire(three.bundle)


async def test_a_client_is_sent_nowhere_that_isolation_policies_forbid(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = three.others[0]
    monkeypatch.setattr(IsolationPolicies, "places", lambda *_: [three.first.record.id])
    with pytest.raises(Conflict, match=f"Isolation policies forbid .* on {there.record.id}"):
        await three.transfer(there.record.id)
    assert three.owner(TOPIC) is three.first


async def test_a_broker_that_stops_takes_no_bundle(three: Cluster) -> None:
    there = three.others[0]
    await there.running.operations.bundles.transfers.drain()
    result = await three.transfer(there.record.id)
    assert (result["moved"], "shutting down" in result["reason"]) == (False, True)
    three.clients.send(10)
    await three.clients.settled()


async def test_a_drain_waits_for_a_destination_that_hangs_once(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, there = three.first, three.others[0]
    asked = 0

    async def hang(self: BundleAssignment, bundle: BundleName) -> None:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    async def targets(
        self: BundleAssignment, bundles: Sequence[BundleName]
    ) -> dict[BundleName, str]:
        return dict.fromkeys(bundles, there.record.id)

    monkeypatch.setattr(BundleAssignment, "check_place", hang)
    monkeypatch.setattr(BundleAssignment, "targets", targets)
    monkeypatch.setattr(transfers, "DRAINED_AT_ONCE", 1)
    for bundle in await first.running.ownership.bundles(TOPIC.namespace):
        await first.running.ownership.acquire(bundle)
    held = first.running.ownership.owned()
    assert len(held) > 1
    await first.running.operations.bundles.transfers.drain()
    assert asked == 1
    assert len(first.running.ownership.owned()) < len(held)  # clients may have had it acquire one
    monkeypatch.undo()
    three.clients.send(10)
    await three.clients.settled()
