"""Interface of a connection for its producers, consumers and command families; ``Session`` implements it."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from engine.auth.identity import Identity
from engine.base.budget import Budget
from engine.ownership.owner import OwnerRecord

NEXT_BROKER_VERSION = 20
"""First protocol version whose clients may know the address of the next broker: C++ announces 20. Others ignore it."""

MIGRATION_VERSION = 20
"""First protocol version whose clients know TOPIC_MIGRATED."""


class Outlet(Protocol):
    """The parts of a connection that producers and consumers use."""

    address: str
    listener: str
    """Name of the broker's listener that the client uses; empty when it came in by an address of none."""
    publish_budget: Budget
    """Budget of entries received and not confirmed yet; above its mark the connection is not read."""

    @property
    def identity(self) -> Identity:
        """The identity of the client, which may be replaced by one of the same roles that expires later."""
        ...

    @property
    def client_version(self) -> str: ...

    @property
    def protocol_version(self) -> int: ...

    @property
    def takes_broker_metadata(self) -> bool:
        """True when the client reads the metadata that brokers add to entries."""
        ...

    @property
    def partial_producers(self) -> bool:
        """True when the client's producers of a partitioned topic may leave partitions out."""
        ...

    @property
    def replicates_by_source(self) -> bool:
        """True when the client is a broker whose replicators understand receipts that name positions of the origin."""
        ...

    @property
    def can_send(self) -> bool:
        """False while the peer does not read; the session wakes dispatch when it does again."""
        ...

    def hold(self, reason: str) -> None:
        """Stop reading the connection until ``release`` is called with the same reason. Safe to repeat."""
        ...

    def limit_reads(self) -> None:
        """Read the connection in small pieces from now on, so that little is received before a stop. Safe to repeat."""
        ...

    def release(self, reason: str) -> None:
        """Undo ``hold`` of the reason; reading resumes when no other reason remains. Safe to repeat."""
        ...

    def send(self, data: bytes) -> None:
        """Buffer frames; flushed once per wake-up. Ignored on a closed connection."""
        ...

    def send_parts(self, parts: list[bytes | memoryview]) -> None: ...

    async def is_alive(self) -> bool:
        """Return whether the peer answers a PING in time; the connection is closed when not. Cancel-safe."""
        ...

    def drop_consumer(self, consumer_id: int, moved: "Moved | None" = None) -> None:
        """Forget the consumer and send CLOSE_CONSUMER to the client; see ``Moved``."""
        ...

    def drop_producer(self, producer_id: int, moved: "Moved | None" = None) -> None:
        """Forget the producer and send CLOSE_PRODUCER to the client; see ``Moved``."""
        ...


class Moved(NamedTuple):
    """A late close of ``client``, the producer or consumer that was detached when its topic was closed.

    It is not sent when ``client`` was closed by its owner meanwhile, or replaced by another of the same id.
    ``next_owner`` is where it attaches again without a lookup; None: it looks the topic up.
    """

    client: object
    next_owner: OwnerRecord | None


class WithheldCloses:
    """The closes of clients whose topics are being moved, which are sent when it is known who serves the topics next.

    A client that is notified before attaches in vain, and tries again after growing pauses.
    """

    def __init__(self) -> None:
        self._closes: list[Callable[[OwnerRecord | None], None]] = []

    def add(self, close: Callable[[OwnerRecord | None], None]) -> None:
        """Withhold ``close``, which sends the command."""
        self._closes.append(close)

    def send(self, next_owner: OwnerRecord | None = None) -> None:
        """Send what is withheld; a second call sends only what was added since."""
        closes, self._closes = self._closes, []
        for close in closes:
            close(next_owner)


class ClientConnection(Outlet, Protocol):
    """The parts of a connection that command families use."""

    closing: bool

    def close(self, error: Exception | None = None) -> None:
        """End the connection behind what is queued."""
        ...

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` is done. ``again`` is sent after a refusal that can be retried."""
        ...

    def awaits(self) -> None:
        """Count a request as waiting, which ``answered`` answers later; without a task, for frequent requests."""
        ...

    def answered(self, reply: bytes) -> None:
        """Answer a request that ``awaits`` has counted; ``reply`` is empty when it is answered otherwise or not."""
        ...


def next_addresses(client: Outlet, moved: Moved | None) -> tuple[str | None, str | None]:
    """Return the URL and the TLS URL for the close of a producer or consumer; None for what its client does not get."""
    owner = None if moved is None else moved.next_owner
    if owner is None or client.protocol_version < NEXT_BROKER_VERSION:
        return None, None
    if owner.listeners and not client.listener:
        return None, None  # the client may have named a listener in its lookup, and repeats that
    urls = owner.urls_of(client.listener)
    if urls is None:
        return None, None
    return urls.service_url or None, urls.service_url_tls or None
