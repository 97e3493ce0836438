"""A broker's ports over real sockets: above a cap new connections are refused with Apache's answer, and counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import SET_TOPIC_POLICY, SetTopicPolicy
from engine.admin.api.topics import CREATE_TOPIC, LOOKUP, CreateTopic
from engine.admin.client import AdminClient
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.broker.service import BrokerService
from engine.metadata.memory import MemoryServer
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles
from engine.programs.broker import build_broker
from engine.settings import load
from engine.wire import pulsar_pb2 as pb
from tests.support.admin.broker_instance import TOKEN, BrokerInstance
from tests.support.net.certificates import Authority
from tests.support.ports import free_ports
from tests.support.raw_client import Wire

TEXT = "Reached the maximum number of connections"


@asynccontextmanager
async def running(folder: Path, **settings: int | str) -> AsyncIterator[BrokerService]:
    given = {"broker_port": 0, "broker_http_port": 0, **settings}
    environ = {f"MAGNETAR_{name.upper()}": str(value) for name, value in given.items()}
    store = MemoryServer().session()
    broker = build_broker(
        load({**environ, "MAGNETAR_INTERNAL_TOKEN": "tests-only-tests-only"}, folder),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        network=LoopNetwork(),
        store=store,
    )
    try:
        await broker.start()
        yield broker
    finally:
        await broker.drain()
        await store.close()


async def received_by(port: int, request: bytes = b"") -> bytes:
    """Connect, and return the bytes received until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def metrics(broker: BrokerService) -> str:
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    return (await received_by(broker.http_port, request)).decode()


async def test_a_client_above_the_cap_is_refused_as_by_apaches_broker(tmp_path: Path) -> None:
    async with running(tmp_path, broker_max_connections=1) as broker:
        _, first = await asyncio.open_connection("127.0.0.1", broker.broker_port)
        answer = pb.BaseCommand.FromString((await received_by(broker.broker_port))[8:])
        assert answer.error == pb.CommandError(
            request_id=(1 << 64) - 1, error=pb.NotAllowedError, message=TEXT
        )
        refused = 'magnetar_connections_refused_total{cluster="standalone",port="client"} 1\n'
        assert refused in await metrics(broker)
        first.close()
        while broker.running.sessions.count:
            await asyncio.sleep(0)
        reader, again = await asyncio.open_connection("127.0.0.1", broker.broker_port)
        while not broker.running.sessions.count:
            await asyncio.sleep(0)
        assert not reader.at_eof()
        again.close()


async def test_a_client_above_its_address_cap_is_refused_with_the_address(tmp_path: Path) -> None:
    async with running(tmp_path, broker_max_connections_per_ip=1) as broker:
        _, first = await asyncio.open_connection("127.0.0.1", broker.broker_port)
        answer = pb.BaseCommand.FromString((await received_by(broker.broker_port))[8:])
        assert answer.error.message == f"{TEXT} on address 127.0.0.1"
        first.close()


async def test_the_private_port_has_a_cap_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, max_http_server_connections=1) as broker:
        _, first = await asyncio.open_connection("127.0.0.1", broker.http_port)
        refusal = await received_by(broker.http_port)
        assert refusal.startswith(b"HTTP/1.1 503 ")
        assert TEXT.encode() in refusal
        first.close()
        while (page := await metrics(broker)).startswith("HTTP/1.1 503 "):
            await asyncio.sleep(0)
        assert '{cluster="standalone",port="http"}' in page
        assert '{cluster="standalone",port="http"} 0\n' not in page


async def test_one_address_leaves_room_on_the_private_port(tmp_path: Path) -> None:
    async with running(tmp_path, max_http_server_connections_per_address=1) as broker:
        _, first = await asyncio.open_connection("127.0.0.1", broker.http_port)
        assert f"{TEXT} on address 127.0.0.1".encode() in await received_by(broker.http_port)
        reader, other = await asyncio.open_connection(
            "127.0.0.1", broker.http_port, local_addr=("127.0.0.2", 0)
        )
        other.write(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        other.close()
        first.close()


async def test_without_a_cap_no_connection_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        held = [await asyncio.open_connection("127.0.0.1", broker.broker_port) for _ in range(100)]
        while broker.running.sessions.count < len(held):
            await asyncio.sleep(0)
        for _, writer in held:
            writer.close()


async def test_a_client_receives_the_addresses_of_the_listener_that_it_names_or_connects_by(
    tmp_path: Path,
) -> None:
    inner, outer, other = free_ports(3)
    advertised = f"inner:pulsar://127.0.0.1:{inner},outer:pulsar://broker.example.org:443"
    async with running(
        tmp_path,
        broker_port=inner,
        advertised_listeners=advertised,
        bind_addresses=f"outer:pulsar://127.0.0.1:{outer},inner:pulsar://127.0.0.1:{other}",
    ) as broker:
        assert broker.record.id == f"127.0.0.1:{broker.http_port}"
        assert broker.record.service_url == f"pulsar://127.0.0.1:{inner}"

        def url_for(port: int, listener: str | None = None) -> str:
            client = Wire(port).open()
            named = {} if listener is None else {"advertised_listener_name": listener}
            try:
                answer = client.ask(
                    "lookupTopic", topic="t", request_id=1, authoritative=True, **named
                )
                lookup = answer["lookupTopicResponse"]
                return str(lookup.get("brokerServiceUrl") or lookup["message"])
            finally:
                client.close()

        for port, name, url in (
            (inner, None, f"pulsar://127.0.0.1:{inner}"),
            (inner, "outer", "pulsar://broker.example.org:443"),
            (outer, None, "pulsar://broker.example.org:443"),
            (outer, "inner", f"pulsar://127.0.0.1:{inner}"),
            (other, "", f"pulsar://127.0.0.1:{inner}"),
            (outer, "moon", "the broker do not have moon listener"),
        ):
            assert await asyncio.to_thread(url_for, port, name) == url


async def test_a_drain_hands_over_every_other_bundle_when_one_fails_unexpectedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        parts = broker.running
        bundles = [f"b{i}" for i in range(3)]
        released: list[str] = []

        async def release(bundle: str, unload: object) -> None:
            if bundle == "b0":
                raise ZeroDivisionError("planted")
            for _ in range(20):  # longer than the failure lasts
                await asyncio.sleep(0)
            released.append(bundle)

        monkeypatch.setattr(parts.ownership, "owned", lambda: bundles)
        monkeypatch.setattr(parts.ownership, "release", release)
        ended: list[str] = []

        async def end(name: str) -> None:
            assert released == ["b1", "b2"]
            ended.append(name)
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(parts.upkeep, "close", partial(end, "upkeep"))
        monkeypatch.setattr(parts.ownership, "close", partial(end, "ownership"))
        await broker.drain()
        assert ended == ["upkeep", "ownership"]
        monkeypatch.undo()


async def test_a_broker_with_tls_connects_to_itself_and_is_called_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("broker", "127.0.0.1")
    instance = BrokerInstance(tmp_path)
    await instance.cluster.start("b1")
    files = {
        "broker_service_port_tls": 0,
        "broker_http_port_tls": 0,
        "tls_certificate_file_path": cert,
        "tls_key_file_path": key,
        "tls_trust_certs_file_path": authority.cert,
        "tls_require_trusted_client_cert_on_connect": True,
        "broker_client_tls_enabled": True,
        "broker_client_trust_certs_file_path": authority.cert,
        "broker_client_certificate_file_path": cert,
        "broker_client_key_file_path": key,
    }
    broker = await instance.broker(settings=files)
    tls = ClientFiles(authority.cert, cert, key).context
    admin = AdminClient(instance.cluster.store, LoopNetwork(), TOKEN, tls=tls)
    (registered,) = await admin.brokers()
    assert registered.service_url_tls == f"pulsar+ssl://127.0.0.1:{broker.broker_port_tls}"
    assert registered.rpc_url.startswith("https://127.0.0.1:")
    topic = TopicName.parse("with-a-policy")
    await admin.call(CREATE_TOPIC, CreateTopic(topic))
    # The policies' log is written and read over a connection of the broker to itself.
    await admin.call(SET_TOPIC_POLICY, SetTopicPolicy(topic, "maxConsumersPerTopic", 3))
    answer = await admin.call(LOOKUP, OnTopic(topic))
    assert answer["brokerUrlTls"] == registered.service_url_tls
    connections = broker._listener.connections
    assert connections
    assert all(connection.encrypted for connection in connections)  # type: ignore[attr-defined]
    admin.close()
    await instance.close()
