"""Commands of transactions to brokers in memory: the coordinator's, and the ends that it sends to topics' owners."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.judge import Verdict
from engine.auth.resource_names import Resource
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.connection.transactions import TransactionCommands
from engine.broker.errors import BrokerError, InvalidTxnStatus, ServiceNotReady
from engine.broker.service import BrokerService
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.txn_id import TxnId
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.client import PulsarClient
from engine.client.raw_consumer import SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.tenancy.initialization import COORDINATORS
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame
from engine.wire.errors import RefusedError, ServerError
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.broker_bench import Client, commands_in
from tests.support.raw_client import entry_of
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/a")
AT_ONCE_OR_LATER = pytest.mark.parametrize("at_once", [True, False])
ENABLED = {"transaction_coordinator_enabled": True}


class Ended:
    """Stand-in for a topic's buffer and for a subscription's pending acknowledgements."""

    open = ()

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.ends: list[tuple[TxnId, bool, int]] = []
        self.failures = 0
        self.ended_otherwise = False
        self.refused = 0

    def end_soon(self, txn: TxnId, *, commit: bool, low_water_mark: int, outcome: Outcome) -> bool:
        if not self.at_once:
            return False
        outcome(self._end(txn, commit, low_water_mark))
        return True

    async def end(self, txn: TxnId, *, commit: bool, low_water_mark: int) -> None:
        if error := self._end(txn, commit, low_water_mark):
            raise error

    def _end(self, txn: TxnId, commit: bool, low_water_mark: int) -> BrokerError | None:
        if self.failures:
            self.failures -= 1
            return ServiceNotReady("not recovered yet")
        if self.ended_otherwise:
            self.refused += 1
            return InvalidTxnStatus("ended the other way")
        self.ends.append((txn, commit, low_water_mark))
        return None


class Bench:
    def __init__(self) -> None:
        self.instance = BrokerInstance()

    async def start(self) -> BrokerService:
        return await self.instance.broker(settings=ENABLED)

    def client(self, broker: BrokerService) -> PulsarClient:
        async def brokers() -> list[str]:
            return [broker.record.service_url]

        return PulsarClient(
            network=self.instance.cluster.network,
            clock=broker.running.context.clock,
            entropy=broker.running.context.entropy,
            brokers=brokers,
            settings=LinkSettings(request_timeout_s=60.0),
        )


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.instance.cluster.start("b0")
    yield bench
    await bench.instance.close()


async def ask(link: BrokerLink, frame: Callable[[int], bytes]) -> TxnId:
    request_id = link.new_id()
    answer = await link.request(request_id, frame(request_id))
    return TxnId(answer.txnid_most_bits, answer.txnid_least_bits)


async def coordinator_of(client: PulsarClient, number: int = 0) -> BrokerLink:
    """Connect to a coordinator as the official clients do."""
    link = await client.owner(COORDINATORS.partition_at(number).full)
    request_id = link.new_id()
    await link.request(request_id, say.connect_coordinator(number, request_id))
    return link


@AT_ONCE_OR_LATER
async def test_a_transaction_is_ended_on_its_topics_and_subscriptions(
    bench: Bench, at_once: bool
) -> None:
    broker = await bench.start()
    client = bench.client(broker)
    assert await client.partitions(COORDINATORS.full) == 1
    link = await coordinator_of(client)
    txn = await ask(link, lambda request: say.new_transaction(0, request, 20_000))
    assert txn == (0, 0)
    owner, consumer = await client.owner(TOPIC.full), link.new_id()
    request_id = owner.new_id()
    await owner.request(request_id, say.subscribe(TOPIC.full, "s", 1, consumer, request_id))
    topic = broker.running.registry.loaded(TOPIC)
    assert topic is not None
    messages, acks = Ended(at_once=at_once), Ended(at_once=at_once)
    topic.transactions = messages  # type: ignore[assignment]
    topic.subscriptions["s"].pending_acks = acks  # type: ignore[assignment]
    messages.failures = 2
    gone = "persistent://public/default/never"
    topics, subscriptions = [TOPIC.full, gone], [(TOPIC.full, "s"), (TOPIC.full, "gone")]
    await ask(link, lambda request: say.add_partitions(txn, request, topics))
    await ask(link, lambda request: say.add_subscriptions(txn, request, subscriptions))
    assert await ask(link, lambda request: say.end_transaction(txn, request, commit=True)) == txn
    assert messages.ends == acks.ends == [(txn, True, -1)]
    again = await ask(link, lambda request: say.end_transaction(txn, request, commit=True))
    assert again == txn
    assert messages.ends == [(txn, True, -1)]
    with pytest.raises(RefusedError, match="COMMITTED") as refused:
        await ask(link, lambda request: say.end_transaction(txn, request, commit=False))
    assert refused.value.code == ServerError.InvalidTxnStatus
    with pytest.raises(RefusedError) as refused:
        unknown = TxnId(0, 77)
        await ask(link, lambda request: say.end_transaction(unknown, request, commit=False))
    assert refused.value.code == ServerError.TransactionNotFound
    await client.close()


@AT_ONCE_OR_LATER
async def test_an_end_that_is_refused_for_good_is_not_repeated(
    bench: Bench, caplog: pytest.LogCaptureFixture, at_once: bool
) -> None:
    broker = await bench.start()
    client = bench.client(broker)
    link = await coordinator_of(client)
    txn = await ask(link, lambda request: say.new_transaction(0, request, 20_000))
    owner, consumer = await client.owner(TOPIC.full), link.new_id()
    request_id = owner.new_id()
    await owner.request(request_id, say.subscribe(TOPIC.full, "s", 1, consumer, request_id))
    topic = broker.running.registry.loaded(TOPIC)
    assert topic is not None
    messages, acks = Ended(at_once=at_once), Ended(at_once=at_once)
    messages.ended_otherwise = True
    topic.transactions = messages  # type: ignore[assignment]
    topic.subscriptions["s"].pending_acks = acks  # type: ignore[assignment]
    await ask(link, lambda request: say.add_partitions(txn, request, [TOPIC.full]))
    await ask(link, lambda request: say.add_subscriptions(txn, request, [(TOPIC.full, "s")]))
    assert await ask(link, lambda request: say.end_transaction(txn, request, commit=True)) == txn
    assert messages.refused == 1
    assert acks.ends == [(txn, True, -1)]
    assert f"transaction {txn} cannot be ended on {TOPIC}" in caplog.text
    await client.close()


async def test_a_coordinator_that_does_not_exist_is_not_found(bench: Bench) -> None:
    client = bench.client(await bench.start())
    link = await client.owner(TOPIC.full)
    request_id = link.new_id()
    with pytest.raises(RefusedError) as refused:
        await link.request(request_id, say.connect_coordinator(5, request_id))
    assert refused.value.code == ServerError.TransactionCoordinatorNotFound
    with pytest.raises(RefusedError) as refused:
        await ask(link, lambda request: say.new_transaction(1 << 63, request, 1000))
    assert refused.value.code == ServerError.TransactionCoordinatorNotFound
    await client.close()


async def test_a_coordinator_moves_with_its_broker_and_times_out_without_a_client(
    bench: Bench,
) -> None:
    first = await bench.start()
    client = bench.client(first)
    link = await coordinator_of(client)
    txn = await ask(link, lambda request: say.new_transaction(0, request, 30_000))
    await client.close()
    second = await bench.start()
    await bench.instance.stop(first)
    assert second.running.coordinators is not None
    coordinators = second.running.coordinators
    await until(lambda: [coordinator.id for coordinator in coordinators] == [0])
    (coordinator,) = coordinators
    assert coordinator.find(txn).timeout_ms == 30_000
    await until(lambda: coordinator.aborted == 1)
    assert coordinator.timed_out == 1


class ForSuperusers:
    """Judge that allows role ``root`` alone."""

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Verdict:
        return Verdict(identity.role == "root", "no")


async def test_another_role_cannot_use_a_transaction(bench: Bench) -> None:
    broker = await bench.start()
    running = broker.running
    coordinators = running.coordinators
    assert coordinators is not None
    await until(lambda: bool(list(coordinators)))
    txn = await (await coordinators.of(0)).begin(20_000, "app")
    context = replace(running.context, judge=ForSuperusers())

    async def ended_by(identity: Identity) -> int:
        client = Client()
        client.identity = identity
        family = TransactionCommands(client, context, running.registry, coordinators)
        body = pb.CommandEndTxn(
            request_id=1, txnid_most_bits=0, txnid_least_bits=txn.least, txn_action=pb.ABORT
        )
        answered = family.end(body)
        if answered is not None:
            assert not isinstance(answered, bytes)
            client.replies.append(await answered)
        await until(lambda: bool(client.replies))
        assert client.awaited == 0
        (answer,) = commands_in(client.replies[0])
        ended = answer.endTxnResponse
        return ended.error if ended.HasField("error") else -1

    assert await ended_by(Identity("other")) == ServerError.AuthorizationError
    assert await ended_by(Identity("proxy", "other")) == ServerError.AuthorizationError
    assert await ended_by(Identity("proxy", "app")) == -1
    assert await ended_by(Identity("root")) == -1
    assert await ended_by(Identity("other")) == ServerError.AuthorizationError


LOGS = (
    "persistent://public/default/a-s__transaction_pending_ack",
    "persistent://pulsar/system/__transaction_log_0",
    COORDINATORS.partition_at(0).full,
)


async def test_clients_cannot_use_the_logs_of_transactions_as_topics(bench: Bench) -> None:
    client = bench.client(await bench.start())
    link = await coordinator_of(client)
    for name in LOGS:
        owner, text = await client.owner(name), f"Can not create transaction system topic {name}"
        for frame in (say.subscribe, say.producer):
            arguments = (name, "s", 1) if frame is say.subscribe else (name,)
            request_id = owner.new_id()
            with pytest.raises(RefusedError, match=re.escape(text)) as refused:
                await owner.request(request_id, frame(*arguments, owner.new_id(), request_id))
            assert refused.value.code == ServerError.NotAllowedError
    # A client that names them in a transaction cannot keep that from its end.
    txn = await ask(link, lambda request: say.new_transaction(0, request, 20_000))
    await ask(link, lambda request: say.add_partitions(txn, request, LOGS))
    named = [(name, "s") for name in LOGS]
    await ask(link, lambda request: say.add_subscriptions(txn, request, named))
    assert await ask(link, lambda request: say.end_transaction(txn, request, commit=True)) == txn
    await client.close()


async def test_x11_messages_of_a_transaction_that_never_began_hold_nothing_back_for_long(
    bench: Bench,
) -> None:
    client = bench.client(await bench.start())
    link = await client.owner(TOPIC.full)
    received: list[Position] = []
    consumer = await RawConsumer.open(
        *(link, TOPIC.full, "s", SHARED),
        on_messages=lambda messages: received.extend(message.position for message in messages),
    )
    consumer.flow(10)
    producer = await RawProducer.open(link, TOPIC.full, on_receipts=lambda receipts: None)
    for sequence, txn in enumerate((TxnId(0, 9), TxnId(5, 1), None)):
        named = {} if txn is None else {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
        producer._unanswered.append(sequence)
        link.send(say.send(producer.producer_id, sequence, entry_of(b"v", **named), txn=txn))
    await asyncio.sleep(20)
    assert received == []
    await until(lambda: [position.entry_id for position in received] == [2], bound_s=120)
    await client.close()


async def test_an_end_that_does_not_state_its_action_is_refused(bench: Bench) -> None:
    client = bench.client(await bench.start())
    link = await coordinator_of(client)
    txn = await ask(link, lambda request: say.new_transaction(0, request, 20_000))
    on = {"topic": TOPIC.full, "subscription": "s"}
    fields: dict[str, dict[str, Any]] = {
        "endTxn": {},
        "endTxnOnPartition": {"topic": TOPIC.full},
        "endTxnOnSubscription": {"subscription": on},
    }
    for field, named in fields.items():

        def frame(request: int, field: str = field, named: Any = named) -> bytes:
            ids = {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
            return command_frame(field, request_id=request, **ids, **named)

        with pytest.raises(RefusedError, match="txn_action is missing") as refused:
            await ask(link, frame)
        assert refused.value.code == ServerError.MetadataError
    assert await ask(link, lambda request: say.end_transaction(txn, request, commit=False)) == txn
    await client.close()
