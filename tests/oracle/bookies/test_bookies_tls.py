"""Apache BookKeeper's own ledger client on our bookies in TLS, over both of its wire protocols."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.settings import TLS_FACTORY
from tests.oracle.ledgers_java import NOT_ENOUGH_BOOKIES, JavaError, JavaLedgers, expected
from tests.oracle.servers import OurBookies
from tests.support.net.certificates import Authority

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


def options(authority: Authority, *, trusted: str = "") -> list[str]:
    cert, key = authority.issue("client")
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
