"""Connections are gathered from all brokers, page by page; brokers that do not answer are named."""

import asyncio
from typing import Any, cast

import pytest

from engine.admin.api.brokers import CONNECTION_COLUMNS, CONNECTIONS, ConnectionsPage
from engine.admin.client import AdminClient, BrokerAddress
from engine.base.errors import InvalidField, NotReady
from engine.metadata.memory import MemoryServer
from gateway.services.connections.connection_rows import Filter
from gateway.services.connections.gathered_connections import (
    TIMEOUT_S,
    GatheredConnections,
    parse_id,
)
from gateway.services.engine_link import Engine
from gateway.services.feeds.gathered_table import FRESH_S

pytestmark = pytest.mark.virtual_time


def cells(number: int) -> list[Any]:
    values: dict[str, Any] = dict.fromkeys(CONNECTION_COLUMNS, 0)
    texts = ("version", "proxy_version", "listener", "application", "address")
    values |= dict.fromkeys(texts, "") | {"role": None, "original_role": None, "number": number}
    return list(values.values())


class Admin:
    """Brokers with so many connections, two in a page; None: one that hangs."""

    def __init__(self, **connections: int | None) -> None:
        self.connections = connections
        self.calls = 0
        self.takes_s = 0.0

    async def brokers(self) -> list[BrokerAddress]:
        return [BrokerAddress(name, f"http://{name}", "") for name in self.connections]

    async def call_on(
        self, broker: BrokerAddress, operation: object, args: ConnectionsPage, **_: object
    ) -> Any:
        assert operation is CONNECTIONS
        self.calls += 1
        await asyncio.sleep(self.takes_s)
        count = self.connections[broker.id]
        if count is None:
            await asyncio.Event().wait()
        assert count is not None
        page = [cells(n) for n in range(args.after + 1, min(args.after + 2, count) + 1)]
        last = args.after + len(page)
        return {"at": 1, "rows": page, "next": last if last < count else None}


def asked(admin: Admin) -> Engine:
    return Engine(MemoryServer().session(), cast(AdminClient, admin))


async def test_all_pages_of_all_brokers_are_read() -> None:
    table = await GatheredConnections().table(asked(Admin(a=5, b=2, c=0)))
    names = [(row.broker, row.number) for row in table.selected(Filter(sort="broker"))]
    assert names == [("a", n) for n in range(1, 6)] + [("b", 1), ("b", 2)]
    assert (len(table), table.brokers, table.silent) == (7, 3, {})


async def test_a_broker_that_hangs_is_named_and_hides_no_other() -> None:
    table = await GatheredConnections().table(asked(Admin(a=1, b=None)))
    assert (len(table), table.brokers) == (1, 2)
    assert table.silent == {"b": "no answer within 3 s"}


async def test_a_broker_with_many_pages_is_not_taken_for_one_that_hangs() -> None:
    admin = Admin(a=20)
    admin.takes_s = TIMEOUT_S / 2
    table = await GatheredConnections().table(asked(admin))
    assert (len(table), table.silent) == (20, {})


async def test_no_answer_at_all_is_no_empty_list() -> None:
    with pytest.raises(NotReady, match="No broker answers"):
        await GatheredConnections().table(asked(Admin(a=None)))


async def test_those_who_look_at_once_share_one_gathering() -> None:
    admin, gathered = Admin(a=1), GatheredConnections()
    engine = asked(admin)
    await asyncio.gather(*(gathered.table(engine) for _ in range(5)))
    assert admin.calls == 1
    await asyncio.sleep(FRESH_S + 0.1)
    await gathered.table(engine)
    assert admin.calls == 2
    gathered.forget()
    await gathered.table(engine)
    assert admin.calls == 3


@pytest.mark.parametrize("text", ["", "1", "x-1", "1-", "0-5", "1-2-3", f"1-{1 << 64}"])
def test_a_wrong_id_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InvalidField, match="NUMBER-TIME"):
        parse_id(text)
