"""How the endpoints find brokers: by what those advertise that are registered now."""

import asyncio
from typing import Any

import pytest

from engine.base.errors import NotReady
from engine.client.errors import NoBrokerError
from engine.metadata import paths
from engine.ownership.registration import BrokerRecord
from engine.tenancy.nodes import children
from gateway.services import clients
from gateway.services.clients import RegisteredBrokers, client
from gateway.services.engine_link import EngineLink, install


async def register(engine: EngineLink, *hosts: str) -> None:
    """Exactly these are the registered brokers."""

    async def work(known: Any) -> None:
        for host in await children(known.store, paths.LOADBALANCE_BROKERS):
            await known.store.delete(paths.broker(host))
        for host in hosts:
            record = BrokerRecord(host, f"pulsar://{host}:6650", f"http://{host}:8081", 0, "")
            await known.store.create(paths.broker(host), record.encode(), make_parents=True)

    await engine.arun(work)


async def test_brokers_are_reached_where_they_say_and_asked_for_anew(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "KNOWN_FOR_S", 0.0)
    brokers = RegisteredBrokers()
    assert await brokers() == []
    await register(engine, "one.example", "two.example")
    assert await brokers() == ["pulsar://one.example:6650", "pulsar://two.example:6650"]
    await register(engine, "three")
    assert await brokers() == ["pulsar://three:6650"]


async def test_brokers_are_asked_for_once_a_second(engine: EngineLink) -> None:
    brokers = RegisteredBrokers()
    await register(engine, "one")
    first = await brokers()
    await register(engine, "two")
    assert await brokers() == first


async def test_while_the_store_is_silent_those_known_last_stand(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent() -> Any:
        raise NotReady("the store is away")

    known, unknown = RegisteredBrokers(), RegisteredBrokers()
    monkeypatch.setattr(clients, "KNOWN_FOR_S", 0.0)
    await register(engine, "one")
    assert await known() == ["pulsar://one:6650"]
    away = EngineLink(silent)
    install(away)
    try:
        assert await known() == ["pulsar://one:6650"]
        with pytest.raises(NoBrokerError, match="metadata store does not answer"):
            await unknown()
    finally:
        install(engine)
        away.close()


async def test_one_client_for_a_loop() -> None:
    first = client()
    assert client() is first
    assert asyncio.get_running_loop() in clients._clients
    await clients._clients.pop(asyncio.get_running_loop()).close()
