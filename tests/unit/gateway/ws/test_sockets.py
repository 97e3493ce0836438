"""How the endpoints find brokers: by what those advertise that are registered now."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pulsar.asyncio
import pytest

from engine.metadata import paths
from engine.ownership.registration import BrokerRecord
from engine.tenancy.nodes import children
from gateway.services.engine_link import EngineLink
from gateway.ws import sockets


@pytest.fixture(autouse=True)
async def clients(engine: EngineLink) -> AsyncIterator[None]:
    yield
    _, made = sockets._clients.pop(asyncio.get_running_loop(), (None, None))
    if made is not None:
        made.shutdown()


async def register(engine: EngineLink, *hosts: str) -> None:
    """Exactly these are the registered brokers."""

    async def work(known: Any) -> None:
        for host in await children(known.store, paths.LOADBALANCE_BROKERS):
            await known.store.delete(paths.broker(host))
        for host in hosts:
            record = BrokerRecord(host, f"pulsar://{host}:6650", f"http://{host}:8081", 0, "")
            await known.store.create(paths.broker(host), record.encode(), make_parents=True)

    await engine.arun(work)


def url(client: pulsar.asyncio.Client) -> str:
    return str(client._client.get_service_info().service_url)


async def answers(open_peer: Any) -> list[dict[str, Any]]:
    """What a handshake is told."""
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(event: dict[str, Any]) -> None:
        said.append(event)

    await sockets.serve({}, receive, send, open_peer, open_peer)
    return said


async def test_without_a_broker_the_handshake_is_refused_and_says_why() -> None:
    start, body = await answers(sockets.client)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 503)
    assert b"<title>Error 503 No broker is registered</title>" in body["body"]


async def test_brokers_are_reached_where_they_say(engine: EngineLink) -> None:
    await register(engine, "one.example", "two.example")
    assert url(await sockets.client()) == "pulsar://one.example:6650,two.example:6650"


async def test_a_client_lives_until_all_its_brokers_are_gone(engine: EngineLink) -> None:
    await register(engine, "one", "two")
    first = await sockets.client()
    await register(engine, "two", "three")
    assert await sockets.client() is first
    await register(engine, "three")
    second = await sockets.client()
    assert url(second) == "pulsar://three:6650"
    with pytest.raises(pulsar.asyncio.PulsarException, match="AlreadyClosed"):
        await first.create_producer("t")
