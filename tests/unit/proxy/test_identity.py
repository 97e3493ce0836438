"""Clients are identified by the proxy, and named to the broker as those that the proxy acts for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.net.handshake import REFRESH_EARLY_S
from engine.ownership.registration import BrokerRecord
from engine.proxy.proxy_service import ProxyService
from engine.tenancy.access.revoked_tokens import revoke_token
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire.errors import ServerError
from tests.support.access.callers import PROXY, by_token, token
from tests.support.broker_bench import NAME
from tests.support.proxy.rig import Peer, ScriptedBroker, dial, program, proxied, settled
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time
CONNECTED = commands.connected(server_version="b", protocol_version=19)


def connect(data: str, target: str | None = None, **more: Any) -> bytes:
    return say.connect(
        "the client",
        auth_method_name="token",
        auth_data=data.encode(),
        proxy_to_broker_url=target,
        feature_flags={"supports_auth_refresh": True},
        **more,
    )


@asynccontextmanager
async def guarded(**settings: Any) -> AsyncIterator[tuple[ProxyService, ScriptedBroker, str]]:
    """Yield a proxy whose clients present tokens, its broker, and the broker's ``host:port``."""
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url, identity=by_token(), **settings)) as proxy:
        yield proxy, broker, url.removeprefix("pulsar://")
        broker.close()


def now_s() -> float:
    return LoopClock().wall_ms() / 1000


async def test_the_broker_reads_the_proxys_token_and_the_clients_role() -> None:
    async with guarded() as (proxy, broker, target):
        client = await dial(proxy, connect(token("app"), target))
        asked = await (await broker.peer()).next("connect")
        assert (asked.auth_method_name, asked.auth_data) == ("token", token(PROXY).encode())
        assert asked.original_principal == "app"
        assert not asked.HasField("original_auth_data")
        assert not asked.HasField("original_auth_method")
        client.close()


async def test_a_request_names_its_clients_role_and_no_other() -> None:
    async with guarded() as (proxy, broker, _):
        for number, role in enumerate(("app", "other")):
            client = await dial(proxy, connect(token(role)) + say.lookup(NAME.full, 1))
            asked = await (await broker.peer(number)).next("connect")
            assert asked.original_principal == role
            client.close()


@pytest.mark.parametrize("target", [None, "127.0.0.1:1"])
async def test_a_client_without_valid_credentials_reaches_no_broker(target: str | None) -> None:
    async with guarded() as (proxy, broker, there):
        for first in (
            connect("no token", target and there),
            connect(token("app", exp=now_s() - 1), target and there),
            say.connect("anonymous", proxy_to_broker_url=target and there),
        ):
            client = await dial(proxy, first + say.lookup(NAME.full, 1))
            error = await client.next("error")
            assert (error.error, error.message) == (
                ServerError.AuthenticationError,
                "Failed to authenticate",
            )
        await until(lambda: not proxy._sessions)
        assert broker.peers == []


async def test_a_client_cannot_name_another_client() -> None:
    async with guarded() as (proxy, broker, target):
        first = connect(token("app"), target, original_principal="root")
        error = await (await dial(proxy, first)).next("error")
        assert error.error == ServerError.AuthorizationError
        assert broker.peers == []


async def test_credentials_are_forwarded_where_it_is_asked_for() -> None:
    async with guarded(forward_authorization_credentials=True) as (proxy, broker, target):
        mine = token("app")
        await dial(proxy, connect(mine, target))
        asked = await (await broker.peer()).next("connect")
        assert asked.original_principal == "app"
        assert (asked.original_auth_method, asked.original_auth_data) == ("token", mine)


async def joined(proxy: ProxyService, broker: ScriptedBroker, first: bytes) -> tuple[Peer, Peer]:
    """Return the ends of a copied connection."""
    client = await dial(proxy, first, raw_when_connected=True)
    far = await broker.peer()
    await far.next("connect")
    far.raw = True
    far.send(CONNECTED)
    await client.next("connected")
    return client, far


async def test_a_copied_connection_ends_with_the_credentials() -> None:
    async with guarded() as (proxy, broker, target):
        first = connect(token("app", exp=now_s() + 60), target)
        client, far = await joined(proxy, broker, first)
        for _ in range(5):
            await asyncio.sleep(11)
            client.send(b"x")
            far.send(b"x")
        await until(lambda: len(far.bytes) == 5)
        assert not client.half_closed
        await asyncio.sleep(6)
        assert client.half_closed
        assert far.half_closed


async def test_with_forwarding_the_broker_asks_the_client_for_new_credentials() -> None:
    async with guarded(forward_authorization_credentials=True) as (proxy, broker, target):
        first = connect(token("app", exp=now_s() + 60), target)
        client, far = await joined(proxy, broker, first)
        challenge = commands.auth_challenge("token", commands.AUTH_REFRESH, 19)
        far.send(challenge)
        await until(lambda: bytes(client.bytes) == challenge)
        answer = say.auth_response("token", token("app", exp=now_s() + 900).encode())
        client.send(answer)
        await until(lambda: bytes(far.bytes) == answer)
        await asyncio.sleep(65)
        assert not client.half_closed


async def test_a_challenge_in_the_handshake_is_answered_by_the_proxy() -> None:
    async with guarded() as (proxy, broker, target):
        client = await dial(proxy, connect(token("app"), target))
        far = await broker.peer()
        await far.next("connect")
        far.send(commands.auth_challenge("token", b"more", 19))
        answer = await far.next("authResponse")
        assert answer.response.auth_data == token(PROXY).encode()
        assert client.received_commands == []


async def test_a_client_does_not_answer_for_the_proxys_own_credentials() -> None:
    """Client libraries give up on AuthenticationError, which here says nothing about their credentials."""
    refusal = commands.error(
        commands.NO_REQUEST, ServerError.AuthenticationError, "Failed to authenticate"
    )
    async with guarded() as (proxy, broker, target):
        client = await dial(proxy, connect(token("app"), target))
        (await broker.peer(0)).send(refusal)
        assert (await client.next("error")).error == ServerError.ServiceNotReady
        client = await dial(proxy, connect(token("app")) + say.lookup(NAME.full, 1))
        (await broker.peer(1)).send(refusal)
        assert (await client.next("lookupTopicResponse")).error == ServerError.ServiceNotReady


async def test_a_lookup_connection_presents_renewed_credentials() -> None:
    async with guarded(forward_authorization_credentials=True) as (proxy, broker, _):
        old, new = (token("app", exp=now_s() + life_s) for life_s in (60, 900))
        client = await dial(proxy, connect(old) + say.lookup(NAME.full, 1))
        far = await broker.peer()
        assert (await far.next("connect")).original_auth_data == old
        far.send(CONNECTED)
        await far.next("lookupTopic")
        await asyncio.sleep(60 - REFRESH_EARLY_S + 1)
        await client.next("authChallenge")
        client.send(say.auth_response("token", new.encode()))
        await settled()
        far.send(commands.auth_challenge("token", commands.AUTH_REFRESH, 19))
        answer = await far.next("authResponse")
        assert answer.response.auth_data == new.encode()
        await asyncio.sleep(20)
        assert not client.half_closed


async def test_a_revoked_token_ends_both_kinds_of_connections() -> None:
    server = MemoryServer()
    store = server.session()
    broker = ScriptedBroker()
    url = await broker.start()
    record = BrokerRecord("b:1", url, "http://b:1", 0, "4.0.8")
    await store.create(paths.broker("b:1"), record.encode(), make_parents=True)
    async with proxied(program(identity=by_token()), store) as proxy:
        mine = token("app", jti="one")
        client, far = await joined(
            proxy, broker, connect(mine, url.removeprefix("pulsar://").upper())
        )
        asking = await dial(proxy, connect(mine))
        kept = await dial(proxy, connect(token("app", jti="two")))
        await asking.next("connected")
        await kept.next("connected")
        await revoke_token(store, "one", expires_at=None, clock=LoopClock())
        await until(lambda: client.half_closed and far.half_closed and asking.half_closed)
        error = await (await dial(proxy, connect(mine))).next("error")
        assert error.error == ServerError.AuthenticationError
        assert not kept.half_closed
    broker.close()
