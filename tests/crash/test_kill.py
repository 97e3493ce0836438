"""``kill -9`` of real processes at random moments under load: what got a receipt is consumed until acknowledged.

The official client publishes and consumes while children of a real instance are killed and come back. A process kill
leaves the operating system's page cache alone; losing unsynced bytes too is the simulator's part (tests/sim).
"""

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.instance import Instance, running_instance

TOPIC = "persistent://public/default/crash"
ROUNDS = int(os.environ.get("CRASH_ROUNDS", "6"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
PAYLOAD = b"." * 200


class Load:
    """One producer, one consumer, and what both saw."""

    def __init__(self, url: str) -> None:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Fatal)
        self.client = pulsar.Client(url, operation_timeout_seconds=30, logger=quiet)
        self.consumer = self.client.subscribe(
            TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest
        )
        self.producer = self.client.create_producer(
            TOPIC, send_timeout_millis=0, max_pending_messages=500, block_if_queue_full=True
        )
        self.confirmed: list[int] = []
        self.failed: list[int] = []
        self.received: list[int] = []
        self.sent = 0
        self._stop_sending = threading.Event()
        self._stop_receiving = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._stop_sending.is_set():
            number = self.sent
            self.sent += 1
            self.producer.send_async(b"%d" % number + PAYLOAD, self._on_receipt(number))
            if number % 50 == 0:
                time.sleep(0.01)

    def _on_receipt(self, number: int) -> Any:
        def done(result: pulsar.Result, _: Any) -> None:
            (self.confirmed if result == pulsar.Result.Ok else self.failed).append(number)

        return done

    def _receive(self) -> None:
        while not self._stop_receiving.is_set():
            try:
                message = self.consumer.receive(timeout_millis=500)
            except pulsar.Timeout:
                continue
            self.received.append(int(message.data().split(b".", 1)[0]))
            self.consumer.acknowledge(message)

    def stop_sending(self) -> None:
        self._stop_sending.set()
        self._threads[0].join(30)
        self.producer.flush()

    def drain(self, timeout_s: float) -> set[int]:
        """Wait until everything confirmed was received; what is missing."""
        until = time.monotonic() + timeout_s
        while (missing := set(self.confirmed) - set(self.received)) and time.monotonic() < until:
            time.sleep(0.1)
        return missing

    def close(self) -> None:
        self._stop_sending.set()
        self._stop_receiving.set()
        for thread in self._threads:
            thread.join(30)
        self.client.close()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_instance(tmp_path_factory.mktemp("crash")) as made:
        yield made


@pytest.mark.timeout(300)
def test_confirmed_messages_survive_kills_of_every_tier(
    instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    load = Load(instance.url)
    kills = {"bookie-1": 0, "broker-1": 0, "gateway": 0, "worker": 0}
    try:
        victims = [*kills, "bookie-1", "broker-1"] * ROUNDS
        chance.shuffle(victims)
        for victim in victims[:ROUNDS]:
            time.sleep(0.3 + chance.random())
            instance.control("kill", victim)
            kills[victim] += 1
            time.sleep(0.2)
            instance.wait_running(victim)
        time.sleep(1)
        load.stop_sending()
        missing = load.drain(60)
    finally:
        load.close()
    with capsys.disabled():
        again = len(load.received) - len(set(load.received))
        print(
            f"\ncrash: kills {kills}, sent {load.sent}, confirmed {len(load.confirmed)},"
            f" received {len(set(load.received))}, redelivered {again}, lost {len(missing)}"
        )
    assert not missing
    assert not load.failed
    assert len(load.confirmed) > 500
    first_times = list(dict.fromkeys(load.received))
    assert first_times == sorted(first_times)


@pytest.mark.timeout(120)
def test_acknowledged_messages_do_not_come_back_after_a_kill(instance: Instance) -> None:
    """Acknowledgements confirmed by closing the consumer are durable: a killed broker starts behind them."""
    topic = "persistent://public/default/crash-acks"
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Fatal))
    try:
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        producer = client.create_producer(topic)
        for number in range(100):
            producer.send(b"%d" % number)
        for number in range(60):
            message = consumer.receive(5000)
            assert int(message.data()) == number
            consumer.acknowledge(message)
        consumer.close()
        time.sleep(1.5)  # lazily persisted acknowledgements are written once a second
        instance.control("kill", "broker-1")
        time.sleep(0.2)
        instance.wait_running("broker-1")
        consumer = client.subscribe(topic, "s")
        got = [int(consumer.receive(10_000).data()) for _ in range(40)]
        assert got == list(range(60, 100))
    finally:
        client.close()


@pytest.mark.timeout(120)
def test_a_second_start_on_the_same_data_serves_what_was_stored(tmp_path: Path) -> None:
    topic = "persistent://public/default/kept"
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Fatal)
    with running_instance(tmp_path / "data") as first:
        client = pulsar.Client(first.url, logger=quiet)
        client.subscribe(topic, "s").close()
        producer = client.create_producer(topic)
        for number in range(50):
            producer.send(b"%d" % number)
        client.close()
    with running_instance(tmp_path / "data") as second:
        client = pulsar.Client(second.url, logger=quiet)
        consumer = client.subscribe(topic, "s")
        assert [int(consumer.receive(5000).data()) for _ in range(50)] == list(range(50))
        client.close()
