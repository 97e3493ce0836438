"""A bookie with a certificate: clients continue in TLS on request, on the port for clear connections."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from engine.metadata import paths
from engine.metadata.records import BookieRegistration
from engine.net.tls import TLS_FACTORY, ClientFiles, TlsFileError
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from tests.support.bookies import Client, Machine, add, code
from tests.support.net.certificates import Authority
from tests.support.waiting import until

NO_TLS = b"\0\0\0\x0b\x0a\x06\x08\x03\x10\x09\x18\x01\x10\x94\x03"
GRANTED = b"\0\0\0\x0e\x0a\x06\x08\x03\x10\x09\x18\x01\x10\x00\xa2\x06\x00"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def secured(authority: Authority, **changes: Any) -> Machine:
    cert, key = authority.issue("bookie", "127.0.0.1")
    return Machine(
        tls_provider_factory_class=TLS_FACTORY,
        tls_certificate_path=cert,
        tls_key_store=key,
        tls_trust_store=authority.cert,
        **changes,
    )


async def start_tls(client: Client, context: ssl.SSLContext) -> None:
    answer = v3.parse_response(await client.ask(v3.start_tls_request(1)), 0, len(GRANTED))
    assert (answer.header.operation, answer.header.txnId) == (pb.START_TLS, 1)
    assert answer.status == pb.EOK
    assert answer.HasField("startTLSResponse")
    await client.writer.start_tls(context, server_hostname="127.0.0.1")


async def test_requests_of_both_protocols_are_served_in_tls(authority: Authority) -> None:
    async with secured(authority) as machine:
        client, clear = await machine.client(), await machine.client()
        await start_tls(client, ClientFiles(authority.cert).context())
        assert await client.add(1, 0, b"secret") == 0
        assert await client.read(1, 0) == b"secret"
        answer = await client.ask(v3.read_lac_request(2, 1))
        assert v3.parse_response(answer, 0, len(answer)).status == pb.EOK
        assert await clear.read(1, 0) == b"secret"
        encrypted = [served.encrypted for served in machine.bookie._listener.connections]  # type: ignore[attr-defined]
        assert encrypted == [True, False]
        await client.close()
        await clear.close()


async def test_answers_to_earlier_requests_follow_in_tls(authority: Authority) -> None:
    async with secured(authority) as machine:
        client = await machine.client()
        client.writer.write(b"".join(add(1, i, b"x" * 1000) for i in range(50)))
        await start_tls(client, ClientFiles(authority.cert).context())
        assert [code(await client.answer()) for _ in range(50)] == [0] * 50
        await client.close()


async def test_bytes_in_clear_behind_start_tls_end_the_connection(authority: Authority) -> None:
    async with secured(authority) as machine:
        for injected in (add(1, 0, b"injected"), v3.start_tls_request(2), b"\0"):
            client = await machine.client()
            await client.ask(v3.start_tls_request(1) + injected)
            assert await client.answer() == b""
            await client.close()
        await until(lambda: machine.bookie.metrics.malformed == 3)
        client = await machine.client()
        assert await client.read(1, 0) != b"injected"
        await client.close()


async def test_tls_is_granted_once(authority: Authority) -> None:
    async with secured(authority) as machine:
        client = await machine.client()
        await start_tls(client, ClientFiles(authority.cert).context())
        assert await client.ask(v3.start_tls_request(1)) == NO_TLS
        assert await client.add(1, 0, b"secret") == 0
        await client.close()


async def test_a_bookie_without_a_certificate_refuses_and_continues() -> None:
    async with Machine() as machine:
        client = await machine.client()
        assert await client.ask(v3.start_tls_request(1)) == NO_TLS
        assert await client.add(1, 0, b"clear") == 0
        await client.close()


@pytest.mark.parametrize("required", [False, True])
async def test_a_clients_certificate_is_required_or_optional(
    authority: Authority, required: bool
) -> None:
    async with secured(authority, tls_client_authentication=required) as machine:
        known = ClientFiles(authority.cert, **authority.issue("client")._asdict())
        for files, is_served in ((known, True), (ClientFiles(authority.cert), not required)):
            client = await machine.client()
            await start_tls(client, files.context())
            if is_served:
                assert await client.add(1, 0, b"secret") == 0
            else:
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    await client.reader.readexactly(1)
            client.writer.close()
        await until(lambda: not machine.bookie._listener.connections)


async def test_a_bookie_registers_that_it_grants_tls(authority: Authority) -> None:
    for machine, extensions in ((secured(authority), ["tls"]), (Machine(), [])):
        async with machine:
            value, _ = await machine.store.get(paths.available_bookie("bookie-1:3181"))
            (endpoint,) = BookieRegistration.decode(value).endpoints
            assert endpoint.extensions == extensions


async def test_a_bookie_whose_certificate_cannot_be_used_does_not_start(
    authority: Authority,
) -> None:
    machine = secured(authority)
    machine.changes["tls_key_store"] = authority.issue("other").key
    with pytest.raises(TlsFileError, match=r"other\.key\.pem cannot be used"):
        await machine.__aenter__()
