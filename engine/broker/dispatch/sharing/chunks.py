"""Chunks of large messages in Shared dispatch: all chunks of a message are sent to one consumer (D6). Pure."""

from typing import Generic, TypeVar

from engine.broker.dispatch.facts import Chunk

OWNERS_MAX = 10_000
"""Largest number of incomplete messages whose consumer is remembered, for one subscription."""

T = TypeVar("T")


class ChunkOwners(Generic[T]):
    """Consumers by the message whose earlier chunks they received. Beyond OWNERS_MAX the oldest is forgotten."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, T] = {}

    def owner(self, chunk: Chunk) -> T | None:
        """Return the consumer that ``chunk`` must be sent to; None when any consumer may receive it."""
        # A first chunk starts the message again, at any consumer.
        return None if chunk.index == 0 else self._owners.get(chunk.uuid)

    def keep(self, chunk: Chunk, owner: T) -> None:
        """Bind all chunks of this message to ``owner``."""
        self._owners.pop(chunk.uuid, None)
        self._owners[chunk.uuid] = owner
        if len(self._owners) > OWNERS_MAX:
            del self._owners[next(iter(self._owners))]

    def done(self, chunk: Chunk) -> None:
        """Forget the message when ``chunk``, which was sent, is its last."""
        if chunk.index == chunk.count - 1:
            self._owners.pop(chunk.uuid, None)

    def forget(self, owner: T) -> None:
        for uuid in [uuid for uuid, held_by in self._owners.items() if held_by is owner]:
            del self._owners[uuid]

    def clear(self) -> None:
        self._owners.clear()
