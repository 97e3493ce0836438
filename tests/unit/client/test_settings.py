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


def test_unusable_settings_are_refused_by_name(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ValueError, match="must be set together"):
        BrokerClientSettings(broker_client_key_file_path="key.pem")
    settings = BrokerClientSettings(
        broker_client_tls_enabled=True, broker_client_trust_certs_file_path=missing
    )
    with pytest.raises(TlsFileError, match=r"missing\.pem"):
        settings.tls()


def test_credentials_for_brokers_are_those_of_the_settings(tmp_path: Path) -> None:
    assert BrokerClientSettings().credentials() is None
    package = "org.apache.pulsar.client.impl.auth."
    for plugin, parameters, shown in (
        ("token", "token:a.b.c", ("token", b"a.b.c")),
        (f"{package}AuthenticationToken", "a.b.c", ("token", b"a.b.c")),
        ("basic", '{"userId":"u","password":"p:q"}', ("basic", b"u:p:q")),
    ):
        settings = BrokerClientSettings(
            broker_client_authentication_plugin=plugin,
            broker_client_authentication_parameters=parameters,
        )
        credentials = settings.credentials()
        assert credentials is not None
        assert credentials(b"") == shown
        assert parameters not in repr(settings)
    by_certificate = BrokerClientSettings(
        broker_client_tls_enabled=True,
        broker_client_certificate_file_path="cert.pem",
        broker_client_key_file_path="key.pem",
        broker_client_authentication_plugin="tls",
    ).credentials()
    assert by_certificate is not None
    assert by_certificate(b"") == ("tls", b"")


def test_a_token_in_a_file_is_read_for_each_challenge(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    credentials = BrokerClientSettings(
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"file://{path}",
    ).credentials()
    assert credentials is not None
    assert credentials(b"") == ("token", b"first")
    path.write_text("second")
    assert credentials(b"") == ("token", b"second")


@pytest.mark.parametrize(
    ("plugin", "parameters"),
    [("token", ""), ("token", "token:"), ("basic", "u:hidden"), ("basic", '{"userId":"hidden"}')],
)
def test_parameters_that_cannot_be_used_are_refused_without_their_text(
    plugin: str, parameters: str
) -> None:
    with pytest.raises(ValueError, match="broker_client_authentication_parameters") as refused:
        BrokerClientSettings(
            broker_client_authentication_plugin=plugin,
            broker_client_authentication_parameters=parameters,
        )
    assert "hidden" not in str(refused.value)
