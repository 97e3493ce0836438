"""What producers and consumers need of the connection they live on; the session is it."""

from typing import Protocol


class Outlet(Protocol):
    """The connection as producers and consumers see it."""

    client_version: str
    address: str
    protocol_version: int

    @property
    def can_send(self) -> bool:
        """False while the peer does not take what was sent; the session wakes dispatch when it does again."""
        ...

    def send(self, data: bytes) -> None:
        """Buffer frames; flushed once per wake-up. Ignored on a closed connection."""
        ...

    def send_parts(self, parts: list[bytes | memoryview]) -> None: ...

    def publish_started(self, size: int) -> None:
        """``size`` more bytes wait to be confirmed; reading stops above the bounds."""
        ...

    def publish_ended(self, size: int) -> None:
        """``size`` bytes of those were confirmed or given up."""
        ...

    async def is_alive(self) -> bool:
        """Whether the peer answers a PING in time; a silent one is closed. Cancel-safe."""
        ...

    def drop_consumer(self, consumer_id: int) -> None:
        """Forget the consumer and tell the client with CLOSE_CONSUMER."""
        ...

    def drop_producer(self, producer_id: int) -> None:
        """Forget the producer and tell the client with CLOSE_PRODUCER."""
        ...
