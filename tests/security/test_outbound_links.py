"""Every link that a program opens to another: a server whose certificate, by a trusted authority, is for another host
receives no byte after the handshake. With a certificate for the host the same attempt sends its credentials."""

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db.utils import load_backend

from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.client import AdminClient
from engine.auth.settings import AuthenticationSettings, IdentitySettings, OpenIdSettings
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.settings import BrokerClientSettings
from engine.ledger.cluster.start_tls import connect_in_tls, tls_of
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.connect import connect
from engine.metadata.memory import MemoryServer
from engine.metadata.settings import MetadataSettings
from engine.net.issuers import IssuerClient
from engine.net.network import LoopNetwork
from engine.net.tls import TLS_FACTORY
from engine.wire import bookie_v3 as v3
from gateway.database.settings import DatabaseSettings
from gateway.people.provider_client import ProviderClient
from gateway.redis_link import RedisSettings
from gateway.services.health.parts import DatabaseServer, Redis
from gateway.sign_in import ProviderSettings
from tests.support.net.certificates import Authority, Files

OTHERS: dict[str, Any] = {"AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "TIME_ZONE": None}
"""Django's defaults of a database's settings."""
SECRET = "word-of-this-test"
HOST = "127.0.0.1"


class Impostor:
    """A TLS server that keeps what it receives after the handshake, answers nothing and closes. ``asked``: the request
    and answer in clear by which the client asks for TLS first, as of bookies' protocol and PostgreSQL's."""

    def __init__(self, files: Files, authority: Authority, asked: "Asked") -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(files.cert, files.key)
        self._context.load_verify_locations(authority.cert)
        self._context.verify_mode = ssl.CERT_OPTIONAL
        self._asked = asked
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = b""
        self.refused = 0
        """Handshakes that the client ended; one that checks the host itself ends them afterwards."""
        self.tried = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(10)
            with connection, suppress(OSError):
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        if self._asked is not None:
            request, reply = self._asked
            assert connection.recv(len(request), socket.MSG_WAITALL) == request
            connection.sendall(reply)
        self.tried += 1
        try:
            secured = self._context.wrap_socket(connection, server_side=True)
        except OSError:
            self.refused += 1
            return
        with secured:
            self.received += secured.recv(1 << 16)

    def close(self) -> None:
        """Stop serving, once the last client is served. Safe to repeat."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


Asked = tuple[bytes, bytes] | None
BOOKIE_ASKED = v3.start_tls_request(1)
BOOKIE_REPLY = v3.start_tls_reply(v3.parse_request(BOOKIE_ASKED, 0, len(BOOKIE_ASKED)))
POSTGRESQL = (bytes.fromhex("0000000804d2162f"), b"S")
Attempt = Callable[[int, Authority, Files], Awaitable[object]]


@dataclass(frozen=True)
class Link:
    """A link: its settings and an attempt to use it, which fails, and what a server receives that it verified."""

    attempt: Attempt
    sent: str = SECRET
    asked: Asked = None


def broker_client(authority: Authority) -> BrokerClientSettings:
    return BrokerClientSettings(
        broker_client_tls_enabled=True,
        broker_client_trust_certs_file_path=authority.cert,
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"token:{SECRET}",
    )


async def to_a_broker(port: int, authority: Authority, _: Files) -> None:
    settings = broker_client(authority)
    own = LinkSettings(credentials=settings.credentials(), tls=settings.tls())
    links = Links(LoopNetwork(), own, BrokerLink)
    try:
        await links.get(f"pulsar+ssl://{HOST}:{port}")
    finally:
        await links.close()


async def to_the_private_port_of_a_broker(port: int, authority: Authority, _: Files) -> None:
    store = MemoryServer().session()
    url = f"https://{HOST}:{port}"
    record = json.dumps({"webServiceUrl": "http://127.0.0.1:1", "webServiceUrlTls": url})
    await store.create(paths.broker("a:1"), record.encode(), make_parents=True)
    admin = AdminClient(store, LoopNetwork(), SECRET, tls=broker_client(authority).tls())
    try:
        (broker,) = await admin.brokers()
        await admin.call_on(broker, TOPICS, LoadedTopics())
    finally:
        admin.close()


class Asking(asyncio.Protocol):
    """Sends the first request of a client of bookies."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        assert isinstance(transport, asyncio.Transport)
        transport.write(SECRET.encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def to_a_bookie(port: int, authority: Authority, own: Files) -> None:
    settings = LedgerSettings(
        bookie_tls_provider=TLS_FACTORY,
        bookkeeper_tls_trust_certs_file_path=authority.cert,
        bookkeeper_tls_client_authentication=True,
        bookkeeper_tls_certificate_file_path=own.cert,
        bookkeeper_tls_key_file_path=own.key,
    )
    tls = tls_of(settings)
    assert tls is not None
    protocol = Asking()
    await connect_in_tls(LoopNetwork(), HOST, port, protocol, tls)
    await protocol.ended


def to_a_store(url: str, **more: Any) -> Attempt:
    async def attempt(port: int, authority: Authority, own: Files) -> None:
        settings = MetadataSettings(
            url.format(port),
            metadata_tls_trust_certs_file_path=authority.cert,
            metadata_tls_certificate_file_path=own.cert,
            metadata_tls_key_file_path=own.key,
            metadata_user="user",
            metadata_password=SECRET,
            **more,
        )
        store = await connect(settings.store_url, access=settings.access, connect_timeout_s=0.5)
        await store.close()

    return attempt


async def to_an_issuer(port: int, authority: Authority, _: Files) -> None:
    settings = IdentitySettings(
        AuthenticationSettings(authentication_enabled=True, authentication_providers="oidc"),
        open_id=OpenIdSettings(
            open_id_allowed_token_issuers=f"https://{HOST}:{port}",
            open_id_allowed_audiences="a",
            open_id_token_issuer_trust_certs_file_path=authority.cert,
        ),
    )
    client = IssuerClient(settings, LoopNetwork())
    try:
        await client.fetch(f"https://{HOST}:{port}/{SECRET}")
    finally:
        client.close()


def redis_at(port: int, authority: Authority, own: Files) -> RedisSettings:
    return RedisSettings(
        f"rediss://{HOST}:{port}/0",
        "user",
        SECRET,
        authority.cert,
        own.cert,
        own.key,
    )


async def to_redis_for_checks(port: int, authority: Authority, own: Files) -> None:
    redis = Redis(redis_at(port, authority, own))
    try:
        await redis.check()
    finally:
        await redis.close()


async def to_redis_for_the_live_feed(port: int, authority: Authority, own: Files) -> None:
    config = redis_at(port, authority, own).channel_layers()["default"]["CONFIG"]
    layer = RedisPubSubChannelLayer(**config)
    try:
        await layer.group_send("g", {"type": "t"})
    finally:
        await layer.flush()


async def to_redis_for_analyses(port: int, authority: Authority, own: Files) -> None:
    link = redis_at(port, authority, own)
    app = Celery(set_as_current=False)
    app.conf.update(broker_url=link.celery_url(), broker_use_ssl=link.tls())
    limits = {"socket_timeout": 5, "socket_connect_timeout": 5, "max_retries": 0}

    def send() -> None:
        with app.connection_for_write(transport_options=limits) as connection:
            app.send_task("t", (), ignore_result=True, connection=connection, retry=False)

    await asyncio.to_thread(send)


def database_at(port: int, authority: Authority, own: Files) -> DatabaseSettings:
    """Return settings whose user is the secret: the password waits for the server's question."""
    return DatabaseSettings(
        f"postgresql://{SECRET}@{HOST}:{port}/db",
        database_tls_enabled=True,
        database_tls_trust_certs_file_path=authority.cert,
        database_tls_certificate_file_path=own.cert,
        database_tls_key_file_path=own.key,
    )


async def to_the_database(port: int, authority: Authority, own: Files) -> None:
    options = database_at(port, authority, own).django(Path())
    wrapper = load_backend(options["ENGINE"]).DatabaseWrapper({**OTHERS, **options}, "other")

    def connected() -> None:
        try:
            wrapper.connect()
        finally:
            wrapper.close_pool()

    await asyncio.to_thread(connected)


async def to_the_database_for_checks(port: int, authority: Authority, own: Files) -> None:
    await DatabaseServer(database_at(port, authority, own).parameters).check()


async def to_a_provider(port: int, authority: Authority, _: Files) -> None:
    client = ProviderClient(
        ProviderSettings(
            issuer=f"https://{HOST}:{port}/{SECRET}",
            client_id="c",
            trust_certs_file_path=authority.cert,
        )
    )
    await asyncio.to_thread(client.authorization, "http://127.0.0.1/back")


LINKS = {
    "broker": Link(to_a_broker),
    "private port of a broker": Link(to_the_private_port_of_a_broker),
    "bookie": Link(to_a_bookie, asked=(BOOKIE_ASKED, BOOKIE_REPLY)),
    "zookeeper": Link(
        to_a_store(f"zk:{HOST}:{{}}/c", metadata_tls_enabled=True),
        sent="\x00\x00\x00\x2d\x00\x00\x00\x00",  # the session, before the user
    ),
    "etcd": Link(to_a_store(f"etcd:https://{HOST}:{{}}/c")),
    "issuer of tokens": Link(to_an_issuer),
    "redis, checks": Link(to_redis_for_checks),
    "redis, live feed": Link(to_redis_for_the_live_feed),
    "redis, analyses": Link(to_redis_for_analyses),
    "database": Link(to_the_database, asked=POSTGRESQL),
    "database, checks": Link(to_the_database_for_checks, asked=POSTGRESQL),
    "provider of sign-in": Link(to_a_provider),
}


@pytest.fixture(params=LINKS)
def link(request: pytest.FixtureRequest) -> Link:
    return LINKS[request.param]


@pytest.fixture
def impostor_for(tmp_path: Path, link: Link) -> Iterator[Callable[[str], tuple[Any, ...]]]:
    servers: list[Impostor] = []
    authority = Authority(tmp_path)
    own = authority.issue("client", common_name=False)

    def impostor(host: str) -> tuple[Any, ...]:
        server = Impostor(authority.issue("server", host), authority, link.asked)
        servers.append(server)
        return server, authority, own

    yield impostor
    for server in servers:
        server.close()


async def attempted(link: Link, server: Impostor, authority: Authority, own: Files) -> None:
    with suppress(Exception):  # in both cases: a verified server answers nothing
        async with asyncio.timeout(20):
            await link.attempt(server.port, authority, own)


async def test_a_server_with_the_certificate_of_another_host_receives_nothing(
    link: Link, impostor_for: Callable[[str], tuple[Any, ...]]
) -> None:
    server, authority, own = impostor_for("elsewhere.example")
    await attempted(link, server, authority, own)
    server.close()
    assert server.tried > 0
    assert server.received == b""


async def test_a_server_with_a_certificate_for_its_host_receives_what_the_client_presents(
    link: Link, impostor_for: Callable[[str], tuple[Any, ...]]
) -> None:
    server, authority, own = impostor_for(HOST)
    await attempted(link, server, authority, own)
    server.close()
    assert server.refused == 0
    assert link.sent.encode() in server.received
