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
from engine.net.tls import ClientFiles, ServerFiles, TlsFileError
from engine.net.transport import Connection
from tests.sim.kit.loop import SimLoop
from tests.sim.kit.network import SimNetwork, World
from tests.support.net.certificates import Authority, Files
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
    server = ServerFiles(*authority.issue("broker", "127.0.0.1")).context()
    async with listening(server, connections_max=1) as listener:
        transport, client = await connect(listener, ClientFiles(authority.cert).context())
        assert transport.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
        transport.write(FRAME * 2)
        await until(lambda: len(client.got) == 2 * len(FRAME))
        assert client.got == FRAME * 2
        _, refused = await connect(listener, ClientFiles(authority.cert).context())
        await refused.over.wait()
        assert listener.refused == 1
        transport.close()
        await client.over.wait()


async def test_a_server_that_is_not_trusted_or_not_for_the_host_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with listening(ServerFiles(*authority.issue("broker", "broker")).context()) as listener:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(listener, ClientFiles(stranger.cert, verify_hostname=False).context())
        with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.1"):
            await connect(listener, ClientFiles(authority.cert).context())
        transport, _ = await connect(
            listener, ClientFiles(authority.cert, verify_hostname=False).context()
        )
        transport.close()


async def test_a_client_must_present_a_certificate_where_one_is_required(
    authority: Authority, tmp_path: Path
) -> None:
    server = ServerFiles(
        *authority.issue("broker", "127.0.0.1"), client_ca=authority.cert, client_cert_required=True
    ).context()
    known = authority.issue("client")
    unknown = Authority(tmp_path, "stranger").issue("nobody")
    async with listening(server) as listener:
        transport, client = await connect(
            listener, ClientFiles(authority.cert, **known._asdict()).context()
        )
        transport.write(FRAME)
        await until(lambda: bool(client.got))
        transport.close()
        contexts = (
            ClientFiles(authority.cert).context(),
            ClientFiles(authority.cert, **unknown._asdict()).context(),
        )
        for context in contexts:
            _, refused = await connect(listener, context)  # TLS 1.3: the refusal comes later
            await refused.over.wait()
            assert not refused.got
        await until(lambda: not listener.connections)


async def test_a_client_may_present_a_certificate_where_none_is_required(
    authority: Authority, tmp_path: Path
) -> None:
    """Accept both, so that certificates and tokens can be used on one port."""
    files = authority.issue("broker", "127.0.0.1")
    known = authority.issue("client")
    unknown = Authority(tmp_path, "stranger").issue("nobody")
    async with listening(ServerFiles(*files, client_ca=authority.cert).context()) as listener:
        subjects = []
        for shown in ({}, known._asdict()):
            transport, client = await connect(
                listener, ClientFiles(authority.cert, **shown).context()
            )
            transport.write(FRAME)
            await until(lambda client=client: bool(client.got))  # type: ignore[misc]
            (served,) = listener.connections
            assert isinstance(served, Echo)
            subjects.append(served.certificate and served.certificate["subject"])
            transport.close()
            await until(lambda: not listener.connections)
        assert subjects == [None, ((("commonName", "client"),),)]
        shown_unknown = ClientFiles(authority.cert, **unknown._asdict()).context()
        _, refused = await connect(listener, shown_unknown)
        await refused.over.wait()


async def test_new_connections_use_changed_files(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    successor = Authority(tmp_path / "new")
    files = authority.issue("broker", "127.0.0.1")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(Path(authority.cert).read_bytes())
    old_client, new_client = authority.issue("client"), successor.issue("client")
    server = ServerFiles(*files, client_ca=str(trusted), client_cert_required=True)

    async def accepted(listener: Listener, ca: str, shown: Files) -> bool:
        try:
            transport, client = await connect(
                listener, ClientFiles(ca, **shown._asdict()).context()
            )
        except ssl.SSLError:
            return False
        transport.write(FRAME)
        await until(lambda: bool(client.got) or client.over.is_set())
        transport.close()
        return bool(client.got)

    async with listening(server.reloaded(0)) as listener:
        assert await accepted(listener, authority.cert, old_client)
        Path(files.key).write_text("half way")
        assert await accepted(listener, authority.cert, old_client)  # the last usable files
        replacement = successor.issue("broker", "127.0.0.1")
        Path(files.cert).write_bytes(Path(replacement.cert).read_bytes())
        Path(files.key).write_bytes(Path(replacement.key).read_bytes())
        assert await accepted(listener, successor.cert, old_client)
        assert not await accepted(listener, authority.cert, old_client)
        trusted.write_bytes(Path(successor.cert).read_bytes())
        assert await accepted(listener, successor.cert, new_client)
        assert not await accepted(listener, successor.cert, old_client)


async def test_files_are_checked_once_per_interval(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = asyncio.get_running_loop()
    now = 1000.0
    monkeypatch.setattr(clock, "time", lambda: now)
    source = ClientFiles(authority.cert).reloaded(300)
    first = source()
    Authority(Path(authority.cert).parent)  # overwrites the file
    now += 299
    assert source() is first
    now += 1
    second = source()
    assert second is not first
    now += 300
    assert source() is second


async def test_old_versions_are_refused(authority: Authority) -> None:
    server = ServerFiles(*authority.issue("broker", "127.0.0.1")).context()
    assert server.minimum_version == ssl.TLSVersion.TLSv1_2
    assert ClientFiles(authority.cert).context().minimum_version == ssl.TLSVersion.TLSv1_2


async def test_a_client_without_a_handshake_is_disconnected_and_never_served(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "TLS_HANDSHAKE_TIMEOUT_S", 0.1)
    async with listening(
        ServerFiles(*authority.issue("broker", "127.0.0.1")).context()
    ) as listener:
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
        (lambda: ServerFiles(missing, key).context(), "missing.pem: No such file"),
        (lambda: ServerFiles(cert, missing).context(), "missing.pem: No such file"),
        (lambda: ServerFiles(cert, str(garbage)).context(), "garbage.pem"),
        (
            lambda: ServerFiles(cert, other).context(),
            "other.key.pem cannot be used: key values mismatch",
        ),
        (
            lambda: ServerFiles(cert, str(locked)).context(),
            "locked.pem cannot be used: .* encrypted",
        ),
        (lambda: ServerFiles(cert, key, client_ca=str(garbage)).context(), "garbage.pem"),
        (lambda: ClientFiles(str(garbage)).context(), "garbage.pem"),
        (lambda: ClientFiles(str(tmp_path)).context(), "Is a directory"),
        (lambda: ClientFiles(authority.cert, cert=cert).context(), "give both or none"),
    ):
        with pytest.raises(TlsFileError, match=name):
            make()


def test_simulated_connections_start_in_clear(authority: Authority) -> None:
    loop = SimLoop(1)
    context = ClientFiles(authority.cert).context()

    async def ask() -> None:
        with pytest.raises(NotImplementedError, match="start in clear"):
            await SimNetwork(World(loop)).connect("a", 1, Client, tls=context)
        with pytest.raises(NotImplementedError, match="start in clear"):
            await SimNetwork(World(loop)).listen("a", 1, Client, tls=context)

    loop.run_until_complete(ask())
    loop.close()
