"""The private HTTP port: token, routes, refusals; over real sockets of the loop, with requests written as bytes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import JsonObject, OnTopic
from engine.admin.api.messages import PEEK, Peek
from engine.admin.api.topics import UNLOAD
from engine.auth.internal import OTHER_TOKEN
from engine.auth.judge import AllowAll
from engine.base.errors import MagnetarError, NotFound, PreconditionFailed, Refusal
from engine.base.names import TopicName
from engine.metadata.store import StoreUnavailableError
from engine.net.http import HttpServer
from engine.net.network import LoopNetwork
from engine.rpc.operation import bind, encode_call, to_json
from engine.rpc.server import MovedError, RpcPages

TOKEN = "a-token-of-some-length"
TOPIC = "persistent://t/n/x"


class Missing(MagnetarError):
    """An error of the server's own, which its table answers with NotFound."""


def refusal_of(error: MagnetarError) -> Refusal | None:
    return NotFound(str(error)) if isinstance(error, Missing) else None


RAISES: dict[str, Exception] = {
    "moved": MovedError("http://127.0.0.1:9", "https://127.0.0.1:8"),
    "refused": PreconditionFailed("Topic has 5 connected producers/consumers"),
    "missing": Missing("Namespace not found"),
    "unexpected": MagnetarError("secret detail"),
    "store": StoreUnavailableError("no answer"),
    "bug": RuntimeError("secret detail"),
}


async def unload(args: OnTopic) -> None:
    """Raise the error that the topic's name selects."""
    error = RAISES.get(args.topic.local)
    if error is not None:
        raise error


async def peek(args: Peek) -> JsonObject:
    return to_json(args)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    handlers = dict([bind(UNLOAD, unload), bind(PEEK, peek)])

    async def metrics() -> AsyncIterator[bytes]:
        yield b"pulsar_x 1\n"

    pages = RpcPages(
        handlers, TOKEN, AllowAll(), refusal_of=refusal_of, ready=lambda: True, metrics=metrics
    )
    server = HttpServer(LoopNetwork(), pages, connections_max=2)
    yield await server.listen("127.0.0.1", 0)
    await server.close()


async def talk(port: int, *requests: bytes) -> list[tuple[int, bytes]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for request in requests:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "transfer-encoding: chunked" in head:
            body = b""
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            body = await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        answers.append((int(head.split(" ")[1]), body))
    writer.close()
    await writer.wait_closed()
    return answers


def post(path: str, body: bytes = b"", token: str | None = TOKEN, method: str = "POST") -> bytes:
    header = f"X-Magnetar-Token: {token}\r\n" if token is not None else ""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\n{header}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


async def call(port: int, operation: str, args: Any, **kwargs: Any) -> tuple[int, Any]:
    [(status, body)] = await talk(
        port, post(f"/rpc/{operation}", json.dumps({"arguments": args}).encode(), **kwargs)
    )
    return status, json.loads(body)


async def test_an_operation_answers_with_its_result(port: int) -> None:
    args = {"topic": TOPIC, "subscription": "s", "nth": 3}
    assert await call(port, "peek", args) == (200, {"result": args})
    assert await call(port, "unload", {"topic": TOPIC}) == (200, {"result": None})


@pytest.mark.parametrize(
    ("principal", "logged"),
    [("alice", "by='alice'"), ("", "by=''"), ("a\nINFO forged", r"by='a\nINFO forged'")],
)
async def test_a_change_is_logged_with_its_principal(
    port: int, principal: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    body = encode_call(OnTopic(TopicName.parse(TOPIC)), principal)
    assert (await talk(port, post("/rpc/unload", body)))[0][0] == 200
    assert f"unload {logged}" in caplog.text


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x"])
async def test_a_bad_token_is_401_for_every_operation(port: int, token: str | None) -> None:
    for operation in ("peek", "no_such"):
        status, answer = await call(port, operation, {}, token=token)
        assert (status, answer) == (401, {"reason": OTHER_TOKEN})


async def test_unknown_operations_pages_and_methods_are_refused(port: int) -> None:
    assert (await call(port, "no_such", {}))[0] == 404
    assert (await call(port, "__init__", {}))[0] == 404
    assert (await call(port, "peek", {}, method="GET"))[0] == 405
    answers = await talk(port, post("/nothing"), post("/metrics"), post("/ready"))
    assert [status for status, _ in answers] == [404, 405, 405]


async def test_bad_arguments_are_refused_and_name_the_field(port: int) -> None:
    refusal = {"code": "invalid_request", "reason": "subscription: missing"}
    assert await call(port, "peek", {"topic": TOPIC}) == (422, refusal)
    [(status, body)] = await talk(port, post("/rpc/peek", b"{bad"))
    assert (status, json.loads(body)) == (400, {"reason": "not a call in JSON"})


@pytest.mark.parametrize(
    ("local", "status", "answer"),
    [
        (
            "moved",
            307,
            {"location": "http://127.0.0.1:9", "locationTls": "https://127.0.0.1:8"},
        ),
        (
            "refused",
            422,
            {"code": "precondition_failed", "reason": "Topic has 5 connected producers/consumers"},
        ),
        ("missing", 422, {"code": "not_found", "reason": "Namespace not found"}),
        ("unexpected", 500, {"reason": "Internal error, see the server's log"}),
        (
            "store",
            422,
            {"code": "not_ready", "reason": "The metadata store does not answer: no answer"},
        ),
        ("bug", 500, {"reason": "Internal error, see the server's log"}),
    ],
)
async def test_refusals_have_their_kind_and_bugs_reveal_nothing(
    port: int, local: str, status: int, answer: dict[str, str]
) -> None:
    assert await call(port, "unload", {"topic": f"persistent://t/n/{local}"}) == (status, answer)


async def test_metrics_and_readiness_need_no_token(port: int) -> None:
    get = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
    answers = await talk(port, get % b"/metrics", get % b"/metrics/", get % b"/ready?x=1")
    assert answers == [(200, b"pulsar_x 1\n"), (200, b"pulsar_x 1\n"), (200, b"ok\n")]
