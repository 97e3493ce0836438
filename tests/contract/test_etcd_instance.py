"""Broker and bookie processes with their metadata on etcd: they serve, start again, take over, and survive a member."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from tests.crash.kit.processes import BookieProcess, BrokerProcess
from tests.support.stores.etcd_process import EtcdCluster, running_etcd

TOPIC = "persistent://public/default/on-etcd"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def etcd_members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with running_etcd(tmp_path_factory.mktemp("members"), 3) as cluster:
        yield cluster


@pytest.fixture
def processes(
    etcd_members: EtcdCluster, tmp_path: Path
) -> Iterator[tuple[BookieProcess, list[BrokerProcess]]]:
    """A bookie and two brokers below a chroot of their own."""
    metadata = f"{etcd_members.url}/{tmp_path.name}"
    bookie = BookieProcess("bookie-1", tmp_path, metadata)
    quorums = {
        f"managed_ledger_default_{name}": "1"
        for name in ("ensemble_size", "write_quorum", "ack_quorum")
    }
    brokers = [BrokerProcess(f"broker-{n}", tmp_path, metadata, **quorums) for n in range(2)]
    try:
        bookie.start()
        bookie.wait_ready()
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_ready()
        yield bookie, brokers
    finally:
        for process in (*brokers, bookie):
            process.end()


def until_done(work: Callable[[], None]) -> None:
    """Repeat until it succeeds, as an application does while a topic moves."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return work()
        except pulsar.PulsarException:
            if time.monotonic() > end:
                raise


def test_messages_survive_restarts_a_killed_broker_and_a_lost_member(
    processes: tuple[BookieProcess, list[BrokerProcess]], etcd_members: EtcdCluster
) -> None:
    bookie, brokers = processes
    url = "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)
    client = pulsar.Client(
        url, operation_timeout_seconds=20, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    sent: list[bytes] = []

    def send(count: int) -> None:
        def once() -> None:
            producer = client.create_producer(TOPIC)
            while len(sent) < target:
                data = b"%d" % len(sent)
                producer.send(data)
                sent.append(data)
            producer.close()

        target = len(sent) + count
        until_done(once)

    try:
        client.subscribe(TOPIC, "keeps-the-messages").close()
        send(10)
        for broker in brokers:  # each in turn, so that one of them is the owner
            broker.end()
            send(10)
            broker.start()
            broker.wait_ready()
        etcd_members.members[0].stop()
        bookie.end()
        bookie.start()
        bookie.wait_ready()
        send(10)
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        received: list[bytes] = []
        while len(dict.fromkeys(received)) < len(sent):
            received.append(reader.read_next(int(DEADLINE_S * 1000)).data())
        assert list(dict.fromkeys(received)) == sent
    finally:
        client.close()
