"""A ledger client in TLS: only START_TLS is in clear, and an untrusted bookie receives nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie.requests.connection import BookieConnection, Handler
from engine.base.tasks import TaskScope
from engine.ledger.cluster.link import BookieLink
from engine.ledger.cluster.start_tls import TlsRefusedError, connect_in_tls
from engine.ledger.cluster.v3_channel import V3Channel
from engine.ledger.errors import LedgerError
from engine.ledger.settings import LedgerSettings
from engine.net import listener as accepting
from engine.net.network import LoopNetwork
from engine.net.tls import TLS_FACTORY, ClientFiles, TlsFileError
from engine.net.transport import ClearTextError
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from engine.wire.bookie_commands import ResultCode
from tests.sim.kit.loop import NODE, Node, SimLoop, simulate
from tests.sim.kit.network import SimNetwork, World
from tests.support.ledger_cluster import PATIENT, Cluster, Listener, payloads_of, run_of
from tests.support.net.certificates import Authority
from tests.support.scripted_bookies import numbered


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def in_tls(authority: Authority, **changes: object) -> LedgerSettings:
    given = {
        "bookie_tls_provider": TLS_FACTORY,
        "bookkeeper_tls_trust_certs_file_path": authority.cert,
        "bookkeeper_tls_hostname_verification_enabled": True,
    }
    return replace(PATIENT, **given | changes)  # type: ignore[arg-type]


@asynccontextmanager
async def secured(directory: Path, authority: Authority, host: str) -> AsyncIterator[Cluster]:
    cert, key = authority.issue("bookie", host)
    cluster = Cluster(
        directory,
        tls_provider_factory_class=TLS_FACTORY,
        tls_certificate_path=cert,
        tls_key_store=key,
        tls_trust_store=authority.cert,
        tls_client_authentication=True,
    )
    for i in range(3):
        await cluster.start(f"b{i}")
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_ledgers_are_written_and_read_in_tls(tmp_path: Path, authority: Authority) -> None:
    shown = authority.issue("client")
    settings = in_tls(
        authority,
        bookkeeper_tls_client_authentication=True,
        bookkeeper_tls_certificate_file_path=shown.cert,
        bookkeeper_tls_key_file_path=shown.key,
        explicit_lac_interval_s=0.02,  # over the V3 connection
    )
    async with secured(tmp_path, authority, "127.0.0.1") as cluster:
        listener = Listener()
        writer = await cluster.client(settings).create(3, 3, 2, listener=listener)
        writer.append(run_of(*numbered(5)))
        await listener.reach(5)
        reader = await cluster.client(settings).open(writer.ledger_id, recover=False)
        async with asyncio.timeout(60):
            while await reader.read_last_confirmed() < 4:
                await asyncio.sleep(0.01)
        assert payloads_of(await reader.read(0, 5, 1000)) == numbered(5)
        connections = [
            connection
            for bookie in cluster.bookies.values()
            for connection in bookie._listener.connections
        ]
        assert len(connections) >= 6
        assert all(connection.encrypted for connection in connections)  # type: ignore[attr-defined]
        reopened = await cluster.client(settings).open(writer.ledger_id, recover=True)
        assert reopened.last_confirmed == 4


@pytest.mark.parametrize(
    "weaken",
    [
        lambda authority, other: in_tls(other),
        lambda authority, other: in_tls(authority),
        lambda authority, other: PATIENT,
    ],
    ids=["not trusted", "not for the host", "no certificate shown"],
)
async def test_a_client_that_cannot_verify_or_be_verified_writes_nothing(
    tmp_path: Path, authority: Authority, weaken: Callable[[Authority, Authority], LedgerSettings]
) -> None:
    (tmp_path / "other").mkdir()
    settings = weaken(authority, Authority(tmp_path / "other"))
    async with secured(tmp_path, authority, "elsewhere.example") as cluster:
        if settings is PATIENT:
            settings = in_tls(authority, bookkeeper_tls_hostname_verification_enabled=False)
        listener = Listener()
        writer = await cluster.client(settings).create(3, 3, 2, listener=listener)
        writer.append(run_of(*numbered(1)))
        assert isinstance(await listener.fail(), LedgerError)
        assert all(not bookie.serving.storage.ledgers.live for bookie in cluster.bookies.values())


async def answered(answer: bytes, authority: Authority) -> BaseException | None:
    """Connect in TLS to a bookie that answers START_TLS with ``answer`` and closes; return the error."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(v3.start_tls_request(1)))
        writer.write(answer)
        writer.write_eof()
        with suppress(OSError):
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    context = ClientFiles(authority.cert).context
    try:
        await connect_in_tls(LoopNetwork(), "127.0.0.1", port, asyncio.Protocol(), context)
    except Exception as error:
        return error
    finally:
        await ended.wait()
        server.close()
        await server.wait_closed()
    return None


async def test_a_refusal_of_tls_closes_the_connection(authority: Authority) -> None:
    request = v3.parse_request(v3.start_tls_request(1), 0, len(v3.start_tls_request(1)))
    granted = v3.start_tls_reply(request)
    for answer, error in (
        (v3.refusal(request, ResultCode.EBADREQ), TlsRefusedError),
        (b"\x7f\xff\xff\xff", TlsRefusedError),
        (granted + b"\0", ClearTextError),
        (granted + granted, ClearTextError),
        (granted[:-1], ConnectionResetError),
        (b"", ConnectionResetError),
        (granted, ConnectionResetError),  # no handshake follows
    ):
        assert isinstance(await answered(answer, authority), error), answer


async def test_a_client_with_an_unusable_certificate_file_is_refused(
    tmp_path: Path, authority: Authority
) -> None:
    cluster = Cluster(tmp_path)
    settings = in_tls(authority, bookkeeper_tls_trust_certs_file_path=str(tmp_path / "missing.pem"))
    with pytest.raises(TlsFileError, match=r"missing\.pem"):
        cluster.client(settings)
    await cluster.close()


class Echo(Handler):
    """A bookie that grants TLS and answers other requests in TLS only."""

    def __init__(self) -> None:
        self.ends = 0

    def request(self, connection: BookieConnection, buf: bytes, start: int, stop: int) -> None:
        request = v3.parse_request(buf, start, stop)
        if request.header.operation == pb.START_TLS:
            assert connection.offers_tls
            connection.begin_tls(v3.start_tls_reply(request))
        else:
            assert connection.encrypted
            connection.send(v3.refusal(request, ResultCode.ENOENTRY))

    def closed(self, connection: BookieConnection, error: Exception | None) -> None:
        self.ends += 1


@pytest.mark.parametrize("seed", range(10))
def test_a_link_that_breaks_during_the_tls_handshake_is_reported_once(seed: int) -> None:
    """Reset connections at random moments; a link is in TLS or down, and each side reports one end."""
    tls: Any = object()

    async def main(loop: SimLoop) -> None:
        world = World(loop)
        world.segment_chance = 0.5
        handler, network, tasks = Echo(), SimNetwork(world), TaskScope("bookie")

        def start(connection: BookieConnection) -> None:
            tasks.spawn("tls", connection.start_tls(network, tls))

        listener = accepting.Listener(
            network, lambda: BookieConnection(handler, 1 << 20, start), connections_max=0
        )

        async def serve() -> None:
            await listener.start("bookie", 1)

        async def address() -> tuple[str, int]:
            return "bookie", 1

        loop.spawn(Node("bookie"), serve())
        await asyncio.sleep(1)
        NODE.set(Node("client"))
        links: list[V3Channel] = []
        downs: list[BookieLink] = []
        answers: list[pb.Response | None] = []
        for _ in range(30):
            link = V3Channel("bookie", 1 << 20)
            links.append(link)
            link.on_down(lambda link, reason: downs.append(link))
            link.request(lambda number: v3.read_lac_request(number, 1), answers.append)
            loop.call_later(loop.rng.random() * 0.02, world.reset_links, "client")
            await link.connect(network, address, 3.0, lambda: tls)
            await asyncio.sleep(loop.rng.choice((0.0, 1.0)))
        await asyncio.sleep(1)
        for link in links:
            assert link.down is not None or link.encrypted
            link.take_down("end of the test")
        await asyncio.sleep(1)
        assert len(downs) == len({*downs}) == len(answers) == len(links)
        assert any(answers)
        assert None in answers
        assert handler.ends
        assert not listener.connections

    simulate(seed, main, limit_s=200)
