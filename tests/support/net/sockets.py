"""Pulsar's WebSocket endpoints of an instance as its clients use them: sockets, frames, refusals."""

import base64
import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.support.instance import Instance


def opened(instance: Instance, path: str, **options: Any) -> ClientConnection:
    made: ClientConnection = connect(
        f"ws://127.0.0.1:{instance.ports['HTTP']}/ws/v2/{path}", **options
    )
    return made


def refused(instance: Instance, path: str, **options: Any) -> tuple[int, str]:
    """HTTP status and page of a handshake that must fail."""
    with pytest.raises(InvalidStatus) as caught, opened(instance, path, **options):
        pass
    return caught.value.response.status_code, bytes(caught.value.response.body).decode()


def asked(socket: ClientConnection, frame: Any) -> dict[str, Any]:
    """Send a frame, a text as it is and anything else as JSON; return the answer."""
    socket.send(frame if isinstance(frame, str) else json.dumps(frame))
    return received(socket)


def received(socket: ClientConnection) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(socket.recv(10))
    return answer


def silent(socket: ClientConnection, seconds: float = 0.4) -> bool:
    """Return whether nothing arrives for ``seconds``: the wait is the check."""
    try:
        socket.recv(seconds)
    except TimeoutError:
        return True
    return False


def closing(socket: ClientConnection) -> tuple[int, str]:
    """Wait until the server closes; return code and reason. Frames before the close are skipped."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            socket.recv(10)
    assert caught.value.rcvd is not None, "no close frame"
    return caught.value.rcvd.code, caught.value.rcvd.reason


def closing_code(socket: ClientConnection) -> int:
    """Wait until the server ends the connection; return the code, 1006 without a close frame."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            socket.recv(10)
    return 1006 if caught.value.rcvd is None else caught.value.rcvd.code


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def published(instance: Instance, topic: str, *contents: bytes) -> list[str]:
    """Publish contents through a socket; return their message ids."""
    with opened(instance, f"producer/{topic}") as producer:
        answers = [asked(producer, {"payload": encoded(content)}) for content in contents]
    assert [answer["result"] for answer in answers] == ["ok"] * len(contents)
    return [answer["messageId"] for answer in answers]


def payloads(socket: ClientConnection, count: int) -> list[bytes]:
    return [base64.b64decode(received(socket)["payload"]) for _ in range(count)]


def stats(instance: Instance, topic: str) -> dict[str, Any]:
    status, body = instance.rest("GET", f"/admin/v2/{topic}/stats")
    assert status == 200, body
    figures: dict[str, Any] = body
    return figures
