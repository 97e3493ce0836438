"""Settings of the connections from Magnetar's own processes to brokers, with Pulsar's names."""

from dataclasses import dataclass
from functools import lru_cache

from engine.base.settings import count, flag, text
from engine.net.tls import ClientFiles, ContextSource


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

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError."""
        if bool(self.broker_client_certificate_file_path) != bool(self.broker_client_key_file_path):
            raise ValueError(
                "broker_client_certificate_file_path and broker_client_key_file_path must be set together"
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
