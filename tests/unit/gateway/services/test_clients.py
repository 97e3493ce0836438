"""Endpoints reach brokers at the addresses that registered brokers advertise."""

from typing import Any

import pytest

from engine.base.errors import NotReady
from engine.client.errors import NoBrokerError
from engine.metadata import paths
from engine.ownership.registration import BrokerRecord
from engine.tenancy.nodes import children
from gateway.services import clients
from gateway.services.clients import RegisteredBrokers
from gateway.services.engine_link import EngineLink

pytestmark = pytest.mark.virtual_time


async def register(engine: EngineLink, *hosts: str) -> None:
    """Make these the only registered brokers."""

    async def work(known: Any) -> None:
        for host in await children(known.store, paths.LOADBALANCE_BROKERS):
            await known.store.delete(paths.broker(host))
        for host in hosts:
            urls = (f"pulsar://{host}:6650", f"http://{host}:8081")
            record = BrokerRecord(host, *urls, 0, "", f"pulsar+ssl://{host}:6651")
            await known.store.create(paths.broker(host), record.encode(), make_parents=True)

    await engine.arun(work)


async def test_brokers_are_reached_at_their_advertised_address_and_read_again(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "KNOWN_FOR_S", 0.0)
    brokers = RegisteredBrokers(engine)
    assert await brokers() == []
    await register(engine, "one.example", "two.example")
    assert await brokers() == ["pulsar://one.example:6650", "pulsar://two.example:6650"]
    await register(engine, "three")
    assert await brokers() == ["pulsar://three:6650"]


async def test_brokers_are_reached_by_tls_where_that_is_set(engine: EngineLink) -> None:
    await register(engine, "one")
    assert await RegisteredBrokers(engine, encrypted=True)() == ["pulsar+ssl://one:6651"]


async def test_brokers_are_read_once_a_second(engine: EngineLink) -> None:
    brokers = RegisteredBrokers(engine)
    await register(engine, "one")
    first = await brokers()
    await register(engine, "two")
    assert await brokers() == first


async def test_while_the_store_is_silent_the_last_known_brokers_are_used(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(work: Any) -> Any:
        raise NotReady("the store is away")

    known, unknown = RegisteredBrokers(engine), RegisteredBrokers(engine)
    monkeypatch.setattr(clients, "KNOWN_FOR_S", 0.0)
    await register(engine, "one")
    assert await known() == ["pulsar://one:6650"]
    monkeypatch.setattr(engine, "arun", silent)
    assert await known() == ["pulsar://one:6650"]
    with pytest.raises(NoBrokerError, match="metadata store does not answer"):
        await unknown()
