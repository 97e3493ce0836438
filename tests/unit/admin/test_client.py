"""The admin client against a broker's HTTP port made of the shipped server, on real sockets."""

import json
from collections.abc import AsyncIterator

import pytest

from engine.admin import api
from engine.admin import client as admin_client
from engine.admin.client import AdminClient
from engine.base.errors import AlreadyExists, Failed, NotReady, Refusal
from engine.base.names import TopicName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork


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
    made = AdminClient(store, "token", timeout_s=5.0)
    yield made
    await made.close()


async def test_an_answer_of_many_packets_is_read_to_its_end(
    broker: Broker, client: AdminClient
) -> None:
    broker.rows = 50_000
    [address] = await client.brokers()
    answer = await client.call_on(address, api.TOPICS, api.LoadedTopics())
    assert len(answer) == 50_000


async def test_an_answer_beyond_the_limit_is_an_error_of_the_call(
    broker: Broker, client: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_client, "ANSWER_BYTES_MAX", 1000)
    broker.rows = 20
    [address] = await client.brokers()
    with pytest.raises(Refusal) as refused:
        await client.call_on(address, api.TOPICS, api.LoadedTopics())
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
        client.call_on(address, api.TOPICS, api.LoadedTopics()),
        client.call(api.UNLOAD, api.OnTopic(TopicName.parse("t"))),
    ):
        with pytest.raises(Refusal) as refused:
            await call
        assert (type(refused.value), refused.value.reason) == (kind, reason)
