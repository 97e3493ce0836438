"""WebSocket producers and consumers of a real instance while a broker or a bookie is killed."""

import base64
import json
import os
import signal
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.net.sockets import asked, encoded, opened, received, stats
from tests.support.waiting import until_blocking

COUNT = 600
ANSWER_S = 60.0


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as made:
        assert made.rest("PUT", "/admin/v2/namespaces/public/sockets")[0] == 204
        # Without a subscription or retention, a ledger that is full or failed would be deleted.
        retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
        assert (
            made.rest("POST", "/admin/v2/namespaces/public/sockets/retention", retention)[0] == 204
        )
        yield made


def message(number: int) -> str:
    payload = base64.b64encode(b"%d" % number).decode()
    return json.dumps({"payload": payload, "context": str(number), "key": f"k{number % 5}"})


@pytest.mark.parametrize("victim", ["broker-1", "bookie-1"])
def test_a_socket_survives_and_every_message_is_answered_and_stored(
    instance: Instance, victim: str
) -> None:
    where = f"ws://127.0.0.1:{instance.ports['HTTP']}/ws/v2"
    topic = f"persistent/public/sockets/survives-{victim}"
    with connect(f"{where}/producer/{topic}?producerName=p&sendTimeoutMillis=0") as producer:
        for number in range(COUNT):
            producer.send(message(number))
            if number == COUNT // 3:
                os.kill(instance.child(victim)["pid"], signal.SIGKILL)
        answers = [json.loads(producer.recv(ANSWER_S)) for _ in range(COUNT)]
    assert [answer["context"] for answer in answers] == [str(number) for number in range(COUNT)]
    assert {answer["result"] for answer in answers} == {"ok"}
    seen: dict[int, None] = {}
    with connect(f"{where}/reader/{topic}?messageId=earliest") as reader:
        while len(seen) < COUNT:
            frame = json.loads(reader.recv(ANSWER_S))
            seen[int(base64.b64decode(frame["payload"]))] = None
            reader.send(json.dumps({"messageId": frame["messageId"]}))
    assert list(seen) == list(range(COUNT)), "out of order"


def test_sockets_survive_a_killed_broker(instance: Instance) -> None:
    topic = "persistent/public/sockets/sockets-outlive"
    path = f"consumer/{topic}/s?subscriptionType=Shared"
    with opened(instance, path) as consumer, opened(instance, f"producer/{topic}") as producer:
        for number in range(20):
            assert asked(producer, {"payload": encoded(b"%d" % number)})["result"] == "ok"
        frames = [received(consumer) for _ in range(20)]
        for frame in frames[:10]:
            consumer.send(json.dumps({"messageId": frame["messageId"]}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 10)
        os.kill(instance.child("broker-1")["pid"], signal.SIGKILL)
        producer.send(json.dumps({"payload": encoded(b"after")}))
        last = json.loads(producer.recv(60))
        assert last["result"] == "ok", "it did not wait for the broker"
        left = {*(b"%d" % number for number in range(10, 20)), b"after"}
        # Acknowledged messages are delivered again if the killed broker had not stored the acknowledgement yet.
        while left:
            frame = json.loads(consumer.recv(60))
            left.discard(base64.b64decode(frame["payload"]))
            consumer.send(json.dumps({"messageId": frame["messageId"]}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 0)
    instance.wait_running("broker-1")
