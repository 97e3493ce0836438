"""Checks of the addresses that brokers advertise: a connection to each, at most once in a while for all who ask."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.admin.client import BrokerAddress
from engine.net.listener_urls import ListenerUrls
from engine.net.network import LoopNetwork
from gateway.services import addresses
from gateway.services.addresses import AddressChecks, Advertised
from gateway.services.engine_link import CALL_TIMEOUT_S, Engine
from tests.support.ports import free_ports


class Calls:
    """An engine with registered brokers; ``count`` is the number of times that they were read."""

    def __init__(self, *brokers: BrokerAddress) -> None:
        self.listed = list(brokers)
        self.count = 0
        self.engine = cast(Engine, SimpleNamespace(admin=self))

    async def brokers(self) -> list[BrokerAddress]:
        self.count += 1
        return self.listed


async def test_each_address_of_each_listener_is_checked() -> None:
    network = LoopNetwork()
    server = await network.listen("127.0.0.1", 0, asyncio.Protocol)
    there, gone = f"pulsar://127.0.0.1:{server.port}", f"pulsar+ssl://127.0.0.1:{free_ports(1)[0]}"
    calls = Calls(
        BrokerAddress("a", "", there),
        BrokerAddress(
            "b", "", there, 0, gone, (("in", ListenerUrls(there)), ("out", ListenerUrls("", gone)))
        ),
    )
    assert await AddressChecks().advertised(calls.engine) == [
        Advertised("a", "", there, ""),
        Advertised("b", "in", there, ""),
        Advertised("b", "out", gone, "Connection refused"),
    ]
    server.close()
    await server.wait_closed()


@pytest.mark.virtual_time
async def test_an_address_that_does_not_answer_and_one_that_is_none_are_named() -> None:
    class Silent:
        async def connect(self, *_: object) -> object:
            return await asyncio.Event().wait()

    calls = Calls(BrokerAddress("a", "", "pulsar://h:1"), BrokerAddress("b", "", "nonsense"))
    rows = await AddressChecks(cast(Any, Silent())).advertised(calls.engine)
    assert [row.problem for row in rows] == [
        "no answer within 2 s",
        "'nonsense' is not a URL such as pulsar://host:6650 or pulsar+ssl://host:6651",
    ]


async def test_all_who_ask_within_ten_seconds_share_one_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(addresses.time, "monotonic", lambda: now[0])
    calls, checks = Calls(), AddressChecks()
    await asyncio.gather(*(checks.advertised(calls.engine) for _ in range(5)))
    assert calls.count == 1
    now[0] += addresses.FRESH_S
    await checks.advertised(calls.engine)
    assert calls.count == 2


@pytest.mark.virtual_time
async def test_many_addresses_that_do_not_answer_hold_no_caller_for_long() -> None:
    class Silent:
        async def connect(self, *_: object) -> object:
            return await asyncio.Event().wait()

    calls = Calls(*(BrokerAddress(f"b{n}", "", f"pulsar://h:{n + 1}") for n in range(1_000)))
    async with asyncio.timeout(CALL_TIMEOUT_S):
        rows = await AddressChecks(cast(Any, Silent())).advertised(calls.engine)
    assert len(rows) == 1_000
    assert {row.problem for row in rows} == {"no answer within 2 s", addresses.NOT_CHECKED}
