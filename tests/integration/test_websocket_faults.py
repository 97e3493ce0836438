"""WebSocket producers of a real instance while what stands behind the gateway dies."""

import base64
import json
import os
import signal
import urllib.request
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect

from tests.support.instance import Instance, running_instance

COUNT = 600
JSON = {"Content-Type": "application/json"}
ANSWER_S = 60.0


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("websocket-faults")) as made:
        # Without a subscription a ledger that is full or failed is deleted.
        body = json.dumps({"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}).encode()
        path = "/admin/v2/namespaces/public/default/retention"
        request = urllib.request.Request(made.http + path, body, JSON, method="POST")
        with urllib.request.urlopen(request, timeout=30):
            pass
        yield made


def message(number: int) -> str:
    payload = base64.b64encode(b"%d" % number).decode()
    return json.dumps({"payload": payload, "context": str(number), "key": f"k{number % 5}"})


@pytest.mark.parametrize("victim", ["broker-1", "bookie-1"])
def test_a_socket_survives_and_every_message_is_answered_and_stored(
    instance: Instance, victim: str
) -> None:
    where = f"ws://127.0.0.1:{instance.ports['HTTP']}/ws/v2"
    topic = f"persistent/public/default/survives-{victim}"
    with connect(f"{where}/producer/{topic}?producerName=p&sendTimeoutMillis=0") as producer:
        for number in range(COUNT):
            producer.send(message(number))
            if number == COUNT // 3:
                os.kill(instance.child(victim)["pid"], signal.SIGKILL)
        answers = [json.loads(producer.recv(ANSWER_S)) for _ in range(COUNT)]
    assert [one["context"] for one in answers] == [str(number) for number in range(COUNT)]
    assert {one["result"] for one in answers} == {"ok"}
    seen: dict[int, None] = {}
    with connect(f"{where}/reader/{topic}?messageId=earliest") as reader:
        while len(seen) < COUNT:
            frame = json.loads(reader.recv(ANSWER_S))
            seen[int(base64.b64decode(frame["payload"]))] = None
            reader.send(json.dumps({"messageId": frame["messageId"]}))
    assert list(seen) == list(range(COUNT)), "out of order"
