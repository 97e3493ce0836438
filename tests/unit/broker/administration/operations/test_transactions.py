"""Operations on transactions at brokers in memory: coordinators, and topics that have no transaction."""

from collections.abc import AsyncIterator

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.transactions import (
    ABORT_TRANSACTION,
    BUFFER_STATS,
    COORDINATOR_LOG_STATS,
    COORDINATOR_STATS,
    SLOW_TRANSACTIONS,
    TRANSACTION_IN_BUFFER,
    TRANSACTION_METADATA,
    BufferStats,
    LogStats,
    OnTransaction,
    SlowTransactions,
)
from engine.base.errors import NotFound, NotReady
from engine.base.names import TopicName
from engine.broker.administration.metrics_page import Levels, metrics_page
from engine.broker.service import BrokerService
from engine.client.broker_link import BrokerLink
from engine.client.raw_producer import RawProducer
from engine.tenancy.initialization import COORDINATORS
from engine.wire.client_commands import send
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.broker_bench import PATIENT
from tests.support.raw_client import entry_of
from tests.support.transactions.coordinator_steps import add_partitions, add_subscriptions
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

TOPIC = COORDINATORS.partition_at(0)
ENABLED = {"transaction_coordinator_enabled": True}


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    instance = BrokerInstance()
    await instance.cluster.start("b0")
    yield instance
    await instance.close()


async def metrics(broker: BrokerService) -> str:
    running = broker.running
    pieces = metrics_page(
        *(running.registry, running.sessions, running.identity, {}),
        *(running.authentication.outcomes, Levels(), {}),
        coordinators=running.coordinators,
    )
    return b"".join([piece async for piece in pieces]).decode()


async def test_a_coordinator_reports_its_transactions_and_its_log(instance: BrokerInstance) -> None:
    broker = await instance.broker(settings=ENABLED)
    admin, coordinators = instance.admin, broker.running.coordinators
    assert coordinators is not None
    stats = await admin.call(COORDINATOR_STATS, OnTopic(TOPIC))
    assert (stats["state"], stats["leastSigBits"], stats["lowWaterMark"]) == ("Ready", -1, -1)
    coordinator = await coordinators.of(0)
    txn = await coordinator.begin(20_000, "app")
    await add_partitions(coordinator, txn, ["persistent://public/default/a"])
    await add_subscriptions(coordinator, txn, [("persistent://public/default/b", "s")])
    metadata = await admin.call(TRANSACTION_METADATA, OnTransaction(TOPIC, 0, 0))
    assert metadata == {
        "txnId": "(0,0)",
        "status": "OPEN",
        "openTimestamp": metadata["openTimestamp"],
        "timeoutAt": 20_000,
        "producedPartitions": {"persistent://public/default/a": {}},
        "ackedPartitions": {"persistent://public/default/b": {"s": {}}},
        "owner": "app",
    }
    slow = await admin.call(SLOW_TRANSACTIONS, SlowTransactions(TOPIC, 0))
    assert slow == {"(0,0)": metadata}
    assert await admin.call(SLOW_TRANSACTIONS, SlowTransactions(TOPIC, 60_000)) == {}
    log = (await admin.call(COORDINATOR_LOG_STATS, LogStats(TOPIC, True)))["transactionLogStats"]
    assert log["managedLedgerName"] == "pulsar/system/persistent/__transaction_log_0"
    ledgers = log["managedLedgerInternalStats"]
    assert (ledgers["numberOfEntries"], ledgers["entriesAddedCounter"]) == (3, 3)
    assert list(ledgers["cursors"]) == ["transaction.subscription"]
    assert "version" in ledgers["ledgers"][0]["metadata"]
    await admin.call(ABORT_TRANSACTION, OnTransaction(TOPIC, 0, 0))
    assert coordinator.aborted == 1
    for operation in (TRANSACTION_METADATA, ABORT_TRANSACTION):
        with pytest.raises(NotFound, match=r"`\(0,5\)`not found"):
            await admin.call(operation, OnTransaction(TOPIC, 0, 5))
    with pytest.raises(NotFound, match="coordinator id : 77"):
        await admin.call(COORDINATOR_STATS, OnTopic(COORDINATORS.partition_at(77)))
    page = await metrics(broker)
    of = '{cluster="standalone",coordinator_id="0"}'
    for family, value in (("created", 1), ("aborted", 1), ("committed", 0), ("append_log", 5)):
        assert f"pulsar_txn_{family}_total{of} {value}\n" in page
    assert 'pulsar_txn_tb_client_abort_latency_count{cluster="standalone"} 2\n' in page


async def test_a_topic_reports_its_transactions_and_ends_them_for_a_coordinator(
    instance: BrokerInstance,
) -> None:
    broker = await instance.broker(settings=ENABLED)
    admin, coordinators = instance.admin, broker.running.coordinators
    assert coordinators is not None
    await admin.call(COORDINATOR_STATS, OnTopic(TOPIC))  # acquires its bundle
    coordinator, name = await coordinators.of(0), TopicName.parse("persistent://public/default/a")
    await broker.running.assignment.lookup(name, authoritative=False, listener="")
    topic = await broker.running.registry.get(name, create=True)
    stats = await admin.call(BUFFER_STATS, BufferStats(name, True, True))
    assert (stats["state"], stats["ongoingTxnSize"]) == ("NoSnapshot", 0)
    txn, lost = await coordinator.begin(20_000, ""), await coordinator.begin(20_000, "")
    host, _, port = broker.record.service_url.removeprefix("pulsar://").rpartition(":")
    link = await BrokerLink.open(instance.cluster.network, host, int(port), PATIENT)
    producer = await RawProducer.open(link, name.full)
    for sequence, named in enumerate((txn, lost)):
        await add_partitions(coordinator, named, [name.full])
        link.send(
            send(
                producer.producer_id,
                sequence,
                entry_of(b"v", txnid_most_bits=named.most, txnid_least_bits=named.least),
                txn=named,
            )
        )
    await until(lambda: topic.log.stats().entries == 2)
    stats = await admin.call(BUFFER_STATS, BufferStats(name, True, True))
    assert (stats["state"], stats["ongoingTxnSize"]) == ("Ready", 2)
    await coordinator.end(lost, commit=False)
    await coordinator.end(txn, commit=True)
    last = str(topic.log.last_confirmed)
    stats = await admin.call(BUFFER_STATS, BufferStats(name, True, True))
    assert (stats["maxReadPosition"], stats["ongoingTxnSize"]) == (last, 0)
    assert stats["totalAbortedTransactions"] == 1
    in_buffer = await admin.call(TRANSACTION_IN_BUFFER, OnTransaction(name, 0, lost.least))
    assert in_buffer == {"aborted": True}
    page = await metrics(broker)
    for family, value in (("active", 0), ("committed", 1), ("aborted", 1)):
        assert f'topic="{name.full}"}} {value}\n' in page.partition(f"pulsar_txn_tb_{family}")[2]
    link.close()


async def test_more_coordinators_are_opened_without_a_restart(instance: BrokerInstance) -> None:
    from engine.tenancy.initialization import ensure_coordinators

    broker = await instance.broker(settings=ENABLED)
    coordinators = broker.running.coordinators
    assert coordinators is not None
    await ensure_coordinators(instance.cluster.store, 3)
    await until(lambda: [of.id for of in coordinators] == [0, 1, 2])


async def test_where_transactions_are_not_enabled_the_calls_say_so(
    instance: BrokerInstance,
) -> None:
    broker = await instance.broker()
    with pytest.raises(NotReady, match="transactionCoordinatorEnabled=true"):
        await instance.admin.call(COORDINATOR_STATS, OnTopic(TOPIC))
    assert "pulsar_txn_active" not in await metrics(broker)
