"""A client of the cluster for one command, and the run of its work until the end, an error or Ctrl-C."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from engine.base.clock import SystemClock
from engine.base.disk.secret_files import check_secret
from engine.base.entropy import RandomEntropy
from engine.base.errors import InvalidNameError, MagnetarError
from engine.base.names import TopicName
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient, partition_names
from engine.net.network import LoopNetwork, Network
from engine.net.tls import ClientFiles, ContextSource
from engine.wire import client_commands as say
from magnetar.command.connecting.failures import failure
from magnetar.command.connecting.options import ENCRYPTED, ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

T = TypeVar("T")

VERSION = "Magnetar-Command"
CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 10.0
TOKEN_BYTES_MAX = 64 << 10


def run(work: Coroutine[Any, Any, T], connection: ClusterAddress, subject: str = "") -> T:
    """Run ``work`` and return its result. Raises CommandFailed in place of the client's errors.

    Ctrl-C cancels the work, which closes what it opened; then KeyboardInterrupt is raised.
    """
    try:
        return asyncio.run(work)
    except MagnetarError as error:
        raise failure(error, connection, subject) from error


@asynccontextmanager
async def connected(
    connection: ClusterAddress, network: Network | None = None
) -> AsyncIterator[PulsarClient]:
    """Yield a client, which is closed at the end."""
    urls = connection.urls

    async def brokers() -> Sequence[str]:
        return urls

    client = PulsarClient(
        network=network or LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=LinkSettings(
            VERSION,
            credentials=credentials(connection),
            connect_timeout_s=CONNECT_TIMEOUT_S,
            request_timeout_s=REQUEST_TIMEOUT_S,
            tls=tls(connection) if connection.url.startswith(ENCRYPTED) else None,
        ),
        operation_timeout_s=REQUEST_TIMEOUT_S,
    )
    try:
        yield client
    finally:
        await client.close()


def token(connection: ClusterAddress) -> str:
    """Return the token; an empty text without one. Raises CommandFailed for a file that cannot be used."""
    if not connection.token_file:
        return connection.token
    path = connection.token_file
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(TOKEN_BYTES_MAX).strip()
    except OSError as error:
        raise CommandFailed(
            f"cannot read the token in {path}: {error.strerror}", Exit.USAGE
        ) from None
    except ValueError:
        text = ""
    if not text or not text.isprintable():
        raise CommandFailed(f"{path} holds no token", Exit.USAGE)
    check_secret(path)
    return text


def credentials(connection: ClusterAddress) -> Callable[[bytes], tuple[str, bytes]] | None:
    """Return the function that answers brokers' challenges; None where nothing is presented. Raises CommandFailed."""
    if token(connection):  # read again for a renewal
        return lambda challenge: ("token", token(connection).encode())
    if connection.tls_cert:
        return lambda challenge: ("tls", b"")
    return None


def tls(connection: ClusterAddress) -> ContextSource:
    """Return the source of TLS contexts. Raises TlsFileError."""
    files = ClientFiles(
        connection.tls_trust_certs,
        connection.tls_cert,
        connection.tls_key,
        verify_hostname=not connection.tls_any_host,
    )
    context = files.context()
    return lambda: context


def full_name(topic: str) -> str:
    """Return the full name of a topic. Raises CommandFailed."""
    try:
        return str(TopicName.parse(topic))
    except InvalidNameError as error:
        text = " ".join(str(error).split())
        raise CommandFailed(f"TOPIC: {text}"[:500], Exit.USAGE) from None


async def partitions(client: PulsarClient, topic: str) -> list[str]:
    """Return the topics behind an existing one: itself, or its partitions. Nothing is created.

    Raises MagnetarError at the first failure, also RefusedError TopicNotFound.
    """

    def frame(link: Any, request_id: int) -> bytes:
        # An older broker would create the topic whatever the field says.
        knows = link.features.supports_get_partitioned_metadata_without_auto_creation
        return say.partitioned_metadata(
            topic, request_id, metadata_auto_creation_enabled=False if knows else None
        )

    return partition_names(topic, (await client.answer_of_any(frame)).partitions)
