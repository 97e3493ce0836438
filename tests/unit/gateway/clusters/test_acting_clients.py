"""Clients that act for callers: one for each role, whose connections name it."""

import asyncio
from typing import Any

import pytest

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.wire import client_commands as say
from gateway.clusters import acting_clients
from gateway.clusters.acting_clients import ActingClient, ActingClients


class Client:
    """A client that connects to nothing."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


def clients() -> tuple[ActingClients, dict[str, Client]]:
    """Return the clients under test, and those that they have made, by role."""
    made: dict[str, Client] = {}

    def make(role: str) -> ActingClient:
        client: Any = Client()
        made[role] = client
        publisher: Any = None
        return ActingClient(client, publisher)

    return ActingClients(make), made


async def test_each_role_has_a_client_of_its_own() -> None:
    acting, made = clients()
    first, same, other = acting.use("a"), acting.use("a"), acting.use("b")
    assert first is same
    assert first is not other
    assert made.keys() == {"a", "b"}


async def test_clients_that_are_not_used_are_closed_and_others_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acting_clients, "SWEEP_AT", 4)
    acting, made = clients()
    acting.use("").close()
    acting.use("used")
    for role in ("idle", "recent"):
        acting.use(role).close()
    for role in ("", "idle"):
        acting.use(role).used_at_s -= 2 * acting_clients.IDLE_S
        acting._clients[role].users -= 1
    acting.use("next")
    assert list(acting.roles) == ["", "used", "recent", "next"]
    await asyncio.wait_for(made["idle"].closed.wait(), 60)
    assert [role for role, client in made.items() if client.closed.is_set()] == ["idle"]


@pytest.mark.parametrize("role", [None, "app"])
async def test_a_connection_names_the_role_that_it_acts_for(
    role: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[Any] = []

    def connect(version: str, **fields: Any) -> bytes:
        named.append(fields["original_principal"])
        return b""

    monkeypatch.setattr(say, "connect", connect)
    link = BrokerLink(LinkSettings(original_principal=role))
    monkeypatch.setattr(link, "send", lambda frame: None)
    link.opened()
    assert named == [role]
