"""Settings of the connections from Magnetar's own processes to brokers, with Pulsar's names."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from engine.base.disk.secret_files import check_secret
from engine.base.settings import count, flag, secret, text
from engine.net.tls import ClientFiles, ContextSource

_PACKAGE = "org.apache.pulsar.client.impl.auth."
PLUGINS = {
    "token": "token",
    "tls": "tls",
    "basic": "basic",
    f"{_PACKAGE}AuthenticationToken": "token",
    f"{_PACKAGE}AuthenticationTls": "tls",
    f"{_PACKAGE}AuthenticationBasic": "basic",
}
"""Methods by their own names and the names of Apache's classes."""
_PARAMETERS = "broker_client_authentication_parameters"


@lru_cache(maxsize=8)
def _reloaded(files: ClientFiles, refresh_s: float) -> ContextSource:
    return files.reloaded(refresh_s)


@dataclass(frozen=True, slots=True)
class BrokerClientSettings:
    """Settings of the client of brokers in brokers, gateways and workers."""

    broker_client_tls_enabled: bool = flag(
        False,
        "connect to brokers in TLS, at broker_service_port_tls and broker_http_port_tls "
        "(brokerClientTlsEnabled)",
    )
    broker_client_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign brokers' certificates; empty: those of the operating system "
        "(brokerClientTrustCertsFilePath)",
    )
    tls_hostname_verification_enabled: bool = flag(
        True,
        "whether a broker's certificate must be for its advertised host; Pulsar false "
        "(tlsHostnameVerificationEnabled)",
    )
    broker_client_certificate_file_path: str = text(
        "",
        "PEM file of the certificate to present to brokers, leaf first; empty: none "
        "(brokerClientCertificateFilePath)",
    )
    broker_client_key_file_path: str = text(
        "", "PEM file of its key, unencrypted (brokerClientKeyFilePath)"
    )
    broker_client_auto_cert_refresh_seconds: int = count(
        300,
        "seconds after which a new connection checks whether these files have changed; 0: each connection "
        "(brokerClient_autoCertRefreshSeconds)",
    )

    broker_client_authentication_plugin: str = text(
        "",
        "method by which to log in at brokers: token, tls, basic, or Apache's class name; empty: none "
        "(brokerClientAuthenticationPlugin)",
    )
    broker_client_authentication_parameters: str = secret(
        'token:…, file:///path of a token, or {"userId":…,"password":…} '
        "(brokerClientAuthenticationParameters)"
    )

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError."""
        self.credentials()
        if bool(self.broker_client_certificate_file_path) != bool(self.broker_client_key_file_path):
            raise ValueError(
                "broker_client_certificate_file_path and broker_client_key_file_path must be set together"
            )

    def credentials(self) -> Callable[[bytes], tuple[str, bytes]] | None:
        """Return the function that answers brokers' challenges with (method, data); None where nothing is presented.

        Raises ValueError for settings that cannot be used. A token in a file is read for each connection and each
        renewal, and the function raises OSError when it cannot be.
        """
        if not self.broker_client_authentication_plugin:
            return None
        method = PLUGINS.get(self.broker_client_authentication_plugin)
        given = self.broker_client_authentication_parameters
        if method == "token":
            return _token(given)
        if method == "basic":
            return _basic(given)
        if method == "tls":
            if not (self.broker_client_tls_enabled and self.broker_client_certificate_file_path):
                raise ValueError(
                    "broker_client_tls_enabled and broker_client_certificate_file_path must be set where "
                    "broker_client_authentication_plugin is tls"
                )
            return lambda challenge: ("tls", b"")
        raise ValueError(
            "broker_client_authentication_plugin must be token, tls or basic, or Apache's class name of one, not "
            f"{self.broker_client_authentication_plugin!r}"
        )

    def tls(self) -> ContextSource | None:
        """Return the source of contexts for connections to brokers, the same for equal settings; None when connections
        are in clear. Raises TlsFileError."""
        if not self.broker_client_tls_enabled:
            return None
        files = ClientFiles(
            self.broker_client_trust_certs_file_path,
            self.broker_client_certificate_file_path,
            self.broker_client_key_file_path,
            verify_hostname=self.tls_hostname_verification_enabled,
        )
        return _reloaded(files, self.broker_client_auto_cert_refresh_seconds)


def _token(given: str) -> Callable[[bytes], tuple[str, bytes]]:
    if given.startswith("file:"):
        path = unquote_to_bytes(urlsplit(given).path).decode()
        check_secret(path)

        def read(challenge: bytes) -> tuple[str, bytes]:
            with open(path, "rb") as file:
                return "token", file.read().strip()

        return read
    token = given.removeprefix("token:").strip()
    if not token or not token.isascii():
        raise ValueError(f"{_PARAMETERS} must be token:…, or file:///path of a token")
    return lambda challenge: ("token", token.encode())


def _basic(given: str) -> Callable[[bytes], tuple[str, bytes]]:
    try:
        fields = json.loads(given)
        user, password = fields["userId"], fields["password"]
        data = f"{user}:{password}".encode()
        if not user or ":" in user:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ValueError(f'{_PARAMETERS} must be {{"userId":…,"password":…}}') from None
    return lambda challenge: ("basic", data)
