"""A bookie with authorized roles: it does nothing for clients that have not shown one of them by their certificate."""

from pathlib import Path
from typing import Any

import pytest

from bookie.requests.strangers import role_of
from bookie.settings import BookieSettings
from engine.base.settings import SettingsError
from engine.net.tls import ROLES_FACTORY, TLS_FACTORY, ClientFiles
from engine.wire import bookie_commands as wire
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from tests.support.bookies import Client, Machine
from tests.support.net.certificates import Authority

ROLES = {"bookie_auth_provider_factory_class": ROLES_FACTORY, "authorized_roles": "broker,other"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def guarded(authority: Authority, **changes: Any) -> Machine:
    cert, key = authority.issue("bookie", "127.0.0.1")
    return Machine(
        tls_provider_factory_class=TLS_FACTORY,
        tls_certificate_path=cert,
        tls_key_store=key,
        tls_trust_store=authority.cert,
        **ROLES,
        **changes,
    )


async def in_tls(machine: Machine, files: ClientFiles) -> Client:
    client = await machine.client()
    answer = await client.ask(v3.start_tls_request(1))
    assert v3.parse_response(answer, 0, len(answer)).status == pb.EOK
    await client.writer.start_tls(files.context(), server_hostname="127.0.0.1")
    return client


async def status_of_v3(client: Client) -> int:
    answer = await client.ask(v3.read_lac_request(2, 1))
    return v3.parse_response(answer, 0, len(answer)).status


async def test_a_client_with_an_authorized_role_is_served(authority: Authority) -> None:
    async with guarded(authority) as machine:
        shown = authority.issue("b", unit="0:broker,admin;1:cluster")
        client = await in_tls(machine, ClientFiles(authority.cert, *shown))
        assert await client.add(1, 0, b"entry") == 0
        assert await client.read(1, 0) == b"entry"
        assert await status_of_v3(client) == pb.EOK
        await client.close()


@pytest.mark.parametrize("unit", [None, "", "0:stranger", "0:admin,broker", "1:broker", "broker"])
async def test_a_client_without_an_authorized_role_is_refused_in_both_protocols(
    authority: Authority, unit: str | None
) -> None:
    async with guarded(authority) as machine:
        shown = () if unit is None else authority.issue("a", unit=unit)
        client = await in_tls(machine, ClientFiles(authority.cert, *shown))
        assert await client.add(1, 0, b"entry") == wire.EUA
        assert await status_of_v3(client) == pb.EUA
        assert machine.bookie.serving.storage.ledgers.live == 0
        await client.close()


async def test_a_client_in_clear_is_refused(authority: Authority) -> None:
    async with guarded(authority) as machine:
        client = await machine.client()
        assert await client.add(1, 0, b"entry") == wire.EUA
        assert await status_of_v3(client) == pb.EUA
        batch = wire.batch_read_request(1, 0, 1, 1, 100)
        assert await client.ask(batch) == b""  # closed
        assert machine.bookie.serving.storage.ledgers.live == 0
        await client.close()


@pytest.mark.parametrize(
    ("unit", "role"),
    [("0:broker", "broker"), ("1:c;0: broker ,x", "broker"), ("broker", ""), ("0:", ""), ("", "")],
)
def test_the_role_is_the_first_of_value_0_of_the_organizational_unit(unit: str, role: str) -> None:
    subject = ((("commonName", "app"),), (("organizationalUnitName", unit),))
    assert role_of({"subject": subject}) == role
    assert role_of(None) == ""


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"authorized_roles": "broker"}, "bookie_auth_provider_factory_class"),
        ({"bookie_auth_provider_factory_class": ROLES_FACTORY}, "authorized_roles"),
        (ROLES, "tls_provider_factory_class"),
        ({"bookie_auth_provider_factory_class": "org.example.X"}, "must be"),
    ],
)
def test_roles_without_certificates_are_refused(values: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        BookieSettings(data_dir="/d", **values)
