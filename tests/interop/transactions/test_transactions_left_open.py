"""Transactions that are disturbed between their steps, in front of Apache's Python client, on two brokers of ours.

Their topic ends, no client began them, two clients end them differently while brokers are killed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pulsar
import pytest

from engine.base.errors import MagnetarError
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from engine.wire.batches import Message, pack_entry
from engine.wire.errors import RefusedError, ServerError
from tests.support.instance import Instance, running_instance
from tests.support.transactions.transaction_client import TransactionClient, Txn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

QUIET_MS = 4_000
PATIENCE_S = 120.0
T = TypeVar("T")


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(
        tmp_path_factory.mktemp("ours"),
        brokers=2,
        MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true",
    ) as made:
        yield made


@pytest.fixture
def client(instance: Instance) -> Iterator[pulsar.Client]:
    client = pulsar.Client(instance.url)
    yield client
    client.close()


def subscribe(client: pulsar.Client, topic: str) -> pulsar.Consumer:
    return client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)


def received(consumer: pulsar.Consumer, first_ms: int = 30_000) -> list[str]:
    """Receive until nothing comes for a while; the first message may take ``first_ms``."""
    values: list[str] = []
    while True:
        try:
            message = consumer.receive(QUIET_MS if values else first_ms)
        except pulsar.Timeout:
            return values
        values.append(message.data().decode())
        consumer.acknowledge(message)


async def with_links(instance: Instance, work: Callable[[Links[BrokerLink]], Awaitable[T]]) -> T:
    links = Links(LoopNetwork(), LinkSettings("left-open", request_timeout_s=30.0), BrokerLink)
    try:
        return await work(links)
    finally:
        links.abort()


async def send(
    links: Links[BrokerLink], instance: Instance, topic: str, sent: dict[str, Txn | None]
) -> None:
    """Publish values, each in a transaction or in none; return once they are stored."""
    producer = await RawProducer.open(
        await links.owner(topic, instance.url), topic, on_receipts=lambda receipts: None
    )
    for sequence, (value, txn) in enumerate(sent.items()):
        extra = {} if txn is None else {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}
        message = Message(value.encode(), sequence_id=sequence)
        entry = pack_entry([message], producer_name="raw", publish_ms=1, extra=extra)
        producer._unanswered.append(sequence)
        producer.link.send(say.send(producer.producer_id, sequence, entry, txn=txn))
    await producer.drained()
    await producer.close()


def test_a_transaction_of_a_terminated_topic_is_committed(
    instance: Instance, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/left-terminated"
    consumer = subscribe(client, topic)

    async def work(links: Links[BrokerLink]) -> None:
        coordinator = await TransactionClient.open(links, instance.url)
        kept, dropped = await coordinator.begin(60_000), await coordinator.begin(60_000)
        for txn in (kept, dropped):
            await coordinator.add_partitions(txn, [topic])
        await send(links, instance, topic, {"kept": kept, "dropped": dropped, "plain": None})
        status, answer = await asyncio.to_thread(
            instance.rest, "POST", "/admin/v2/persistent/public/default/left-terminated/terminate"
        )
        assert status == 200, answer
        await asyncio.gather(
            coordinator.end(kept, commit=True), coordinator.end(dropped, commit=False)
        )

    asyncio.run(with_links(instance, work))
    assert received(consumer) == ["kept", "plain"]
    stats = instance.rest("GET", "/admin/v2/persistent/public/default/left-terminated/stats")[1]
    assert stats["ongoingTxnCount"] == 0
    assert stats["subscriptions"]["s"]["msgBacklog"] == 0


def test_messages_of_a_transaction_that_never_began_are_dropped(
    instance: Instance, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/left-unknown"
    consumer = subscribe(client, topic)

    async def work(links: Links[BrokerLink]) -> None:
        sent: dict[str, Txn | None] = {"a": (0, 1 << 40), "b": (9, 0), "plain": None}
        await send(links, instance, topic, sent)

    asyncio.run(with_links(instance, work))
    assert received(consumer, first_ms=int(PATIENCE_S * 1000)) == ["plain"]


def test_the_python_client_cannot_take_a_log_of_transactions(client: pulsar.Client) -> None:
    for name in (
        "persistent://public/default/t-s__transaction_pending_ack",
        "persistent://pulsar/system/__transaction_log_0",
    ):
        with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
            client.subscribe(name, "s")
        with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
            client.create_producer(name)


def test_two_clients_end_transactions_differently_while_brokers_are_killed(
    instance: Instance, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/left-contested"
    consumer = subscribe(client, topic)

    async def ended(url: str, txn: Txn, *, commit: bool) -> bool:
        """End a transaction, as often as it takes; return whether it ended so."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                links = Links(
                    LoopNetwork(), LinkSettings("rival", request_timeout_s=10.0), BrokerLink
                )
                try:
                    coordinator = await TransactionClient.open(links, url)
                    await coordinator.end(txn, commit=commit)
                    return True
                except RefusedError as error:
                    if error.code == ServerError.InvalidTxnStatus:
                        return False
                except (MagnetarError, OSError):
                    pass
                finally:
                    links.abort()
                await asyncio.sleep(0.2)

    async def work(links: Links[BrokerLink]) -> list[str]:
        coordinator = await TransactionClient.open(links, instance.url)
        txns = {f"v{i}": await coordinator.begin(240_000) for i in range(24)}
        for txn in txns.values():
            await coordinator.add_partitions(txn, [topic])
        await send(links, instance, topic, dict(txns))

        async def contest(i: int, txn: Txn) -> bool:
            await asyncio.sleep(0.15 * i)
            answers = await asyncio.gather(
                ended(instance.url, txn, commit=i % 2 == 0),
                ended(instance.url, txn, commit=i % 2 == 1),
            )
            assert sorted(answers) == [False, True], txn
            return answers[i % 2]

        contests = asyncio.gather(*(contest(i, txn) for i, txn in enumerate(txns.values())))
        for broker in ("broker-1", "broker-2", "broker-1"):
            await asyncio.sleep(1)
            await asyncio.to_thread(instance.kill, broker)
            await asyncio.to_thread(instance.wait_running, broker)
        committed = await contests
        return [value for value, commits in zip(txns, committed, strict=True) if commits]

    committed = asyncio.run(with_links(instance, work))
    assert 0 < len(committed) < 24
    assert sorted(set(received(consumer))) == sorted(committed)
