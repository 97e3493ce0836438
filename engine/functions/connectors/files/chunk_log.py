"""Chunks of a source that reads named things piece by piece.

Each chunk is noted in the function's state before its records go out. After a restart the same records are read again
with the same sequences, so that a topic which deduplicates drops those that it has.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from engine.functions.connectors.spi import ConnectorContext, Record

PENDING_MAX = 16
"""Chunks under way at most."""


@dataclass(slots=True, eq=False)
class SourceChunk:
    """The part of ``name`` from ``start`` to ``stop``: ``records`` records, of which the first has ``first``."""

    name: str
    start: int
    stop: int
    first: int
    records: int
    unacked: int = 0


class ChunkLog:
    """The chunks of one instance, in the state of its function. ``partition`` is that of all its records."""

    def __init__(self, kind: str, context: ConnectorContext) -> None:
        self._context = context
        self._kind = kind
        self._key = f"{kind}-{context.instance}"
        self.partition = self._key
        self._next = 1
        self._pending: list[SourceChunk] = []
        self._offsets: dict[str, int] = {}

    async def load(self) -> list[SourceChunk]:
        """Read the state; return the chunks that are to be read again, in order."""
        stored = await self._context.get_state(self._key)
        if stored:
            document = json.loads(stored)
            self._next = document["next"]
            self._pending = [SourceChunk(*row) for row in document["pending"]]
        for chunk in self._pending:
            chunk.unacked = chunk.records
        return list(self._pending)

    @property
    def full(self) -> bool:
        """True while no further chunk may begin before one is acknowledged."""
        return sum(1 for chunk in self._pending if chunk.unacked) >= PENDING_MAX

    async def offset(self, name: str) -> int:
        """Return the start of the next chunk of ``name``."""
        offset = self._offsets.get(name)
        if offset is None:
            stored = await self._context.get_state(self._offset_key(name))
            stops = [chunk.stop for chunk in self._pending if chunk.name == name]
            offset = self._offsets[name] = max([int(stored) if stored else 0, *stops])
        return offset

    async def begin(self, name: str, start: int, stop: int, records: int) -> SourceChunk:
        """Note a chunk; its records may go out when this returns."""
        await self.commit()
        chunk = SourceChunk(name, start, stop, self._next, records, unacked=records)
        self._next += records
        self._pending.append(chunk)
        self._offsets[name] = stop
        await self._store()
        return chunk

    def records(self, chunk: SourceChunk, values: Sequence[bytes]) -> list[Record]:
        """Return the records of a chunk, which have its name as key."""

        def settled(record: Record, error: BaseException | None) -> None:
            if error is None:
                chunk.unacked -= 1

        return [
            Record(
                value,
                key=printable(chunk.name),
                partition=self.partition,
                sequence=chunk.first + number,
                on_settled=settled,
            )
            for number, value in enumerate(values)
        ]

    async def commit(self) -> None:
        """Store how far names are acknowledged. A chunk that is not acknowledged stays among those to be read again,
        also when a later one of its name is."""
        done = [chunk for chunk in self._pending if not chunk.unacked]
        if not done:
            return
        # The offsets must be durable before the chunks leave the state.
        for name, stop in {chunk.name: chunk.stop for chunk in done}.items():
            await self._context.put_state(self._offset_key(name), b"%d" % stop)
        self._pending = [chunk for chunk in self._pending if chunk not in done]
        await self._store()

    async def _store(self) -> None:
        rows = [[c.name, c.start, c.stop, c.first, c.records] for c in self._pending]
        document = json.dumps({"next": self._next, "pending": rows})
        await self._context.put_state(self._key, document.encode())

    async def forget(self, name: str) -> None:
        """Have a new thing of this name read from its start: the one that was read is gone."""
        self._offsets.pop(name, None)
        await self._context.put_state(self._offset_key(name), b"0")

    def _offset_key(self, name: str) -> str:
        return f"{self._kind}/{printable(name)}"


def printable(name: str) -> str:
    """Return a name as text: bytes of a file's name that are no UTF-8 as ``\\xNN``."""
    return os.fsencode(name).decode(errors="backslashreplace") if not name.isascii() else name
