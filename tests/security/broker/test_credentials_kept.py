"""Clients of the product at servers that are not the ones meant: no byte of a credential is sent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import HEALTH
from engine.auth.settings import AuthenticationSettings, IdentitySettings, OpenIdSettings
from engine.base.errors import MagnetarError
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.settings import BrokerClientSettings
from engine.net.issuers import IssuerClient
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from engine.rpc.client import RpcClient
from tests.support.net.certificates import Authority
from tests.support.waiting import until

CREDENTIAL = b"a credential of the cluster"


class Impostor:
    """A server that records what it can read of its clients."""

    def __init__(self) -> None:
        self.read = bytearray()
        self.connections = 0
        self.port = 0

    def accept(self) -> asyncio.Protocol:
        self.connections += 1
        impostor = self

        class Recording(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                impostor.read += data

        return Recording()


@pytest.fixture(params=["another authority's", "for another host"])
async def impostor(
    request: pytest.FixtureRequest, authority: Authority, tmp_path: Path
) -> AsyncIterator[Impostor]:
    """A server in TLS whose certificate is another authority's, or for another host."""
    (tmp_path / "other").mkdir()
    if request.param == "for another host":
        files = authority.issue("impostor", "impostor.example")
    else:
        files = Authority(tmp_path / "other").issue("impostor", "127.0.0.1", "localhost")
    server = Impostor()
    context = ServerFiles(*files).context()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server.accept, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def by_protocol(authority: Authority, port: int) -> None:
    """Connect as brokers, gateways, workers and replication do by Pulsar's protocol."""
    settings = BrokerClientSettings(
        broker_client_tls_enabled=True,
        broker_client_trust_certs_file_path=authority.cert,
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"token:{CREDENTIAL.decode()}",
    )
    link = LinkSettings(credentials=settings.credentials(), tls=settings.tls())
    await BrokerLink.open(LoopNetwork(), "127.0.0.1", port, link, encrypted=True)


async def by_private_port(authority: Authority, port: int) -> None:
    tls = ClientFiles(authority.cert).context
    client = RpcClient(LoopNetwork(), CREDENTIAL.decode(), "broker", timeout_s=5, tls=tls)
    try:
        await client.call_on(f"https://127.0.0.1:{port}", "b", HEALTH, NoArguments())
    finally:
        client.close()


async def by_issuer(authority: Authority, port: int) -> None:
    """Fetch the keys of an issuer of tokens."""
    settings = IdentitySettings(
        AuthenticationSettings(authentication_enabled=True, authentication_providers="oidc"),
        open_id=OpenIdSettings(open_id_token_issuer_trust_certs_file_path=authority.cert),
    )
    client = IssuerClient(settings, LoopNetwork())
    try:
        await client.fetch(f"https://127.0.0.1:{port}/.well-known/openid-configuration")
    finally:
        client.close()


CLIENTS: dict[str, Callable[[Authority, int], Awaitable[None]]] = {
    "protocol": by_protocol,
    "private port": by_private_port,
    "issuer": by_issuer,
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_impostor_receives_no_byte(
    name: str, impostor: Impostor, authority: Authority
) -> None:
    with pytest.raises(MagnetarError):
        await CLIENTS[name](authority, impostor.port)
    await until(lambda: impostor.connections)
    assert impostor.read == b""


async def test_the_server_that_is_meant_receives_the_credential(authority: Authority) -> None:
    """Show that the recorder would read a credential."""
    server = Impostor()
    context = ServerFiles(*authority.issue("broker", "127.0.0.1")).context()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server.accept, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    connecting = asyncio.ensure_future(by_protocol(authority, port))
    await until(lambda: CREDENTIAL in server.read)
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    listening.close()


async def test_a_client_in_tls_sends_nothing_to_a_server_in_clear(authority: Authority) -> None:
    server = Impostor()
    listening = await asyncio.get_running_loop().create_server(server.accept, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    connecting = asyncio.ensure_future(by_protocol(authority, port))
    await until(lambda: bool(server.read))
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    assert server.read.startswith(b"\x16\x03")  # the first record of a handshake
    assert CREDENTIAL not in server.read
    listening.close()
