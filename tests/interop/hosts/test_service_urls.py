"""The official client with service URLs of several hosts, some of which do not answer."""

from collections.abc import Iterator

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.ports import free_ports


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as made:
        yield made


@pytest.mark.parametrize("dead_first", [True, False])
@pytest.mark.parametrize("scheme", ["http", "pulsar"])
def test_one_available_host_is_enough(instance: Instance, scheme: str, dead_first: bool) -> None:
    url = instance.http if scheme == "http" else instance.url
    alive, dead = url.partition("://")[2], f"127.0.0.1:{free_ports(1)[0]}"
    hosts = [dead, alive] if dead_first else [alive, dead]
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    topic = f"persistent://public/default/hosts-{scheme}-{dead_first}"
    for _ in range(3):  # the client begins with any of them
        client = pulsar.Client(f"{scheme}://{','.join(hosts)}", logger=quiet)
        try:
            consumer = client.subscribe(topic, "s")
            producer = client.create_producer(topic)
            producer.send(b"found")
            message = consumer.receive(30_000)
            assert message.data() == b"found"
            consumer.acknowledge(message)
            assert client.get_topic_partitions(topic) == [topic]
        finally:
            client.close()
