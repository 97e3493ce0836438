"""Apache BookKeeper's own ledger client on our bookies in TLS, over both of its wire protocols; roles of clients, also
of our client on Apache's bookie."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.settings import LedgerSettings
from engine.net.network import LoopNetwork
from engine.net.tls import ROLES_FACTORY, TLS_FACTORY
from tests.oracle.ledgers_java import (
    NOT_ENOUGH_BOOKIES,
    UNAUTHORIZED,
    JavaError,
    JavaLedgers,
    expected,
)
from tests.oracle.servers import ApacheBookie, OurBookies, connected, make_root
from tests.support.ledger_cluster import Listener, run_of
from tests.support.net.certificates import Authority
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def bookies(
    zookeeper: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurBookies]:
    """A bookie whose clients must show a certificate when they ask for TLS."""
    cert, key = authority.issue("bookie", "127.0.0.1")
    work = tmp_path_factory.mktemp("secured-bookies")
    with OurBookies(
        work,
        f"{zookeeper}/secured",
        count=1,
        tls_provider_factory_class=TLS_FACTORY,
        tls_certificate_path=cert,
        tls_key_store=key,
        tls_trust_store=authority.cert,
        tls_client_authentication=True,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def bookies_for_brokers(
    zookeeper: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurBookies]:
    """A bookie that serves only clients with the role ``broker`` in their certificate."""
    cert, key = authority.issue("bookie", "127.0.0.1")
    with OurBookies(
        tmp_path_factory.mktemp("bookies-for-brokers"),
        f"{zookeeper}/for-brokers",
        count=1,
        tls_provider_factory_class=TLS_FACTORY,
        tls_certificate_path=cert,
        tls_key_store=key,
        tls_trust_store=authority.cert,
        tls_client_authentication=True,
        bookie_auth_provider_factory_class=ROLES_FACTORY,
        authorized_roles="broker",
    ) as made:
        yield made


def options(authority: Authority, *, trusted: str = "", unit: str = "") -> list[str]:
    cert, key = authority.issue("client", unit=unit)
    return [
        f"tlsProviderFactoryClass={TLS_FACTORY}",
        "clientTrustStoreType=PEM",
        f"clientTrustStore={trusted or authority.cert}",
        "tlsClientAuthentication=true",
        "clientKeyStoreType=PEM",
        f"tlsCertificatePath={cert}",
        f"clientKeyStore={key}",
        "tlsHostnameVerificationEnabled=true",
    ]


@pytest.mark.parametrize("protocol", ["V2", "V3"])
def test_ledgers_are_written_and_read_in_tls(
    java: JavaLedgers, bookies: OurBookies, authority: Authority, protocol: str
) -> None:
    java.run("client", "tls", bookies.uri, protocol, *options(authority))
    ledger = java.run("create", "tls", "w", 1, 1, 1, "CRC32C", "-")
    assert java.run("add", "w", 50, 3000) == "0 49"
    assert java.seen("read", "w", 0, 49) == expected(0, 49, 3000)
    seen = java.state("open", "tls", "r", ledger, "CRC32C", "-", "recover")
    assert (seen.last, seen.closed) == (49, True)


def test_a_bookie_that_is_not_trusted_is_not_written_to(
    java: JavaLedgers, bookies: OurBookies, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger").cert
    java.run("client", "tls", bookies.uri, "V2", *options(authority, trusted=stranger))
    java.run("create", "tls", "w", 1, 1, 1, "CRC32C", "-")
    with pytest.raises(JavaError) as refused:
        java.run("add", "w", 1, 100)
    assert refused.value.code == NOT_ENOUGH_BOOKIES


@pytest.mark.parametrize("protocol", ["V2", "V3"])
def test_a_bookie_with_roles_serves_a_client_that_has_one(
    java: JavaLedgers, bookies_for_brokers: OurBookies, authority: Authority, protocol: str
) -> None:
    shown = options(authority, unit="0:broker;other")
    java.run("client", "role", bookies_for_brokers.uri, protocol, *shown)
    java.run("create", "role", "w", 1, 1, 1, "CRC32C", "-")
    assert java.run("add", "w", 20, 3000) == "0 19"
    assert java.seen("read", "w", 0, 19) == expected(0, 19, 3000)


@pytest.mark.parametrize("unit", ["", "0:application", "1:broker"])
def test_a_bookie_with_roles_serves_no_other_client(
    java: JavaLedgers, bookies_for_brokers: OurBookies, authority: Authority, unit: str
) -> None:
    java.run("client", "other", bookies_for_brokers.uri, "V3", *options(authority, unit=unit))
    java.run("create", "other", "w", 1, 1, 1, "CRC32C", "-")
    with pytest.raises(JavaError) as refused:
        java.run("add", "w", 1, 100)
    assert refused.value.code in (NOT_ENOUGH_BOOKIES, UNAUTHORIZED)


@pytest.fixture(scope="module")
def apache_bookie_for_brokers(
    zookeeper: str, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Start an Apache bookie that serves only clients with the role ``broker``; return the place of its metadata."""
    cert, key = authority.issue("bookie", "127.0.0.1")
    zk = f"{zookeeper}/apache-for-brokers"
    (port,) = free_ports(1)
    bookie = ApacheBookie(
        tmp_path_factory.mktemp("apache-for-brokers"),
        "bookie",
        zk,
        port,
        tlsProviderFactoryClass=TLS_FACTORY,
        tlsKeyStoreType="PEM",
        tlsKeyStore=key,
        tlsCertificatePath=cert,
        tlsTrustStoreType="PEM",
        tlsTrustStore=authority.cert,
        tlsClientAuthentication="true",
        bookieAuthProviderFactoryClass=ROLES_FACTORY,
        authorizedRoles="broker",
    )
    asyncio.run(make_root(zk))
    try:
        bookie.start()
        yield zk
    finally:
        bookie.stop()


@pytest.mark.parametrize(("unit", "is_served"), [("0:broker", True), ("0:application", False)])
async def test_apaches_bookie_with_roles_serves_our_client_by_its_role(
    apache_bookie_for_brokers: str, authority: Authority, unit: str, is_served: bool
) -> None:
    cert, key = authority.issue("broker", unit=unit)
    store = await connected(apache_bookie_for_brokers)
    client = LedgerClient(
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=LedgerSettings(
            bookie_tls_provider=TLS_FACTORY,
            bookkeeper_tls_trust_certs_file_path=authority.cert,
            bookkeeper_tls_client_authentication=True,
            bookkeeper_tls_certificate_file_path=cert,
            bookkeeper_tls_key_file_path=key,
        ),
    )
    try:
        listener = Listener()
        writer = await client.create(1, 1, 1, b"", {}, listener)
        writer.append(run_of(b"a", b"b"))
        if is_served:
            await listener.reach(2)
            await writer.close()
        else:
            assert isinstance(await listener.fail(), LedgerError)
    finally:
        await client.close()
        await store.close()
