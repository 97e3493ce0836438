"""``kill -9`` of real processes at random moments under load: what got a receipt is consumed until acknowledged.

The official client publishes and consumes while children of a real instance are killed and come back. A process kill
leaves the operating system's page cache alone; losing unsynced bytes too is the simulator's part (tests/sim).
"""

import os
import random
import time
from collections.abc import Iterator

import pulsar
import pytest

from tests.crash.load import Load, quiet_client
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "7"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
VICTIMS = ["bookie-1", "broker-1", "zookeeper", "bookie-1", "broker-1", "gateway", "worker"]


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as made:
        made.control("start", "worker")
        yield made


def kill(instance: Instance, name: str) -> None:
    """Kill a child. One that ended by itself a moment ago (of a lost session, say) is killed when it is back."""
    until = time.monotonic() + 60
    while True:
        try:
            instance.kill(name)
        except RuntimeError as refused:
            if "is not running" not in str(refused) or time.monotonic() > until:
                raise
            instance.wait_running(name)
        else:
            return


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_confirmed_messages_survive_kills_of_every_tier(
    instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    kills = dict.fromkeys(VICTIMS, 0)
    victims = (VICTIMS * (ROUNDS // len(VICTIMS) + 1))[:ROUNDS]
    chance.shuffle(victims)
    load = Load(instance.url, "persistent://public/default/crash")
    try:
        for victim in victims:
            time.sleep(0.3 + chance.random())  # time: the moment of the kill is drawn
            kill(instance, victim)
            kills[victim] += 1
            instance.wait_running(victim)
        load.wait_confirmed(100, 60)
        load.stop_sending()
        missing = load.drain(60)
    finally:
        load.close()
    with capsys.disabled():
        print(f"\ncrash: seed {SEED}, kills {kills}, {load.counts(missing)}")
    assert not missing
    assert not load.failed
    assert len(load.confirmed) > 500
    assert load.in_order()


def test_acknowledged_messages_do_not_come_back_after_a_kill(instance: Instance) -> None:
    """Acknowledgements confirmed by closing the consumer are durable: a killed broker starts behind them."""
    topic = "persistent://public/default/crash-acks"
    client = quiet_client(instance.url)
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
        time.sleep(1.5)  # time: lazily persisted acknowledgements are written once a second
        kill(instance, "broker-1")
        instance.wait_running("broker-1")
        consumer = client.subscribe(topic, "s")
        got = [int(consumer.receive(10_000).data()) for _ in range(40)]
        assert got == list(range(60, 100))
    finally:
        client.close()


def test_a_kill_trims_nothing_that_a_subscription_or_retention_keeps(instance: Instance) -> None:
    """Kills close the ledgers of topics, and a trim deletes those that neither keeps."""
    retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 100}
    assert instance.rest("PUT", "/admin/v2/namespaces/public/kept")[0] == 204
    path = "/admin/v2/namespaces/public/kept/retention"
    assert instance.rest("POST", path, retention)[0] == 204
    waiting, half, retained, free = topics = [
        "persistent://public/default/crash-waiting",
        "persistent://public/default/crash-half",
        "persistent://public/kept/crash-retained",
        "persistent://public/default/crash-free",
    ]
    client = quiet_client(instance.url)
    try:
        for topic in (waiting, half):
            client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest).close()
        producers = [client.create_producer(topic) for topic in topics]
        for round_ in range(4):
            for number in range(round_ * 10, round_ * 10 + 10):
                for producer in producers:
                    producer.send(b"%d" % number)
            if round_ == 1:
                consumer = client.subscribe(half, "s")
                for _ in range(15):
                    consumer.acknowledge(consumer.receive(10_000))
                consumer.close()
                time.sleep(1.5)  # time: lazily persisted acknowledgements are written once a second
            if round_ < 3:
                kill(instance, "broker-1")
                instance.wait_running("broker-1")
        for topic in topics:
            assert instance.rest("POST", f"{path_of(topic)}/trim")[0] == 200
        assert [entries_of(instance, topic) for topic in topics] == [40, 30, 40, 10]
        for topic, first in ((waiting, 0), (half, 15)):
            consumer = client.subscribe(topic, "s")
            got = [int(consumer.receive(10_000).data()) for _ in range(first, 40)]
            assert got == list(range(first, 40))
        for topic, first in ((retained, 0), (free, 30)):
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            got = [int(reader.read_next(10_000).data()) for _ in range(first, 40)]
            assert got == list(range(first, 40))
    finally:
        client.close()


def path_of(topic: str) -> str:
    """Return the topic's path in the REST interface."""
    return f"/admin/v2/{topic.replace('://', '/')}"


def entries_of(instance: Instance, topic: str) -> int:
    """Return the number of the topic's stored entries."""
    status, stats = instance.rest("GET", f"{path_of(topic)}/internalStats")
    assert status == 200
    return int(stats["numberOfEntries"])


def test_a_shadow_topic_has_each_confirmed_message_of_its_source_after_kills(
    instance: Instance,
) -> None:
    path = "/admin/v2/persistent/public/default"
    source, shadow = (f"persistent://public/default/crash-{name}" for name in ("source", "shadow"))
    assert instance.rest("PUT", f"{path}/crash-source")[0] == 204
    properties = {"PULSAR.SHADOW_SOURCE": source}
    assert instance.rest("PUT", f"{path}/crash-shadow", properties)[0] == 204
    assert instance.rest("PUT", f"{path}/crash-source/shadowTopics", [shadow])[0] == 204
    client = quiet_client(instance.url)
    earliest = pulsar.InitialPosition.Earliest
    try:
        # A kill closes ledgers, which the source deletes unless one of its own subscriptions needs them.
        client.subscribe(source, "kept", initial_position=earliest).close()
        consumer = client.subscribe(shadow, "s", initial_position=earliest)
        load = Load(instance.url, source, rate_max=500)
        try:
            for _ in range(2):
                load.wait_confirmed(200, 60)
                kill(instance, "broker-1")
                instance.wait_running("broker-1")
            load.wait_confirmed(200, 60)
            load.stop_sending()
            assert not load.drain(60)
        finally:
            load.close()
        seen: list[int] = []
        until = time.monotonic() + 60
        while missing := set(load.confirmed) - set(seen):
            assert time.monotonic() < until, f"{len(missing)} are missing, {min(missing)} first"
            try:
                message = consumer.receive(5000)
            except pulsar.Timeout:
                continue
            seen.append(int(message.data().split(b".", 1)[0]))
            consumer.acknowledge(message)
        firsts = list(dict.fromkeys(seen))
        assert firsts == sorted(firsts)
    finally:
        client.close()
