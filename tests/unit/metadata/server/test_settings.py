"""Settings of the metadata server: defaults of ZooKeeper, and combinations that are refused."""

from typing import Any

import pytest

from engine.base.addresses import ReachSettings
from engine.base.settings import SettingsError
from engine.metadata.server.settings import MetadataProgramSettings, MetadataServerSettings


def test_session_timeouts_are_2_to_20_ticks_unless_given() -> None:
    assert MetadataServerSettings().session_timeouts_ms == (4000, 40_000)
    assert MetadataServerSettings(tick_time_ms=100).session_timeouts_ms == (200, 2000)
    given = MetadataServerSettings(session_timeout_ms_min=1, session_timeout_ms_max=90_000)
    assert given.session_timeouts_ms == (1, 90_000)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"tls_port": 2281}, "tls_port needs tls_certificate_path"),
        ({"session_timeout_ms_min": 50_000}, "session_timeout_ms_min must be at most"),
        ({"request_bytes_max": 10}, "request_bytes_max must be"),
    ],
)
def test_invalid_settings_are_refused_with_their_reason(
    values: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        MetadataServerSettings(**values)


def test_an_open_listener_needs_consent() -> None:
    server = MetadataServerSettings(host="0.0.0.0")
    with pytest.raises(SettingsError, match="without authentication only loopback is served"):
        MetadataProgramSettings(server)
    MetadataProgramSettings(server, reach=ReachSettings(True))


def test_a_listener_for_certificates_of_named_clients_alone_needs_no_consent() -> None:
    secured = {
        "host": "0.0.0.0",
        "tls_port": 2281,
        "tls_only": True,
        "tls_client_certificate_required": True,
        **dict.fromkeys(("tls_certificate_path", "tls_key_path", "tls_trust_path"), "a.pem"),
    }
    MetadataProgramSettings(MetadataServerSettings(**secured, tls_client_names="broker"))
    with pytest.raises(SettingsError, match="without authentication only loopback is served"):
        MetadataProgramSettings(MetadataServerSettings(**secured))
