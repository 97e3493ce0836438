"""The client of operations against servers made of the shipped HTTP server, on real sockets."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.api.topics import UNLOAD
from engine.auth.internal import OTHER_TOKEN
from engine.base.errors import AlreadyExists, Failed, NotReady, Refusal
from engine.base.names import TopicName
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from engine.rpc import client as rpc_client
from engine.rpc.client import RpcClient
from engine.rpc.operation import Operation
from tests.support.waiting import until

ON_TOPIC = OnTopic(TopicName.parse("t"))


class Server:
    """A server that answers every call with ``refusal``, or without one with ``rows`` rows of 100 bytes."""

    def __init__(self) -> None:
        self.rows = 0
        self.refusal: tuple[int, dict[str, str]] | None = None
        self.http = HttpServer(LoopNetwork(), self.answer, connections_max=0)
        self.url = ""

    async def listen(self) -> str:
        self.url = f"http://127.0.0.1:{await self.http.listen('127.0.0.1', 0)}"
        return self.url

    async def answer(self, request: Request) -> Response:
        if self.refusal is not None:
            return json_response(*self.refusal)
        return json_response(200, {"result": ["x" * 100] * self.rows})


class Client(RpcClient):
    """A client of the servers in ``urls``."""

    def __init__(self) -> None:
        super().__init__(LoopNetwork(), "token", "broker", timeout_s=60.0)
        self.urls: list[str] = []
        self.listed = 0

    async def servers(self) -> list[str]:
        self.listed += 1
        return self.urls

    async def on_owner(self, operation: Operation[Any, Any]) -> Any:
        return await self.call(operation, ON_TOPIC, key="t", servers=self.servers)

    async def on_first(self, operation: Operation[Any, Any] = TOPICS) -> Any:
        return await self.call_on(self.urls[0], "b:1", operation, LoadedTopics())


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.listen()
    yield made
    await made.http.close()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    made = Client()
    made.urls = [server.url]
    yield made
    made.close()


async def test_an_answer_of_many_packets_is_read_to_its_end(server: Server, client: Client) -> None:
    server.rows = 50_000
    answer = await client.on_first()
    assert len(answer) == 50_000


async def test_an_answer_beyond_the_limit_is_an_error_of_the_call(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_client, "ANSWER_BYTES_MAX", 1000)
    server.rows = 20
    bounded = Client()
    bounded.urls = client.urls
    with pytest.raises(Refusal) as refused:
        await bounded.on_first()
    assert type(refused.value) is NotReady
    assert "answer is larger than 1000 bytes" in str(refused.value.__cause__)


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ({"code": "already_exists", "reason": "It does"}, AlreadyExists, "It does"),
        ({"code": "not_ready", "reason": "Later"}, NotReady, "Later"),
        ({"code": "of_tomorrow", "reason": "No"}, Failed, "refused as 'of_tomorrow': No"),
        ({"reason": "Internal error"}, Failed, "Internal error"),
    ],
)
async def test_a_refusal_is_raised_as_the_kind_that_the_broker_raised(
    server: Server, client: Client, answer: dict[str, str], kind: type[Refusal], reason: str
) -> None:
    server.refusal = 422, answer
    for call in (
        client.on_first(),
        client.on_owner(UNLOAD),
    ):
        with pytest.raises(Refusal) as refused:
            await call
        assert (type(refused.value), refused.value.reason) == (kind, reason)


async def test_a_token_that_the_broker_rejects_is_reported_with_the_setting_to_correct(
    server: Server, client: Client
) -> None:
    server.refusal = 401, {"reason": OTHER_TOKEN}
    with pytest.raises(NotReady, match="set MAGNETAR_INTERNAL_TOKEN of the gateway and of all"):
        await client.on_first()


async def test_a_redirect_names_the_owner_and_later_calls_go_to_it_directly(
    server: Server, client: Client
) -> None:
    owner = Server()
    server.refusal = 307, {"location": await owner.listen()}
    await client.on_owner(UNLOAD)
    server.refusal = 422, {"code": "failed", "reason": "asked in vain"}
    assert client.listed == 1
    await client.on_owner(UNLOAD)
    assert client.listed == 1
    await owner.http.close()


async def test_unreachable_brokers_are_skipped_until_none_remains(
    server: Server, client: Client
) -> None:
    other = Server()
    client.urls.insert(0, await other.listen())
    await client.on_owner(UNLOAD)
    await other.http.close()
    await until(lambda: not client._http._links)  # the client received the end of its connection
    await client.on_owner(UNLOAD)
    await server.http.close()
    await until(lambda: not client._http._links)
    with pytest.raises(NotReady, match="No broker is available"):
        await client.on_owner(UNLOAD)


async def test_after_a_lost_answer_a_read_is_repeated_and_a_change_is_not(
    client: Client,
) -> None:
    asked = 0

    class Breaking(asyncio.Protocol):
        """A server that closes a connection at its first request."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            nonlocal asked
            asked += 1
            self._transport.close()

    listener = await LoopNetwork().listen("127.0.0.1", 0, Breaking)
    client.urls.insert(0, f"http://127.0.0.1:{listener.port}")
    with pytest.raises(NotReady, match="the change may have happened"):
        await client.on_owner(UNLOAD)
    await client.on_owner(LAST_MESSAGE_ID)
    assert asked == 2
    listener.close()
    await listener.wait_closed()
    # Closed connections are removed; that of the broker that answered is kept.
    await until(lambda: len(client._http._links) == 1)
