"""The connection to a Kafka cluster: its settings, and the library's configuration from them."""

from collections.abc import Mapping
from typing import Any

from engine.functions.connectors.connector_settings import Schema, text
from engine.functions.connectors.spi import ConnectorError

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
        "trustCertsFile": text(
            "Certificates", "File of the certificates that are trusted; empty: the machine's"
        ),
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


def configuration(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the library's configuration of a connection, which is logged by our logger alone."""
    options = {
        "bootstrap.servers": settings["bootstrapServers"],
        "security.protocol": settings["securityProtocol"],
        "client.id": name,
        "ssl.ca.location": settings.get("trustCertsFile"),
    }
    if settings["securityProtocol"].startswith("SASL"):
        options |= {
            "sasl.mechanism": settings["saslMechanism"],
            "sasl.username": settings.get("user"),
            "sasl.password": settings.get("password"),
        }
    return {option: value for option, value in options.items() if value is not None}


def check_reachable(client: Any, topics: list[str]) -> None:
    """Ask the cluster for its topics, blocking. Raises ConnectorError when it does not answer or lacks one."""
    kafka = library()
    try:
        known = client.list_topics(timeout=ANSWER_S).topics
    except kafka.KafkaException as error:
        raise ConnectorError(f"configs.bootstrapServers: {error.args[0].str()}") from error
    for topic in topics:
        if topic not in known:
            raise ConnectorError(f"there is no Kafka topic {topic}")
