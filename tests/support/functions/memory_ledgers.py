"""Ledgers in memory, as far as packages use them."""

import asyncio

from engine.base.slices import Slice
from engine.ledger.errors import NoSuchLedgerError
from engine.ledger.writing.writer import WriterListener


class _Written:
    """A ledger that is written and read; what is appended is durable at once."""

    def __init__(self, ledger_id: int, listener: WriterListener) -> None:
        self.ledger_id = ledger_id
        self.entries: list[Slice] = []
        self._listener = listener

    def append(self, run: Slice) -> int:
        self.entries.append(run)
        asyncio.get_running_loop().call_soon(self._listener.confirmed, len(self.entries))
        return len(self.entries) - 1

    async def close(self) -> None:
        return None

    def abandon(self, error: Exception) -> None:
        self.entries.clear()

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        return self.entries[first : last + 1]


class MemoryLedgers:
    """The ledger client's part that packages use. ``ledgers``: those that exist, by id."""

    def __init__(self) -> None:
        self.ledgers: dict[int, _Written] = {}
        self._last = 0

    async def create(
        self, *_quorums: int, custom: dict[str, bytes], listener: WriterListener
    ) -> _Written:
        self._last += 1
        self.ledgers[self._last] = _Written(self._last, listener)
        return self.ledgers[self._last]

    async def open(self, ledger_id: int, *, recover: bool) -> _Written:
        if ledger_id not in self.ledgers:
            raise NoSuchLedgerError(f"ledger {ledger_id}")
        return self.ledgers[ledger_id]

    async def delete(self, ledger_id: int) -> None:
        self.ledgers.pop(ledger_id, None)
