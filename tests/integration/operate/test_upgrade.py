"""Data that earlier revisions wrote, used by today's programs: nothing of it is lost."""

import json
import shutil
import tarfile
from pathlib import Path

import pulsar
import pytest

from gateway.standalone.programs import ProgramMissingError, java_home, zookeeper_classpath
from tests.crash.load import quiet_client
from tests.golden.upgrade.make import HERE, SCHEMA, Reading, audit_entries, topic
from tests.support.instance import Instance, running_instance

pytestmark = pytest.mark.slow


def has_java(folder: Path) -> bool:
    """Return whether ZooKeeper's files can be read, which the takeover of an old instance needs."""
    try:
        java_home(folder / "java")
        return bool(zookeeper_classpath())
    except ProgramMissingError:
        return False
    finally:
        shutil.rmtree(folder / "java", ignore_errors=True)


def messages(client: pulsar.Client, name: str, count: int) -> list[str]:
    """Return what the subscription still has, and acknowledge it."""
    consumer = client.subscribe(topic(name), "s", consumer_type=pulsar.ConsumerType.Shared)
    received = [consumer.receive(30_000) for _ in range(count)]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(500)
    for message in received:
        consumer.acknowledge(message)
    consumer.close()
    return [message.data().decode() for message in received]


def check(instance: Instance, facts: dict[str, object]) -> None:
    """Check that everything is found which the earlier revision stored."""
    left = facts["left"]
    assert isinstance(left, dict)
    client = quiet_client(instance.url)
    try:
        for name, expected in left.items():
            still_there = messages(client, name, len(expected))
            in_order = still_there if name != "parted" else sorted(still_there)
            assert in_order == expected, name
        reader = client.create_reader(topic("holes"), pulsar.MessageId.earliest)
        every = [reader.read_next(20_000) for _ in range(20)]
        assert [message.data() for message in every] == [b"h%d" % i for i in range(20)]
        assert every[7].properties() == {"number": "7"}
        assert every[7].partition_key() == "k1"
        with_schema = client.subscribe(topic("schema"), "s", schema=SCHEMA(Reading))
        value = with_schema.receive(20_000).value()
        assert {"place": value.place, "degrees": value.degrees} == facts["schema"]
        # What is published now lies behind what was published then.
        sent = client.create_producer(topic("holes")).send(b"new")
        assert reader.read_next(20_000).message_id() == sent
    finally:
        client.close()
    policies = instance.rest("GET", "/admin/v2/namespaces/upgrade/ns/retention")[1]
    assert policies == {"retentionTimeInMinutes": 600_000, "retentionSizeInMB": 100}
    parted = instance.rest("GET", "/admin/v2/persistent/upgrade/ns/parted/partitions")[1]
    assert parted["partitions"] == 3


@pytest.mark.parametrize("name", ["embedded-metadata", "zookeeper-metadata"])
def test_data_of_an_earlier_revision_is_kept(tmp_path: Path, name: str) -> None:
    if name.startswith("zookeeper") and not has_java(tmp_path):
        pytest.skip("the takeover of ZooKeeper's files needs Java")
    data = tmp_path / "data"
    with tarfile.open(HERE / f"{name}.tar.xz") as source:
        source.extractall(data, filter="data")
    facts = json.loads((HERE / f"{name}.json").read_text())
    with running_instance(data) as instance:
        check(instance, facts)
    assert audit_entries(data) >= facts["audit_entries"]
