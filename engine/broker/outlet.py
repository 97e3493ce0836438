"""Interface of a connection for its producers, consumers and command families; ``Session`` implements it."""

from collections.abc import Awaitable
from typing import Protocol

from engine.auth.identity import Identity
from engine.base.budget import Budget


class Outlet(Protocol):
    """The parts of a connection that producers and consumers use."""

    address: str
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

    def drop_consumer(self, consumer_id: int) -> None:
        """Forget the consumer and send CLOSE_CONSUMER to the client."""
        ...

    def drop_producer(self, producer_id: int) -> None:
        """Forget the producer and send CLOSE_PRODUCER to the client."""
        ...


class ClientConnection(Outlet, Protocol):
    """The parts of a connection that command families use."""

    closing: bool

    def close(self, error: Exception | None = None) -> None:
        """End the connection behind what is queued."""
        ...

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` is done. ``again`` is sent after a refusal that can be retried."""
        ...
