"""TLS on both sides of the proxy, over loopback sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.settings import BrokerClientSettings
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles, TlsSettings
from engine.proxy.proxy_service import ProxyService
from engine.proxy.settings import ProxyProgramSettings, ProxySettings
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire.errors import ServerError
from tests.support.net.certificates import Authority
from tests.support.proxy.rig import Peer
from tests.support.waiting import until

CONNECTED = commands.connected(server_version="b", protocol_version=19)


@asynccontextmanager
async def secured(
    tmp_path: Path, *hosts: str
) -> AsyncIterator[tuple[ProxyService, Authority, list[Peer], str]]:
    """Yield a proxy, the authority, the connections of its broker, whose certificate is for ``hosts``, and the
    broker's ``host:port``."""
    authority = Authority(tmp_path)
    network = LoopNetwork()
    peers: list[Peer] = []

    def accept() -> Peer:
        peers.append(Peer())
        return peers[-1]

    broker = ServerFiles(*authority.issue("broker", *hosts)).context()
    server = await network.listen("127.0.0.1", 0, accept, tls=broker)
    target = f"127.0.0.1:{server.port}"
    own = authority.issue("proxy", "127.0.0.1")
    settings = ProxyProgramSettings(
        proxy=ProxySettings(
            service_port=0,
            service_port_tls=0,
            web_service_port=0,
            broker_service_url_tls=target,
        ),
        broker_client=BrokerClientSettings(
            broker_client_tls_enabled=True, broker_client_trust_certs_file_path=authority.cert
        ),
        tls=TlsSettings(tls_certificate_file_path=own.cert, tls_key_file_path=own.key),
    )
    service = ProxyService(
        settings, clock=SystemClock(), entropy=RandomEntropy(), network=network, store=None
    )
    await service.start()
    try:
        yield service, authority, peers, target
    finally:
        await service.drain()
        server.close()


async def dial(service: ProxyService, authority: Authority, target: str) -> Peer:
    """Return a client's connection in TLS that has asked for the broker."""
    client = Peer(raw_when_connected=True)
    tls = ClientFiles(ca=authority.cert).context()
    assert service.port_tls is not None
    await LoopNetwork().connect("127.0.0.1", service.port_tls, lambda: client, tls=tls)
    client.send(say.connect("the client", proxy_to_broker_url=target))
    return client


async def test_bytes_are_copied_from_tls_to_tls(tmp_path: Path) -> None:
    async with secured(tmp_path, "127.0.0.1") as (service, authority, peers, target):
        client = await dial(service, authority, target)
        await until(lambda: peers)
        [far] = peers
        await far.next("connect")
        far.raw = True
        far.send(CONNECTED)
        await client.next("connected")
        sent = bytes(range(256)) * 4096
        client.send(sent)
        far.send(sent[::-1])
        await until(lambda: len(far.bytes) == len(client.bytes) == len(sent))
        assert (bytes(far.bytes), bytes(client.bytes)) == (sent, sent[::-1])
        client.close()
        await far.gone()
        await until(lambda: not service._sessions)


@pytest.mark.parametrize("host", ["other.example", "127.0.0.2"])
async def test_a_broker_with_a_certificate_for_another_host_is_not_used(
    tmp_path: Path, host: str
) -> None:
    async with secured(tmp_path, host) as (service, authority, peers, target):
        client = await dial(service, authority, target)
        error = await client.next("error")
        assert error.error == ServerError.ServiceNotReady
        assert not any(peer.received_commands for peer in peers)
        client.close()
