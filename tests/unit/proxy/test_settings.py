"""Settings of the proxy are checked at its start."""

from pathlib import Path
from typing import Any

import pytest

from engine.base.settings import SettingsError
from engine.programs.proxy import load

TOKENS = {
    "MAGNETAR_AUTHENTICATION_ENABLED": "true",
    "MAGNETAR_AUTHENTICATION_PROVIDERS": "token",
    "MAGNETAR_TOKEN_SECRET_KEY": "A" * 44,
}


def loaded(tmp_path: Path, **variables: str) -> Any:
    return load({f"MAGNETAR_{name}": text for name, text in variables.items()}, tmp_path)


def test_the_proxy_listens_on_loopback_for_pulsars_port(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    assert (settings.proxy.bind_address, settings.proxy.service_port) == ("127.0.0.1", 6650)
    assert settings.proxy.authenticate_metrics_endpoint
    assert settings.listed_brokers == []


def test_a_list_of_brokers_may_state_the_scheme_once(tmp_path: Path) -> None:
    settings = loaded(tmp_path, PROXY_BROKER_SERVICE_URL="pulsar://a:6650, b:6650")
    assert settings.listed_brokers == ["pulsar://a:6650", "pulsar://b:6650"]


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"PROXY_BIND_ADDRESS": "0.0.0.0"}, "bind_address '0.0.0.0' is not loopback"),
        ({"PROXY_SERVICE_PORT_TLS": "6651"}, "tls_certificate_file_path must name a file"),
        ({"PROXY_BROKER_SERVICE_URL": "http://a:80"}, "broker_service_url: 'http://a:80'"),
        ({"PROXY_BROKER_SERVICE_URL": "pulsar+ssl://a:1"}, "broker_service_url: "),
        ({"PROXY_BROKER_SERVICE_URL": "a"}, "broker_service_url: 'pulsar://a'"),
        ({"PROXY_BROKER_SERVICE_URL_TLS": "a:6651"}, "broker_service_url must be set where"),
        (
            {"PROXY_BROKER_SERVICE_URL": "a:6650", "BROKER_CLIENT_TLS_ENABLED": "true"},
            "broker_service_url_tls must be set where",
        ),
        (
            {"PROXY_FORWARD_AUTHORIZATION_CREDENTIALS": "true"},
            "authentication_enabled must be true where forward_authorization_credentials is",
        ),
        ({"AUTHORIZATION_ENABLED": "true"}, "authentication_enabled must be true"),
        ({"PROXY_SERVICE_PROT": "1"}, "did you mean MAGNETAR_PROXY_SERVICE_PORT?"),
        ({"PROXY_MAX_CONCURRENT_LOOKUP_REQUESTS": "0"}, "must be a whole number from 1"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    variables: dict[str, str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, **variables)
    assert reason in str(refused.value)


def test_other_addresses_are_served_with_authentication(tmp_path: Path) -> None:
    settings = load({**TOKENS, "MAGNETAR_PROXY_BIND_ADDRESS": "0.0.0.0"}, tmp_path)
    assert not settings.identity.general.authenticate_original_auth_data
