"""The client of brokers that a task publishes with: addresses, credentials and TLS, by files."""

from pathlib import Path
from urllib.parse import quote

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.settings import BrokerClientSettings
from engine.net.network import LoopNetwork
from engine.net.tls import TlsFileError
from spark_jobs.pulsar_sink.options import SinkOptions
from spark_jobs.pulsar_source.options import OptionError


def connected(options: SinkOptions) -> PulsarClient:
    """Return a client, which connects when it is used. Raises OptionError for files that cannot be used."""
    parameters = _parameters(options)
    try:
        settings = BrokerClientSettings(
            broker_client_tls_enabled=options.encrypted,
            broker_client_trust_certs_file_path=options.trust_file,
            tls_hostname_verification_enabled=options.verify_hostname,
            broker_client_certificate_file_path=options.certificate_file,
            broker_client_key_file_path=options.key_file,
            broker_client_authentication_plugin=options.method,
            broker_client_authentication_parameters=parameters,
        )
        links = LinkSettings("Magnetar Spark", settings.credentials(), tls=settings.tls())
    except ValueError as error:
        # Its text may name a setting of brokers, and must not repeat what the file holds.
        raise OptionError(
            f"options authentication.… and tls.… cannot be used for method {options.method or 'none'}: a file for basic"
            ' holds {"userId":…,"password":…}, and method tls needs pulsar+ssl:// and tls.certificateFile'
        ) from error
    except TlsFileError as error:
        raise OptionError(f"options tls.…: {error}") from error

    async def brokers() -> tuple[str, ...]:
        return options.brokers

    return PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=links,
    )


def _parameters(options: SinkOptions) -> str:
    """Return the credentials' parameters: a token's file, which is read again for each connection, or the user and
    password that a file holds."""
    path = options.credentials_file
    if options.method not in ("token", "basic"):
        return ""
    try:
        content = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise OptionError(f"option authentication.file: cannot read {path}: {reason}") from error
    return content if options.method == "basic" else f"file://{quote(str(Path(path).absolute()))}"
