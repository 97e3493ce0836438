"""What producers, consumers and command families need of the connection they live on; the session is it."""

from collections.abc import Awaitable
from typing import Protocol

from engine.base.budget import Budget


class Outlet(Protocol):
    """The connection as producers and consumers see it."""

    address: str
    publish_budget: Budget
    """Entries sent here and not confirmed yet; reading stops above its mark."""

    @property
    def client_version(self) -> str: ...

    @property
    def protocol_version(self) -> int: ...

    @property
    def takes_broker_metadata(self) -> bool:
        """Whether the client reads what brokers put before entries."""
        ...

    @property
    def partial_producers(self) -> bool:
        """Whether the client's producers of a partitioned topic may leave partitions out."""
        ...

    @property
    def can_send(self) -> bool:
        """False while the peer does not take what was sent; the session wakes dispatch when it does again."""
        ...

    def hold(self, reason: str) -> None:
        """Read nothing more from it until ``release`` of the same reason. Safe to repeat."""
        ...

    def read_little(self) -> None:
        """From now on read it in small pieces: who is stopped often has sent little then. Safe to repeat."""
        ...

    def release(self, reason: str) -> None:
        """Undo ``hold`` of that reason; reading goes on when no other is left. Safe to repeat."""
        ...

    def send(self, data: bytes) -> None:
        """Buffer frames; flushed once per wake-up. Ignored on a closed connection."""
        ...

    def send_parts(self, parts: list[bytes | memoryview]) -> None: ...

    async def is_alive(self) -> bool:
        """Whether the peer answers a PING in time; a silent one is closed. Cancel-safe."""
        ...

    def drop_consumer(self, consumer_id: int) -> None:
        """Forget the consumer and tell the client with CLOSE_CONSUMER."""
        ...

    def drop_producer(self, producer_id: int) -> None:
        """Forget the producer and tell the client with CLOSE_PRODUCER."""
        ...


class ClientConnection(Outlet, Protocol):
    """The connection as command families see it."""

    closing: bool

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` is there. ``again`` follows a refusal that may pass."""
        ...
