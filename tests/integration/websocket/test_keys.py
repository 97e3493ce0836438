"""A gateway with keys: it encrypts for its producers and decrypts for its consumers, as official clients do."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.net.sealing import Sealer

ANSWER_S = 30.0


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as made:
        yield made


@pytest.mark.parametrize("query", ["", "&batchingEnabled=true&compressionType=ZSTD"])
def test_gateway_and_client_decrypt_each_others_messages(
    instance: Instance, sealer: Sealer, query: str, tmp_path: Path
) -> None:
    where = f"ws://127.0.0.1:{instance.ports['HTTP']}/ws/v2"
    topic = f"persistent/public/default/keys{len(query)}"
    contents = [b"%d" % number * 100 for number in range(5)]
    reads = pulsar.CryptoKeyReader(str(sealer.public_file), str(sealer.private_file))
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        name = topic.replace("/", "://", 1)
        official = client.subscribe(name, "official", crypto_key_reader=reads)
        action = pulsar.ConsumerCryptoFailureAction.CONSUME
        blind = client.subscribe(name, "blind", crypto_failure_action=action)
        with (
            connect(f"{where}/consumer/{topic}/socket") as consumer,
            connect(f"{where}/producer/{topic}?encryptionKeys=mine{query}") as producer,
        ):
            for content in contents:
                producer.send(json.dumps({"payload": base64.b64encode(content).decode()}))
            for _ in contents:
                assert json.loads(producer.recv(ANSWER_S))["result"] == "ok"
            frames = [json.loads(consumer.recv(ANSWER_S)) for _ in contents]
            assert [base64.b64decode(frame["payload"]) for frame in frames] == contents
            assert [official.receive(30_000).data() for _ in contents] == contents
            assert contents[0] not in blind.receive(30_000).data()
            sending = client.create_producer(name, encryption_key="mine", crypto_key_reader=reads)
            sending.send(b"from the client")
            last = json.loads(consumer.recv(ANSWER_S))
            assert base64.b64decode(last["payload"]) == b"from the client"
    finally:
        client.close()


def test_a_handshake_with_a_missing_key_is_refused(instance: Instance) -> None:
    where = f"ws://127.0.0.1:{instance.ports['HTTP']}/ws/v2/producer/persistent/public/default/x"
    with pytest.raises(InvalidStatus) as caught, connect(f"{where}?encryptionKeys=..%2Fmine"):
        pass
    assert caught.value.response.status_code == 500
    assert b"Key &#x27;../mine&#x27;" in bytes(caught.value.response.body)
