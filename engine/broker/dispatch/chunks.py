"""Chunks of large messages in Shared dispatch: all pieces of one message belong to one consumer (D6). Pure."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.base.slices import View
from engine.broker.dispatch.delayed import metadata_may_hold
from engine.wire.batches import read_metadata

UUID_TAG = b"\xd2\x01"
"""MessageMetadata.uuid, field 26: only chunks carry it."""
OWNERS_MAX = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece: ``index`` of ``count`` of the message ``uuid``."""

    uuid: str
    index: int
    count: int


def may_hold_chunk(view: View) -> bool:
    """A search over the bytes of ``view``. They may hold the tag by chance; ``read_chunk`` decides."""
    return metadata_may_hold(view, UUID_TAG)


def read_chunk(entry: bytes) -> Chunk | None:
    """The chunk an entry is; None for any other entry, unreadable ones included."""
    if UUID_TAG not in entry:
        return None
    metadata = read_metadata(entry)
    if metadata is None or metadata.num_chunks_from_msg <= 1 or not metadata.uuid:
        return None
    return Chunk(metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg)


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
