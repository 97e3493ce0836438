"""Connectors reach real servers by TLS with certificates and passwords, and no server that they should not trust."""

import asyncio
import logging
import shutil
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engine.functions.connectors.catalogue import sink_end, source_end
from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.kafka import kafka_link
from engine.functions.connectors.spi import ConnectorError, LostEndError, Sink, Source
from engine.net.http import HttpServer, Request, Response
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from tests.support.functions.connector_host import FakeContext, Settlements
from tests.support.functions.kafka_process import KafkaLogin, kafka_is_there, running_kafka
from tests.support.functions.redis_process import redis_program, running_redis
from tests.support.net.certificates import Authority
from tests.support.net.tls_proxy import tls_before
from tests.support.ports import free_ports
from tests.support.stores.postgresql import PostgreSql, programs, running_postgresql

pytestmark = pytest.mark.slow
PASSWORD = "canary-of-the-password"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert PASSWORD not in caplog.text
    assert "PRIVATE KEY" not in caplog.text


def pem(path: str) -> str:
    return Path(path).read_text()


def as_client(authority: Authority, name: str) -> dict[str, str]:
    """Return the settings of a client's certificate: as text, and as a file."""
    issued = authority.issue(name)
    return {"clientCert": issued.cert, "clientKey": pem(issued.key)}


@asynccontextmanager
async def opened(kind: str, name: str, **settings: Any) -> AsyncIterator[Any]:
    """Yield an open connector of the catalogue."""
    end: Any = sink_end(name) if kind == "sink" else source_end(name)
    connector: Sink | Source = end.create()
    try:
        await connector.open(checked(end.settings, settings), FakeContext())
        yield connector
    finally:
        await connector.close()


async def refused(kind: str, name: str, *texts: str, **settings: Any) -> None:
    """Assert that a connector cannot be opened, for a reason with one of ``texts`` that shows no secret."""
    with pytest.raises(ConnectorError) as caught:
        async with opened(kind, name, **settings):
            pass
    message = str(caught.value)
    assert any(text.lower() in message.lower() for text in texts), message
    assert PASSWORD not in message
    assert "PRIVATE" not in message


# --- PostgreSQL ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgresql(authority: Authority) -> Iterator[PostgreSql]:
    if programs() is None:
        pytest.skip("needs initdb and postgres")
    (port,) = free_ports(1)
    with running_postgresql("wal_level=logical", f"port={port}") as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE USER app SUPERUSER REPLICATION PASSWORD '{PASSWORD}'")
        server.secure(authority.issue("postgresql", "127.0.0.1"), authority.cert)
        yield server


async def test_postgresql_is_verified_and_verifies_its_client(
    postgresql: PostgreSql, authority: Authority, stranger: Authority, no_secret_is_logged: None
) -> None:
    address = f"postgresql://app@127.0.0.1:{postgresql.port}/postgres"
    good = {
        "url": address,
        "password": PASSWORD,
        "trustCerts": pem(authority.cert),
        **as_client(authority, "app"),
    }
    seen = Settlements()
    async with opened("sink", "postgres", table="secured", **good) as sink:
        await sink.write([seen.record(1, b"x")])
    assert len(seen.acked) == 1
    for name in ("source", "source"):  # the replication connection too; again behind the first
        async with opened(name, "postgres", tables=["secured"], snapshot="never", **good):
            pass
    other = {"trustCerts": pem(stranger.cert)}
    texts = ("certificate verify failed",)
    await refused("sink", "postgres", *texts, table="secured", **{**good, **other})
    # A certificate for an address is none for a name; the name is resolved to the same address.
    by_name = {"url": address.replace("127.0.0.1", "localhost")}
    await refused("sink", "postgres", "does not match host", table="t", **{**good, **by_name})
    async with opened(
        "sink", "postgres", table="secured", **{**good, **by_name, "sslMode": "verify-ca"}
    ):
        pass
    without_certificate = {
        name: value for name, value in good.items() if not name.startswith("client")
    }
    await refused("sink", "postgres", "certificate", table="secured", **without_certificate)
    await refused("sink", "postgres", "no pg_hba.conf", table="t", **{**good, "sslMode": "disable"})
    wrong = {"password": f"not-{PASSWORD}"}
    await refused("sink", "postgres", "authentication failed", table="t", **{**good, **wrong})


# --- Redis ---------------------------------------------------------------------------------------


@pytest.mark.skipif(redis_program() is None, reason="needs redis-server")
async def test_redis_is_verified_and_verifies_its_client(
    authority: Authority, stranger: Authority, no_secret_is_logged: None
) -> None:
    with running_redis() as server:
        files = authority.issue("redis", "127.0.0.1")
        async with tls_before(str(server.socket), files, client_ca=authority.cert) as port:
            good = {
                "url": f"rediss://127.0.0.1:{port}/0",
                "trustCerts": authority.cert,
                **as_client(authority, "app"),
            }
            seen = Settlements()
            async with opened("sink", "redis", **good) as sink:
                await sink.write([seen.record(1, b"x", key="k")])
            assert len(seen.acked) == 1
            async with opened("source", "redis", stream="s", **good):
                pass
            other = {"trustCerts": stranger.cert}
            await refused("sink", "redis", "CERTIFICATE_VERIFY_FAILED", **{**good, **other})
            by_name = {"url": f"rediss://localhost:{port}/0"}
            await refused("sink", "redis", "Hostname mismatch", **{**good, **by_name})
            async with opened("sink", "redis", **{**good, **by_name, "verifyHost": False}):
                pass
            without_certificate = {
                name: value for name, value in good.items() if "client" not in name
            }
            await refused("sink", "redis", "configs.url", **without_certificate)
        plain = {**good, "url": server.url}
        await refused("sink", "redis", "configs.trustCerts: needs a URL", **plain)
        login = {"url": server.url, "user": "app", "password": PASSWORD}
        await refused("sink", "redis", "WRONGPASS", "invalid username-password", **login)


# --- Kafka ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not kafka_is_there(), reason="needs Kafka's server: see test_kafka.py")
async def test_kafka_is_verified_and_verifies_its_client(
    authority: Authority,
    stranger: Authority,
    no_secret_is_logged: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from confluent_kafka.admin import AdminClient, NewTopic

    files = authority.issue("kafka", "127.0.0.1")
    issued = authority.issue("app")
    login = KafkaLogin(files, authority.cert, "app", PASSWORD)
    with running_kafka(login) as address:
        good = {
            "bootstrapServers": address,
            "securityProtocol": "SASL_SSL",
            "user": "app",
            "password": PASSWORD,
            "trustCerts": pem(authority.cert),
            "clientCert": issued.cert,
            "clientKey": pem(issued.key),
        }
        admin = AdminClient(
            {
                **{"bootstrap.servers": address, "security.protocol": "SASL_SSL"},
                **{"sasl.mechanism": "PLAIN", "sasl.username": "app", "sasl.password": PASSWORD},
                **{"ssl.ca.location": authority.cert},
                **{"ssl.certificate.location": issued.cert, "ssl.key.location": issued.key},
            }
        )
        for made in admin.create_topics([NewTopic("t", 1, 1)]).values():
            await asyncio.to_thread(made.result, 60)
        seen = Settlements()
        async with opened("sink", "kafka", topic="t", **good) as sink:
            await sink.write([seen.record(1, b"x")])
        assert len(seen.acked) == 1
        async with opened("source", "kafka", topics=["t"], **good) as source:
            assert [record.value for record in await source.read()] == [b"x"]
        # time: a refused connection is tried again until then
        monkeypatch.setattr(kafka_link, "ANSWER_S", 4.0)
        for change, text in (
            ({"trustCerts": pem(stranger.cert)}, "certificate verify failed"),
            ({"password": f"not-{PASSWORD}"}, "authentication failed"),
        ):
            for kind, topics in (("sink", {"topic": "t"}), ("source", {"topics": ["t"]})):
                await refused(kind, "kafka", text, **topics, **{**good, **change})
        plain = {**good, "securityProtocol": "SASL_PLAINTEXT"}
        await refused("sink", "kafka", "configs.trustCerts: needs", topic="t", **plain)
        without_user = {name: value for name, value in good.items() if name != "user"}
        await refused("sink", "kafka", "configs.user", topic="t", **without_user)


# --- S3 ------------------------------------------------------------------------------------------


async def test_a_bucket_is_written_by_tls_and_its_server_verified(
    authority: Authority, stranger: Authority, no_secret_is_logged: None
) -> None:
    moto = pytest.importorskip("moto.server", reason="needs moto, a server of the S3 protocol")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    plain = f"http://{host}:{port}"
    made = urllib.request.Request(f"{plain}/secured", method="PUT")
    await asyncio.to_thread(urllib.request.urlopen, made)
    try:
        async with tls_before((host, port), authority.issue("s3", "127.0.0.1")) as secure_port:
            good = {
                "bucket": "secured",
                "endpoint": f"https://127.0.0.1:{secure_port}",
                "accessKeyId": "test",
                "secretAccessKey": PASSWORD,
                "sessionToken": PASSWORD,
                "trustCerts": pem(authority.cert),
            }
            seen = Settlements()
            async with opened("sink", "s3", maxMessages=1, **good) as sink:
                await sink.write([seen.record(1, b"x")])
            assert len(seen.acked) == 1
            other = {"trustCerts": pem(stranger.cert)}
            async with opened("sink", "s3", maxMessages=1, **{**good, **other}) as sink:
                with pytest.raises(LostEndError, match="error sending request") as caught:
                    await sink.write([seen.record(2, b"y")])
            assert PASSWORD not in str(caught.value)
    finally:
        server.stop()


# --- HTTP ----------------------------------------------------------------------------------------


@asynccontextmanager
async def https_server(
    authority: Authority, answer: Callable[[Request], Response]
) -> AsyncIterator[int]:
    """Serve requests of clients that have a certificate."""

    async def handle(request: Request) -> Response:
        return answer(request)

    files = authority.issue("receiver", "127.0.0.1")
    server = HttpServer(LoopNetwork(), handle, connections_max=10)
    context = ServerFiles(
        files.cert, files.key, client_ca=authority.cert, client_cert_required=True
    ).context()
    try:
        yield await server.listen("127.0.0.1", 0, tls=context)
    finally:
        await server.close()


async def test_requests_go_by_tls_with_a_certificate_and_a_password(
    authority: Authority, stranger: Authority, no_secret_is_logged: None
) -> None:
    received: list[str] = []

    def answer(request: Request) -> Response:
        assert request.certificate
        received.append(request.headers["authorization"])
        return Response(204)

    async with https_server(authority, answer) as port:
        good = {
            "url": f"https://127.0.0.1:{port}/in",
            "user": "app",
            "password": "open",
            "retries": 0,
            "trustCerts": pem(authority.cert),
            **as_client(authority, "app"),
        }
        seen = Settlements()
        async with opened("sink", "http", **good) as sink:
            await sink.write([seen.record(1, b"x")])
        assert received == ["Basic YXBwOm9wZW4="]
        for change in (
            {"trustCerts": stranger.cert},
            {"url": f"https://localhost:{port}/in"},
        ):
            async with opened("sink", "http", **{**good, **change}) as sink:
                with pytest.raises((HttpError, ConnectorError), match=r"(?i)certificate"):
                    await sink.write([seen.record(2, b"y")])
    assert len(seen.acked) == 1


async def test_a_webhook_is_received_by_tls_from_known_clients_alone(
    authority: Authority, stranger: Authority, no_secret_is_logged: None
) -> None:
    (port,) = free_ports(1)
    files = authority.issue("webhook", "127.0.0.1")
    settings = {
        "port": port,
        "certificate": pem(files.cert),
        "certificateKey": pem(files.key),
        "clientTrustCerts": authority.cert,
    }
    async with opened("source", "http", **settings) as source:
        ours = authority.issue("caller")
        for cert, key in ((ours.cert, ours.key), ("", ""), tuple(stranger.issue("caller"))):
            context = ClientFiles(authority.cert, cert, key).context()
            client = HttpClient(LoopNetwork(), timeout_s=10, tls=lambda context=context: context)
            post = asyncio.ensure_future(
                client.request("POST", f"https://127.0.0.1:{port}/", body=b"x")
            )
            if cert == ours.cert:
                (record,) = await source.read()
                record.ack()
                assert (await post).status == 204
            else:
                with pytest.raises(HttpError):
                    await post
            client.close()


@pytest.mark.parametrize("kind", ["sink", "source"])
async def test_certificates_that_cannot_be_used_are_named(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    shutil.rmtree(folder)
    missing = str(folder / "ca.pem")
    if kind == "sink":
        await refused(kind, "http", "configs.trustCerts", url="https://x/", trustCerts=missing)
    else:
        files = {"certificate": missing, "certificateKey": missing}
        await refused(kind, "http", "configs.certificate", port=1, **files)
