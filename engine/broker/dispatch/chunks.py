"""Chunks of large messages in Shared dispatch: all pieces of one message belong to one consumer (D6). Pure."""

from typing import Generic, TypeVar

from engine.broker.dispatch.facts import Chunk

OWNERS_MAX = 10_000

T = TypeVar("T")


class ChunkOwners(Generic[T]):
    """Which consumer got the earlier chunks of a message; at most OWNERS_MAX, then the oldest is forgotten."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, T] = {}

    def owner(self, chunk: Chunk) -> T | None:
        """Whom ``chunk`` must go to; None when it may go to anyone (a first chunk starts afresh)."""
        return None if chunk.index == 0 else self._owners.get(chunk.uuid)

    def keep(self, chunk: Chunk, owner: T) -> None:
        """``owner`` gets all chunks of this message."""
        self._owners.pop(chunk.uuid, None)
        self._owners[chunk.uuid] = owner
        if len(self._owners) > OWNERS_MAX:
            del self._owners[next(iter(self._owners))]

    def done(self, chunk: Chunk) -> None:
        """``chunk`` was sent; after the last one nothing needs to be known any more."""
        if chunk.index == chunk.count - 1:
            self._owners.pop(chunk.uuid, None)

    def forget(self, owner: T) -> None:
        for uuid in [uuid for uuid, held_by in self._owners.items() if held_by is owner]:
            del self._owners[uuid]

    def clear(self) -> None:
        self._owners.clear()
