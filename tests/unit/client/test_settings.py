"""Settings of the connections to brokers: their use of TLS and its verification."""

from pathlib import Path

import pytest

from engine.client.settings import BrokerClientSettings
from engine.net.tls import TlsFileError
from tests.support.net.certificates import Authority


def test_connections_are_in_clear_unless_tls_is_enabled() -> None:
    assert BrokerClientSettings(broker_client_trust_certs_file_path="missing.pem").tls() is None


async def test_the_files_are_those_of_the_settings(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("gateway")
    settings = BrokerClientSettings(
        broker_client_tls_enabled=True,
        broker_client_trust_certs_file_path=authority.cert,
        broker_client_certificate_file_path=cert,
        broker_client_key_file_path=key,
    )
    source = settings.tls()
    assert source is not None
    assert source().check_hostname
    assert [issuer["subject"] for issuer in source().get_ca_certs()] == [
        ((("commonName", "authority"),),)
    ]


def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ValueError, match="must be set together"):
        BrokerClientSettings(broker_client_key_file_path="key.pem")
    settings = BrokerClientSettings(
        broker_client_tls_enabled=True, broker_client_trust_certs_file_path=missing
    )
    with pytest.raises(TlsFileError, match=r"missing\.pem"):
        settings.tls()
