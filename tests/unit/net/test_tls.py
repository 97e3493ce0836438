"""TLS of the Network seam: real handshakes over loopback, with certificates made for the test."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from engine.net import network
from engine.net.listener import Listener
from engine.net.network import LoopNetwork
from engine.net.tls import TlsFileError, client_context, server_context
from engine.net.transport import Connection
from tests.sim.kit.loop import SimLoop
from tests.sim.kit.network import SimNetwork, World
from tests.support.net.certificates import Authority
from tests.support.waiting import until

FRAME = (5 << 20).to_bytes(4, "big") + bytes(5 << 20)


class Echo(Connection):
    """Sends each frame back, in parts that a plain socket would take unjoined."""

    def received(self, buf: bytes, pos: int, end: int) -> int:
        size = 4 + int.from_bytes(buf[pos : pos + 4], "big")
        if end - pos < size:
            return pos
        half = pos + size // 2
        self.send_parts([memoryview(buf)[pos:half], memoryview(buf)[half : pos + size]])
        return self.received(buf, pos + size, end) if pos + size < end else pos + size


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.got = bytearray()
        self.over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def listening(
    context: ssl.SSLContext, *, connections_max: int = 0
) -> AsyncIterator[Listener]:
    listener = Listener(LoopNetwork(), lambda: Echo(8 << 20), connections_max=connections_max)
    await listener.start("127.0.0.1", 0, tls=context)
    yield listener
    await listener.drain(1.0)


async def connect(
    listener: Listener, context: ssl.SSLContext | None, host: str = "127.0.0.1"
) -> tuple[asyncio.Transport, Client]:
    transport, client = await LoopNetwork().connect(host, listener.port, Client, tls=context)
    assert isinstance(client, Client)
    return transport, client


async def test_frames_pass_through_a_listeners_connection(authority: Authority) -> None:
    server = server_context(*authority.issue("broker", "127.0.0.1"))
    async with listening(server, connections_max=1) as listener:
        transport, client = await connect(listener, client_context(authority.cert))
        assert transport.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
        transport.write(FRAME * 2)
        await until(lambda: len(client.got) == 2 * len(FRAME))
        assert client.got == FRAME * 2
        _, refused = await connect(listener, client_context(authority.cert))
        await refused.over.wait()
        assert listener.refused == 1
        transport.close()
        await client.over.wait()


async def test_a_server_that_is_not_trusted_or_not_for_the_host_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with listening(server_context(*authority.issue("broker", "broker"))) as listener:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(listener, client_context(stranger.cert, verify_hostname=False))
        with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.1"):
            await connect(listener, client_context(authority.cert))
        transport, _ = await connect(
            listener, client_context(authority.cert, verify_hostname=False)
        )
        transport.close()


async def test_a_client_must_show_a_certificate_where_one_is_asked_for(
    authority: Authority, tmp_path: Path
) -> None:
    server = server_context(*authority.issue("broker", "127.0.0.1"), client_ca=authority.cert)
    known = authority.issue("client")
    unknown = Authority(tmp_path, "stranger").issue("nobody")
    async with listening(server) as listener:
        transport, client = await connect(
            listener, client_context(authority.cert, **known._asdict())
        )
        transport.write(FRAME)
        await until(lambda: bool(client.got))
        transport.close()
        contexts = (
            client_context(authority.cert),
            client_context(authority.cert, **unknown._asdict()),
        )
        for context in contexts:
            _, refused = await connect(listener, context)  # TLS 1.3: the refusal comes later
            await refused.over.wait()
            assert not refused.got
        await until(lambda: not listener.connections)


async def test_old_versions_are_refused(authority: Authority) -> None:
    server = server_context(*authority.issue("broker", "127.0.0.1"))
    assert server.minimum_version == ssl.TLSVersion.TLSv1_2
    assert client_context(authority.cert).minimum_version == ssl.TLSVersion.TLSv1_2


async def test_who_does_not_shake_hands_is_cut_and_never_served(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "TLS_HANDSHAKE_TIMEOUT_S", 0.1)
    async with listening(server_context(*authority.issue("broker", "127.0.0.1"))) as listener:
        _, silent = await connect(listener, None)
        talkative_transport, talkative = await connect(listener, None)
        talkative_transport.write(b"GET / HTTP/1.1\r\n\r\n")
        await silent.over.wait()
        await talkative.over.wait()
        assert listener.connections == []


def test_errors_name_the_file(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.issue("broker")
    other = authority.issue("other").key
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing of use")
    missing = str(tmp_path / "missing.pem")
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        serialization.load_pem_private_key(Path(key).read_bytes(), None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for make, name in (
        (lambda: server_context(missing, key), "missing.pem: No such file"),
        (lambda: server_context(cert, missing), "missing.pem: No such file"),
        (lambda: server_context(cert, str(garbage)), "garbage.pem"),
        (lambda: server_context(cert, other), "other.key.pem cannot be used: key values mismatch"),
        (lambda: server_context(cert, str(locked)), "locked.pem cannot be used: .* encrypted"),
        (lambda: server_context(cert, key, client_ca=str(garbage)), "garbage.pem"),
        (lambda: client_context(str(garbage)), "garbage.pem"),
        (lambda: client_context(str(tmp_path)), "Is a directory"),
        (lambda: client_context(cert, cert=cert), "give both or none"),
    ):
        with pytest.raises(TlsFileError, match=name):
            make()


def test_the_simulated_network_refuses_tls(authority: Authority) -> None:
    loop = SimLoop(1)
    context = client_context(authority.cert)

    async def ask() -> None:
        with pytest.raises(NotImplementedError, match="no TLS"):
            await SimNetwork(World(loop)).connect("a", 1, Client, tls=context)
        with pytest.raises(NotImplementedError, match="no TLS"):
            await SimNetwork(World(loop)).listen("a", 1, Client, tls=context)

    loop.run_until_complete(ask())
    loop.close()
