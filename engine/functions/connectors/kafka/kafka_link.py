"""The connection to a Kafka cluster: its settings, and the library's configuration from them."""

from collections.abc import Mapping
from typing import Any

from engine.functions.connectors.connector_settings import Schema, text
from engine.functions.connectors.spi import ConnectorError
from engine.functions.connectors.tls_settings import (
    CERT,
    KEY,
    TRUST,
    VERIFY_HOST,
    PemFiles,
    client_tls_fields,
    verify_host_field,
)

PLAIN, TLS, SASL_PLAIN, SASL_TLS = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
ANSWER_S = 30.0


def cluster_fields() -> dict[str, Schema]:
    """Return the settings of a connection."""
    return {
        "bootstrapServers": text("Servers", "HOST:PORT of some brokers, separated by commas"),
        "securityProtocol": text(
            "Security",
            "Protocol of the brokers' listener",
            PLAIN,
            choices=(PLAIN, TLS, SASL_PLAIN, SASL_TLS),
        ),
        "saslMechanism": text(
            "SASL mechanism",
            "How the user signs in",
            "PLAIN",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        ),
        "user": text("User", "User for SASL"),
        "password": text("Password", "Password for SASL", secret=True),
        **client_tls_fields(),
        **verify_host_field(),
    }


def library() -> Any:
    """Import the library. Raises ConnectorError."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise ConnectorError(
            "the package confluent-kafka is not installed: pip install 'magnetar[connectors]'"
        ) from error
    return confluent_kafka


class KafkaReasons:
    """The last error that the library reported of its connections: a failed call only says that there was no answer."""

    def __init__(self) -> None:
        self._last = ""

    def note(self, error: Any) -> None:
        """Keep an error; the library's callback."""
        # That no broker is left follows from the errors before, which have the reason.
        if error.name() != "_ALL_BROKERS_DOWN":
            self._last = error.str()

    def with_reason(self, text: str) -> str:
        """Return ``text`` with the last error."""
        return f"{text}: {self._last}" if self._last else text


def configuration(
    settings: Mapping[str, Any], name: str, files: PemFiles, reasons: KafkaReasons
) -> dict[str, Any]:
    """Return the library's configuration of a connection. The files are needed until a client is made of it. Raises
    ConnectorError that names the setting."""
    security = settings["securityProtocol"]
    options = {
        "bootstrap.servers": settings["bootstrapServers"],
        "security.protocol": security,
        "client.id": name,
        "error_cb": reasons.note,
    }
    if security.endswith("SSL"):
        files.client_context()  # names the setting that is wrong, which the library does not
        names = {
            TRUST: "ssl.ca.location",
            CERT: "ssl.certificate.location",
            KEY: "ssl.key.location",
        }
        options |= {names[name]: path for name, path in files.paths.items()}
        verification = "https" if settings[VERIFY_HOST] else "none"
        options["ssl.endpoint.identification.algorithm"] = verification
    else:
        for setting in files.paths:
            raise ConnectorError(f"configs.{setting}: needs securityProtocol SSL or SASL_SSL")
    if security.startswith("SASL"):
        for setting in ("user", "password"):
            if not settings.get(setting):
                raise ConnectorError(f"configs.{setting}: {security} needs it")
        options |= {
            "sasl.mechanism": settings["saslMechanism"],
            "sasl.username": settings["user"],
            "sasl.password": settings["password"],
        }
    return options


def check_reachable(client: Any, topics: list[str], reasons: KafkaReasons) -> None:
    """Ask the cluster for its topics, blocking. Raises ConnectorError when it does not answer or lacks one."""
    kafka = library()
    try:
        known = client.list_topics(timeout=ANSWER_S).topics
    except kafka.KafkaException as error:
        client.poll(0)  # which calls back with the reasons
        text = reasons.with_reason(error.args[0].str())
        raise ConnectorError(f"configs.bootstrapServers: {text}") from error
    for topic in topics:
        if topic not in known:
            raise ConnectorError(f"there is no Kafka topic {topic}")
