"""Answers of both WebSocket services to the same frames: encryption by clients, late acknowledgements, closing."""

import base64
import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pulsar
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.oracle.conftest import Side
from tests.support.net.sealing import Sealer

ANSWER_S = 30.0


def opened(side: Side, path: str) -> ClientConnection:
    return connect(f"{side.http.replace('http', 'ws')}/ws/v2/{path}", open_timeout=60)


def answer_of(socket: ClientConnection, frame: Any) -> dict[str, Any]:
    socket.send(json.dumps(frame))
    answer: dict[str, Any] = json.loads(socket.recv(ANSWER_S))
    return answer


def ended(socket: ClientConnection, frame: Any) -> int:
    """Send a frame and return the close code that follows, 1006 without a close frame."""
    socket.send(frame if isinstance(frame, str) else json.dumps(frame))
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            socket.recv(ANSWER_S)
    return 1006 if caught.value.rcvd is None else caught.value.rcvd.code


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def topic_name() -> str:
    return f"public/default/sockets-{uuid.uuid4().hex[:8]}"


def encrypting(sealer: Sealer) -> str:
    return quote(encoded(json.dumps(sealer.keys()).encode()), safe="")


def test_a_client_that_encrypts_is_understood_by_the_official_client_and_by_sockets(
    sides: tuple[Side, Side], tmp_path: Path
) -> None:
    sealer = Sealer(tmp_path)
    results = []
    for side in sides:
        topic = topic_name()
        client = pulsar.Client(side.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        reads = pulsar.CryptoKeyReader(str(sealer.public_file), str(sealer.private_file))
        official = client.subscribe(f"persistent://{topic}", "official", crypto_key_reader=reads)
        with (
            opened(side, f"consumer/persistent/{topic}/s?cryptoFailureAction=CONSUME") as consumer,
            opened(side, f"producer/persistent/{topic}?encryptionKeys={encrypting(sealer)}") as out,
        ):
            sealed, nonce = sealer.seal(b"secret")
            frame = {"payload": encoded(sealed), "encryptionParam": encoded(nonce), "key": "k"}
            assert answer_of(out, frame)["result"] == "ok"
            got = json.loads(consumer.recv(ANSWER_S))
            opened_by = official.receive(int(ANSWER_S * 1000))
        client.close()
        context = got["encryptionContext"]
        wrapped = base64.b64decode(context["keys"][sealer.name]["keyValue"])
        assert sealer.opened(base64.b64decode(got["payload"]), nonce, wrapped) == b"secret"
        assert opened_by.data() == b"secret"
        context["keys"][sealer.name].pop("keyValue")
        assert context.pop("param") == encoded(nonce)
        results.append((got["key"], context))
    theirs, ours = results
    assert ours == theirs


FRAMES: list[dict[str, Any]] = [
    {"encryptionParam": "***"},
    {"encryptionParam": ""},
    {"compressionType": "LZ4"},
    {"uncompressedMessageSize": 5},
    {"compressionType": "NONE"},
    {"compressionType": "NONE", "uncompressedMessageSize": 1},
    {"compressionType": "bogus", "uncompressedMessageSize": 1},
    {"compressionType": "", "uncompressedMessageSize": 1},
    {"compressionType": "LZ4", "uncompressedMessageSize": "x"},
    {"compressionType": "LZ4", "uncompressedMessageSize": 1 << 40},
    {"compressionType": "LZ4", "uncompressedMessageSize": 5, "eventTime": "nonsense"},
]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("more", FRAMES)
def test_frames_of_clients_that_encrypt_have_the_same_results(
    sides: tuple[Side, Side], tmp_path: Path, more: dict[str, Any], sealed: bool
) -> None:
    sealer = Sealer(tmp_path)
    results = []
    for side in sides:
        query = f"?encryptionKeys={encrypting(sealer)}" if sealed else ""
        with opened(side, f"producer/persistent/{topic_name()}{query}") as out:
            answer = answer_of(out, {"payload": "eA==", "context": "c", **more})
        results.append((answer["result"], answer.get("context"), "errorMsg" in answer))
    theirs, ours = results
    assert ours == theirs


@pytest.mark.parametrize("timeout_ms", [1000, 3000])
def test_messages_not_answered_in_time_are_redelivered(
    sides: tuple[Side, Side], timeout_ms: int
) -> None:
    results = []
    for side in sides:
        topic = topic_name()
        path = (
            f"consumer/persistent/{topic}/s?subscriptionType=Shared&ackTimeoutMillis={timeout_ms}"
        )
        with opened(side, path) as consumer, opened(side, f"producer/persistent/{topic}") as out:
            assert answer_of(out, {"payload": "eA=="})["result"] == "ok"
            results.append(
                [json.loads(consumer.recv(ANSWER_S))["redeliveryCount"] for _ in range(3)]
            )
    theirs, ours = results
    assert ours == theirs == [0, 1, 2]


@pytest.mark.parametrize(
    "frame",
    [
        {"messageId": "***"},
        {"messageId": "eHh4"},
        {},
        "null",
        "not json",
        "[]",
        {"messageId": ["eHh4"]},
        {"type": "permit"},
        {"type": "permit", "permitMessages": "x"},
        {"type": "negativeAcknowledge"},
        {"type": "negativeAcknowledge", "messageId": "***"},
    ],
)
def test_a_frame_that_cannot_be_used_ends_the_socket_with_the_same_code(
    sides: tuple[Side, Side], frame: Any
) -> None:
    results = []
    for side in sides:
        with opened(side, f"consumer/persistent/{topic_name()}/s?pullMode=true") as consumer:
            results.append(ended(consumer, frame))
    theirs, ours = results
    assert ours == theirs


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_delayed_messages_arrive_later_and_the_end_of_a_topic_is_reported(
    sides: tuple[Side, Side], domain: str
) -> None:
    results = []
    for side in sides:
        topic = topic_name()
        path = f"consumer/{domain}/{topic}/s?subscriptionType=Shared"
        with opened(side, path) as consumer, opened(side, f"producer/{domain}/{topic}") as out:
            assert answer_of(out, {"payload": encoded(b"later"), "deliverAfterMs": 2000})[
                "messageId"
            ]
            assert answer_of(out, {"payload": encoded(b"now"), "deliverAt": 5})["messageId"]
            came = []
            for _ in range(2):
                got = json.loads(consumer.recv(ANSWER_S))
                came.append(base64.b64decode(got["payload"]))
                consumer.send(json.dumps({"messageId": got["messageId"]}))
            end = answer_of(consumer, {"type": "isEndOfTopic"})
        results.append((came, end))
    theirs, ours = results
    assert ours == theirs
