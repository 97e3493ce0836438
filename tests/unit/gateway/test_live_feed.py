"""The live feed: bodies as the GETs, pushed on change; wrong commands affect no other subscription."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from admin_ui import live
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import EngineLink
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair

CLUSTER = {"cluster": "standalone"}


class Feed:
    """A client of the feed that speaks JSON."""

    def __init__(self, socket: SocketPair) -> None:
        self.socket = socket

    async def say(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    async def say_text(self, text: str) -> None:
        self.socket.send(text)

    async def next_message(self) -> dict[str, Any]:
        """Return the next message that is not a beat."""
        while True:
            message: dict[str, Any] = json.loads(await self.socket.receive())
            if message.get("op") != "beat":
                return message

    async def beat(self) -> dict[str, Any]:
        """Return the next beat."""
        while True:
            message: dict[str, Any] = json.loads(await self.socket.receive())
            if message.get("op") == "beat":
                return message


@pytest.fixture
async def feed(gateway: Gateway) -> AsyncIterator[Feed]:
    made = Feed(await SocketPair(gateway.application, "/api/v1/live").opened())
    yield made
    await made.socket.hang_up()


async def test_a_subscription_receives_its_body_at_once(feed: Feed) -> None:
    await feed.say(
        op="subscribe", id="a", channel="topics", params={**CLUSTER, "limit": 5, "sort": "name"}
    )
    message = await feed.next_message()
    assert (message["id"], message["channel"]) == ("a", "topics")
    assert message["data"]["rows"] == []
    assert message["data"]["limit"] == 5
    assert message["at"] == message["data"]["at"]


async def test_a_change_is_pushed_and_silence_is_not(feed: Feed, engine: EngineLink) -> None:
    from engine.base.names import TopicName
    from engine.tenancy import topics as metadata

    await feed.say(op="subscribe", id="a", channel="topics", params=CLUSTER)
    assert (await feed.next_message())["data"]["total"] == 0
    name = TopicName.parse("persistent://public/default/new")
    await engine.arun(lambda it: metadata.create_partitioned(it.store, name, 2))
    # Rounds without news happen in between and must not be sent.
    assert (await feed.next_message())["data"]["total"] == 1


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("{bad", "message"),
        ("[]", "message"),
        ('{"op": "dance"}', "op"),
        ('{"op": "subscribe", "id": "a", "channel": "moon"}', "channel"),
        ('{"op": "subscribe", "channel": "overview"}', "id"),
        ('{"op": "subscribe", "id": "a", "channel": "topics", "params": [1]}', "params"),
        ('{"op": "subscribe", "id": "a", "channel": "run", "params": {"id": "../x"}}', "params"),
        (
            '{"op": "subscribe", "id": "a", "channel": "run", "params": {"id": "x", "q": 1}}',
            "params",
        ),
        ('{"op": "subscribe", "id": "a", "channel": "overview"}', "params"),
    ],
)
async def test_a_wrong_command_is_answered_and_the_socket_lives_on(
    feed: Feed, message: str, field: str
) -> None:
    await feed.say_text(message)
    assert (await feed.next_message())["error"]["field"] == field
    await feed.say(op="ping")
    assert await feed.next_message() == {"op": "pong"}


async def test_a_wrong_parameter_is_reported_once_under_its_id(feed: Feed) -> None:
    await feed.say(op="subscribe", id="a", channel="topics", params={**CLUSTER, "sort": "nonsense"})
    message = await feed.next_message()
    assert message["id"] == "a"
    assert message["error"]["reason"].startswith("sort")
    await feed.say(op="ping")
    assert await feed.next_message() == {"op": "pong"}


async def test_a_cluster_that_is_not_served_is_refused_by_name(feed: Feed) -> None:
    await feed.say(op="subscribe", id="a", channel="overview", params={"cluster": "moon"})
    reason = "This gateway serves the cluster standalone, not moon"
    assert await feed.next_message() == {"id": "a", "error": {"reason": reason}}


async def test_the_instances_state_is_sent_repeatedly_without_a_request(feed: Feed) -> None:
    async with asyncio.timeout(30):
        first = await feed.beat()
        assert first.keys() == {"op", "now", "at", "late_ms", "current", "hops"}
        later = first
        while later["now"] < first["now"] + 1 or "store" in [hop["hop"] for hop in later["hops"]]:
            later = await feed.beat()
    assert later["at"] is None, "no broker has reported: nothing is live"


async def test_a_beat_is_made_once_for_all_sockets(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    news: list[None] = []
    under_way: list[bool] = []

    async def make(cluster: Cluster, waiting: bool) -> dict[str, Any]:
        under_way.append(waiting)
        try:
            while waiting and not news:  # on the link's loop, which is another
                await asyncio.sleep(0.01)
        finally:
            under_way.remove(waiting)
        if waiting:
            news.pop()
        made.append(waiting)
        return {"op": "beat", "number": len(made)}

    monkeypatch.setattr(live, "BEATS", [make])
    feeds = [Feed(await SocketPair(gateway.application, "/api/v1/live").opened()) for _ in range(3)]
    async with asyncio.timeout(30):
        assert [(await feed.beat())["number"] for feed in feeds] == [1, 2, 3], "each at once"
        for number in (4, 5):
            news.append(None)
            assert [(await feed.beat())["number"] for feed in feeds] == [number] * 3
    for feed in feeds:
        await feed.socket.hang_up()
    async with asyncio.timeout(30):
        while under_way:
            await asyncio.sleep(0.01)
    assert made == [False] * 3 + [True] * 2, "without a socket no beat is made"


async def test_a_socket_that_reads_nothing_blocks_no_other_and_is_closed(
    gateway: Gateway, feed: Feed
) -> None:
    slow = Feed(await SocketPair(gateway.application, "/api/v1/live").opened())
    slow.socket.reads = False
    slow.socket.transport.set_write_buffer_limits(1000, 500)
    while not slow.socket.connection.closed:
        await slow.say(op="ping")
        await asyncio.sleep(0)
    await feed.say(op="subscribe", id="a", channel="topics", params=CLUSTER)
    assert (await feed.next_message())["data"]["total"] == 0
    slow.socket.transport.drain()
    assert slow.socket.closed()[0] == live.CLOSE_SLOW
    await slow.socket.hang_up()


async def test_subscriptions_per_socket_are_bounded(feed: Feed) -> None:
    for number in range(live.SUBSCRIPTIONS_MAX):
        await feed.say(op="subscribe", id=str(number), channel="overview", params=CLUSTER)
    await feed.say(op="subscribe", id="one too many", channel="overview", params=CLUSTER)
    refused = None
    while refused is None:
        refused = (await feed.next_message()).get("error")
    assert refused["field"] == "id"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Host": "evil.example"},
    ],
)
async def test_a_foreign_page_cannot_open_the_feed(
    gateway: Gateway, headers: dict[str, str]
) -> None:
    socket = await SocketPair(gateway.application, "/api/v1/live", headers).opened()
    assert socket.response is not None
    assert socket.response.status_code == 403
    await socket.hang_up()


async def test_an_unknown_path_is_refused(gateway: Gateway) -> None:
    socket = await SocketPair(gateway.application, "/nothing/here").opened()
    assert socket.response is not None
    assert socket.response.status_code == 404
    await socket.hang_up()
