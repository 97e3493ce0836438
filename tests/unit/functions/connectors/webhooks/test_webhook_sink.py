"""A message is acknowledged once its request was accepted, and repeated where that may help."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.spi import ConnectorError, LostEndError
from engine.functions.connectors.webhooks import webhook_sink
from engine.functions.connectors.webhooks.webhook_sink import SINK_SETTINGS, WebhookSink
from engine.net.http import HttpServer, Request, Response
from engine.net.network import LoopNetwork
from tests.support.functions.connector_host import FakeContext, Settlements


@asynccontextmanager
async def delivering(
    answer: Callable[[Request], int], context: FakeContext | None = None, **settings: object
) -> AsyncIterator[tuple[WebhookSink, Settlements]]:
    async def handle(request: Request) -> Response:
        return Response(answer(request), b"why")

    server = HttpServer(LoopNetwork(), handle, connections_max=100)
    port = await server.listen("127.0.0.1", 0)
    sink = WebhookSink()
    given = {"url": f"http://127.0.0.1:{port}/hook", **settings}
    try:
        await sink.open(checked(SINK_SETTINGS, given), context or FakeContext())
        yield sink, Settlements()
    finally:
        await sink.close()
        await server.close()


async def test_requests_have_the_value_the_id_and_a_signature() -> None:
    seen: list[Request] = []

    def answer(request: Request) -> int:
        seen.append(request)
        return 202

    settings = {"signingSecret": "key", "headers": {"Authorization": "Bearer x"}}
    async with delivering(answer, **settings) as (sink, settled):
        await sink.write([settled.record(1, b'{"a":1}'), settled.record(2, "text")])
    assert [request.body for request in seen] == [b'{"a":1}', b"text"]
    assert [record.sequence for record in settled.acked] == [1, 2]
    headers = seen[0].headers
    assert headers["idempotency-key"] == "7:1:0:-1"
    assert headers["authorization"] == "Bearer x"
    # printf '{"a":1}' | openssl dgst -sha256 -hmac key
    assert headers["x-magnetar-signature"] == (
        "sha256=88a67f24bbcdaed0e6c997404bb79a743baf44c6bab2f4c27328e3009d22e342"
    )


async def test_a_busy_receiver_is_asked_again_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_sink, "FIRST_PAUSE_S", 0.001)
    seen: list[bytes] = []

    def answer(request: Request) -> int:
        seen.append(request.body)
        return 200 if len(seen) % 3 == 0 else 503 if len(seen) % 3 == 1 else 429

    async with delivering(answer) as (sink, settled):
        await sink.write([settled.record(n, b"%d" % n) for n in range(2)])
    assert seen == [b"0"] * 3 + [b"1"] * 3
    assert len(settled.acked) == 2


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_refused_message_fails_alone(status: int) -> None:
    def answer(request: Request) -> int:
        return status if request.body == b"1" else 200

    async with delivering(answer, retries=0) as (sink, settled):
        await sink.write([settled.record(n, b"%d" % n) for n in range(3)])
    assert [record.sequence for record in settled.acked] == [0, 2]
    ((record, error),) = settled.failed
    assert record.sequence == 1
    assert f"/hook: {status} why" in str(error)
    assert not isinstance(error, LostEndError)


async def test_effectively_once_nothing_overtakes_a_refused_message() -> None:
    def answer(request: Request) -> int:
        return 400 if request.body == b"1" else 200

    async with delivering(answer, FakeContext(guarantee="EFFECTIVELY_ONCE")) as (sink, settled):
        with pytest.raises(ConnectorError, match="/hook: 400 why"):
            await sink.write([settled.record(n, b"%d" % n) for n in range(3)])
    assert [record.sequence for record in settled.acked] == [0]


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("status", [429, 502, 503])
async def test_a_receiver_that_is_away_fails_no_message(concurrency: int, status: int) -> None:
    settings = {"retries": 0, "concurrency": concurrency}
    async with delivering(lambda request: status, **settings) as (sink, settled):
        with pytest.raises(LostEndError, match=str(status)):
            await sink.write([settled.record(n, b"%d" % n) for n in range(3)])
    assert not settled.acked
    assert not settled.failed


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"headers": {"X-A": "a\r\nX-B: secret"}}, "configs.headers"),
        ({"headers": {"X A": "secret"}}, "configs.headers"),
        ({"contentType": "a\nb"}, "configs.contentType"),
    ],
)
async def test_headers_that_no_request_can_have_are_named(
    settings: dict[str, object], field: str
) -> None:
    with pytest.raises(ConnectorError) as caught:
        async with delivering(lambda request: 200, **settings):
            pass
    assert field in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_without_order_a_refused_message_fails_alone() -> None:

    def answer(request: Request) -> int:
        return 400 if request.body == b"1" else 200

    async with delivering(answer, concurrency=8) as (sink, settled):
        await sink.write([settled.record(n, b"%d" % n) for n in range(50)])
    assert sorted(record.sequence or 0 for record in settled.acked) == [0, *range(2, 50)]
    assert [record.sequence for record, _ in settled.failed] == [1]


async def test_a_receiver_that_is_gone_fails_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_sink, "FIRST_PAUSE_S", 0.001)
    sink, settled = WebhookSink(), Settlements()
    settings = {"url": "http://127.0.0.1:1/", "retries": 2}
    await sink.open(checked(SINK_SETTINGS, settings), FakeContext())
    with pytest.raises(Exception, match="cannot be reached"):
        await sink.write([settled.record(1, b"x")])
    await sink.close()
    assert not settled.acked


async def test_a_killed_instance_repeats_and_loses_nothing() -> None:
    received: list[str] = []
    killed = asyncio.Event()

    def answer(request: Request) -> int:
        received.append(request.headers["idempotency-key"])
        if len(received) == 3:
            killed.set()
        return 200

    async with delivering(answer) as (sink, settled):
        records = [settled.record(n, b"%d" % n) for n in range(6)]
        writing = asyncio.ensure_future(sink.write(records))
        await killed.wait()
        writing.cancel()
        await asyncio.wait([writing])
        rest = [settled.record(n, b"%d" % n) for n in range(len(settled.acked), 6)]
        await sink.write(rest)
    assert set(received) == {f"7:{n}:0:-1" for n in range(6)}
    assert len(settled.acked) == 6
