"""Connections are listed with what clients opened by them, and exactly the previewed one is closed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.brokers import (
    CONNECTION_COLUMNS,
    CloseConnection,
    ConnectionsPage,
    OnConnection,
)
from engine.base.errors import Conflict, NotFound
from engine.broker.administration import client_connections
from engine.broker.administration.client_connections import ConnectionOperations
from tests.support.access.guarded_broker import Guarded, guarded
from tests.support.broker_bench import NAME, until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def broker() -> AsyncIterator[Guarded]:
    async with guarded() as broker:
        await broker.grant("app", "produce", "consume")
        yield broker


def operations(broker: Guarded) -> ConnectionOperations:
    return ConnectionOperations(broker.sessions, broker.bench.context.clock)


async def rows(broker: Guarded) -> list[dict[str, Any]]:
    answer = await operations(broker).connections(ConnectionsPage())
    return [dict(zip(CONNECTION_COLUMNS, row, strict=True)) for row in answer["rows"]]


def on(row: dict[str, Any]) -> OnConnection:
    return OnConnection(row["number"], row["since_ms"])


async def test_a_connection_is_listed_with_its_client_and_what_it_opened(broker: Guarded) -> None:
    app = broker.client("app")
    await app.produce(metadata={"application": "billing"})
    await app.consume(number=2)
    broker.client("proxy", original="app")
    first, second = await rows(broker)
    assert (first["role"], first["original_role"], first["version"]) == ("app", None, "test")
    assert (first["producers"], first["consumers"], first["application"]) == (1, 1, "billing")
    assert (second["role"], second["original_role"], second["producers"]) == ("proxy", "app", 0)


async def test_a_client_in_handshake_is_not_listed(broker: Guarded) -> None:
    broker.sessions.accept()
    broker.client("app")
    assert [row["number"] for row in await rows(broker)] == [2]


async def test_pages_have_every_connection_once(
    broker: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connections, "PAGE_CONNECTIONS", 2)
    for _ in range(5):
        broker.client("app")
    seen, after = [], 0
    while after is not None:
        page = await operations(broker).connections(ConnectionsPage(after))
        seen += [row[0] for row in page["rows"]]
        after = page["next"]
    assert seen == [1, 2, 3, 4, 5]


async def test_one_connection_names_its_producers_and_consumers(broker: Guarded) -> None:
    app = broker.client("app")
    await app.produce()
    await app.consume(number=2)
    app.publish(0)
    await until(lambda: app.bodies("message"))
    (row,) = await rows(broker)
    shown = await operations(broker).connection(on(row))
    producer, consumer = shown["clients"]
    assert (producer["kind"], producer["topic"]) == ("producer", NAME.full)
    assert (consumer["kind"], consumer["subscription"], consumer["unacked"]) == ("consumer", "s", 1)


async def test_the_previewed_connection_is_closed_and_no_other(broker: Guarded) -> None:
    app, other = broker.client("app"), broker.client("app")
    await app.produce()
    await app.consume(number=2)
    await other.produce()
    row, _ = await rows(broker)
    seen_ms = (await operations(broker).connection(on(row)))["at"]
    args = CloseConnection(row["number"], row["since_ms"], seen_ms)
    closed = await operations(broker).close(args)
    assert closed == {"before": {"producers": 1, "consumers": 1, "unacked": 0}}
    assert (app.session.closing, other.session.closing) == (True, False)
    with pytest.raises(NotFound, match="not open any more"):
        await operations(broker).close(args)


async def test_a_connection_that_opened_something_since_is_not_closed(broker: Guarded) -> None:
    app = broker.client("app")
    await app.produce()
    (row,) = await rows(broker)
    with pytest.raises(Conflict, match="opened 1 producers or consumers since the preview"):
        await operations(broker).close(CloseConnection(row["number"], row["since_ms"], 0))
    assert not app.session.closing


async def test_an_id_of_an_earlier_start_is_of_no_connection(broker: Guarded) -> None:
    broker.client("app")
    with pytest.raises(NotFound):
        await operations(broker).connection(OnConnection(1, 5))
