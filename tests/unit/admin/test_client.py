"""The admin client against a broker's HTTP port made of the shipped server, on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from engine.admin import client as admin_client
from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.api.topics import UNLOAD
from engine.admin.client import AdminClient
from engine.auth.internal import OTHER_TOKEN
from engine.base.errors import AlreadyExists, Failed, NotReady, Refusal
from engine.base.names import TopicName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from tests.support.waiting import until


class Broker:
    """Answers every call with ``refusal``, or else with ``rows`` rows of 100 bytes."""

    def __init__(self) -> None:
        self.rows = 0
        self.refusal: tuple[int, dict[str, str]] | None = None
        self.server = HttpServer(LoopNetwork(), self.answer, connections_max=0)

    async def answer(self, request: Request) -> Response:
        if self.refusal is not None:
            return json_response(*self.refusal)
        return json_response(200, {"result": ["x" * 100] * self.rows})


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    made = Broker()
    yield made
    await made.server.close()


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[AdminClient]:
    port = await broker.server.listen("127.0.0.1", 0)
    store = MemoryServer().session()
    await store.create("/loadbalance")
    await store.create(paths.LOADBALANCE_BROKERS)
    record = json.dumps({"adminRpcUrl": f"http://127.0.0.1:{port}"}).encode()
    await store.create(paths.broker(f"127.0.0.1:{port}"), record)
    made = AdminClient(store, LoopNetwork(), "token", timeout_s=60.0)
    yield made
    made.close()


async def test_an_answer_of_many_packets_is_read_to_its_end(
    broker: Broker, client: AdminClient
) -> None:
    broker.rows = 50_000
    [address] = await client.brokers()
    answer = await client.call_on(address, TOPICS, LoadedTopics())
    assert len(answer) == 50_000


async def test_an_answer_beyond_the_limit_is_an_error_of_the_call(
    broker: Broker, client: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_client, "ANSWER_BYTES_MAX", 1000)
    broker.rows = 20
    [address] = await client.brokers()
    bounded = AdminClient(client._store, LoopNetwork(), "token")
    with pytest.raises(Refusal) as refused:
        await bounded.call_on(address, TOPICS, LoadedTopics())
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
async def test_a_refusal_is_raised_again_as_what_the_broker_raised(
    broker: Broker, client: AdminClient, answer: dict[str, str], kind: type[Refusal], reason: str
) -> None:
    broker.refusal = 422, answer
    [address] = await client.brokers()
    for call in (
        client.call_on(address, TOPICS, LoadedTopics()),
        client.call(UNLOAD, OnTopic(TopicName.parse("t"))),
    ):
        with pytest.raises(Refusal) as refused:
            await call
        assert (type(refused.value), refused.value.reason) == (kind, reason)


async def test_a_token_that_the_broker_does_not_know_is_said_to_whoever_runs_the_instance(
    broker: Broker, client: AdminClient
) -> None:
    broker.refusal = 401, {"reason": OTHER_TOKEN}
    [address] = await client.brokers()
    with pytest.raises(NotReady, match="set MAGNETAR_INTERNAL_TOKEN of the gateway and of all"):
        await client.call_on(address, TOPICS, LoadedTopics())


async def register(store: MetadataStore, name: str, port: int) -> None:
    record = json.dumps({"adminRpcUrl": f"http://127.0.0.1:{port}"}).encode()
    await store.create(paths.broker(name), record)


async def test_the_owner_is_found_by_its_location_and_asked_at_once_from_then_on(
    broker: Broker, client: AdminClient
) -> None:
    owner = Broker()
    port = await owner.server.listen("127.0.0.1", 0)
    broker.refusal = 307, {"location": f"http://127.0.0.1:{port}"}
    args = OnTopic(TopicName.parse("t"))
    await client.call(UNLOAD, args)
    broker.refusal = 422, {"code": "failed", "reason": "asked in vain"}
    await client._store.close()  # a known owner needs no list of brokers
    await client.call(UNLOAD, args)
    await owner.server.close()


async def test_a_broker_that_is_gone_is_passed_over_until_none_is_left(
    broker: Broker, client: AdminClient
) -> None:
    other = Broker()
    await register(client._store, "0-first", await other.server.listen("127.0.0.1", 0))
    args = OnTopic(TopicName.parse("t"))
    await client.call(UNLOAD, args)
    await other.server.close()
    await until(lambda: not client._http._links)  # the end of its connection has come
    await client.call(UNLOAD, args)
    await broker.server.close()
    await until(lambda: not client._http._links)
    with pytest.raises(NotReady, match="No broker is available"):
        await client.call(UNLOAD, args)


async def test_after_a_lost_answer_a_change_is_not_asked_for_again_but_a_read_is(
    client: AdminClient,
) -> None:
    asked = 0

    class Breaking(asyncio.Protocol):
        """Ends a connection as soon as it is asked anything."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            nonlocal asked
            asked += 1
            self._transport.close()

    listener = await LoopNetwork().listen("127.0.0.1", 0, Breaking)
    await register(client._store, "0-first", listener.port)
    on_topic = OnTopic(TopicName.parse("t"))
    with pytest.raises(NotReady, match="the change may have happened"):
        await client.call(UNLOAD, on_topic)
    await client.call(LAST_MESSAGE_ID, on_topic)
    assert asked == 2
    listener.close()
    await listener.wait_closed()
    # The connections that were being ended are; that of the broker that answered is kept.
    await until(lambda: len(client._http._links) == 1)
