"""A WebSocket stays open while its client has the rights that it needs, and its credentials last."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.auth import authentication
from engine.auth.authenticators import watched_file
from engine.auth.private_files import write_private
from engine.auth.settings import TokenSettings
from engine.base.clock import SystemClock
from engine.base.names import NamespaceName
from engine.client.client import PulsarClient
from engine.tenancy.access.revoked_tokens import revoke_token
from engine.tenancy.grants import grant, revoke
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters, serving
from gateway.http.socket_port import SocketPort
from gateway.services.engine_link import Engine, EngineLink
from gateway.ws import sockets
from gateway.ws.admission import EXPIRED
from gateway.ws.rights import Opening
from tests.support.access.callers import KEY, by_token, token
from tests.support.net.socket_pair import SocketPair

NAMESPACE = NamespaceName.of("t", "n")
OPENINGS = {
    "producer": Opening(("persistent://t/n/x",)),
    "reader": Opening(("persistent://t/n/x",)),
    "consumer": Opening(("persistent://t/n/x",), subscription="s"),
}
ACTIONS = ["produce", "consume"]


async def stored(engine: Engine) -> None:
    info = {"adminRoles": ["own"], "allowedClusters": ["standalone"]}
    await create_tenant(engine.store, "t", info)
    await create_namespace(engine.store, NAMESPACE, {}, cluster="standalone")
    await grant(engine.store, NAMESPACE, "app", ACTIONS)


class Endpoint:
    """An endpoint of no broker. ``closed`` is set when its socket has ended."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def accepted(self, port: SocketPort) -> None: ...

    async def close(self) -> None:
        self.closed.set()


class Doors:
    """The endpoints of a cluster, without their brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clusters = Clusters(cluster)
        self.opened: list[Endpoint] = []
        self.before_opening: Any = None

    async def open(self, kind: str, role: str, **claims: Any) -> SocketPair:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            async def opened(client: PulsarClient) -> Endpoint:
                if self.before_opening is not None:
                    await self.before_opening()
                self.opened.append(Endpoint())
                return self.opened[-1]

            await sockets.run(
                scope, receive, send, kind, self.cluster, lambda: OPENINGS[kind], opened
            )

        served: Any = serving(self.clusters, application)
        return await SocketPair(served, f"/?token={token(role, **claims)}").opened()


@pytest.fixture
def doors(cluster: Cluster, engine: EngineLink, settings: Any) -> Doors:
    settings.IDENTITY = by_token(authorization_enabled=True)
    engine.run(stored)
    return Doors(cluster)


def code_of(pair: SocketPair) -> int | None:
    return pair.client.close_code


@pytest.mark.parametrize("kind", OPENINGS)
async def test_a_socket_opens_for_who_has_the_right_alone(kind: str, doors: Doors) -> None:
    pair = await doors.open(kind, "app")
    assert pair.response is not None
    assert pair.response.status_code == 101
    assert list(doors.cluster.clients.roles) == ["app"]
    await pair.hang_up()
    refused = await doors.open(kind, "stranger")
    assert refused.response is not None
    assert refused.response.status_code == 403
    assert "Not authorized" in (refused.response.body or b"").decode()
    assert len(doors.opened) == 1
    await refused.hang_up()


@pytest.mark.parametrize("kind", OPENINGS)
async def test_a_socket_ends_when_its_client_loses_the_right(
    kind: str, doors: Doors, engine: EngineLink
) -> None:
    pair, admin = await doors.open(kind, "app"), await doors.open(kind, "own")
    await engine.arun(lambda link: revoke(link.store, NAMESPACE, "app"))
    await asyncio.wait_for(pair.ended.wait(), 60)
    await asyncio.wait_for(doors.opened[0].closed.wait(), 60)
    assert code_of(pair) == 1008
    assert not doors.opened[1].closed.is_set()
    await admin.hang_up()


async def test_a_change_that_takes_no_right_ends_no_socket(
    doors: Doors, engine: EngineLink
) -> None:
    app, other = await doors.open("producer", "app"), await doors.open("reader", "app")
    await engine.arun(lambda link: grant(link.store, NAMESPACE, "app", ["produce"]))
    await asyncio.wait_for(other.ended.wait(), 60)
    assert not app.ended.is_set()
    await app.hang_up()


async def test_a_right_that_is_lost_while_a_socket_opens_ends_it(
    doors: Doors, engine: EngineLink
) -> None:
    async def lose() -> None:
        await engine.arun(lambda link: revoke(link.store, NAMESPACE, "app"))

    doors.before_opening = lose
    pair = await doors.open("producer", "app")
    await asyncio.wait_for(pair.ended.wait(), 60)
    await asyncio.wait_for(doors.opened[0].closed.wait(), 60)


async def test_a_socket_ends_with_its_credentials(doors: Doors) -> None:
    pair = await doors.open("producer", "app", exp=int(time.time()) + 1)
    await asyncio.wait_for(pair.ended.wait(), 60)
    assert code_of(pair) == 1008
    assert pair.client.close_reason == EXPIRED


async def test_a_socket_ends_when_its_token_is_revoked(doors: Doors, engine: EngineLink) -> None:
    pair = await doors.open("producer", "app", jti="one")
    other = await doors.open("producer", "app", jti="other")
    await engine.arun(lambda link: revoke_id(link, "one"))
    await asyncio.wait_for(pair.ended.wait(), 60)
    assert code_of(pair) == 1008
    refused = await doors.open("producer", "app", jti="one")
    assert refused.response is not None
    assert refused.response.status_code == 401
    assert not other.ended.is_set()
    await other.hang_up()


async def test_a_token_that_is_revoked_while_its_socket_opens_ends_it(
    doors: Doors, engine: EngineLink
) -> None:
    doors.before_opening = lambda: engine.arun(lambda link: revoke_id(link, "one"))
    pair = await doors.open("producer", "app", jti="one")
    await asyncio.wait_for(pair.ended.wait(), 60)


async def test_a_socket_ends_when_the_key_of_its_token_is_replaced(
    doors: Doors, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.key"
    write_private(path, KEY)
    settings.IDENTITY = replace(
        settings.IDENTITY, token=TokenSettings(token_secret_key=path.as_uri())
    )
    monkeypatch.setattr(watched_file, "CHECK_S", 0.0)
    monkeypatch.setattr(authentication, "LOOK_S", 0.01)
    pair = await doors.open("producer", "app")
    assert not pair.ended.is_set()
    path.write_bytes(bytes(reversed(KEY)))
    await asyncio.wait_for(pair.ended.wait(), 60)
    assert code_of(pair) == 1008


async def revoke_id(engine: Engine, token_id: str) -> None:
    await revoke_token(engine.store, token_id, expires_at=None, clock=SystemClock())
