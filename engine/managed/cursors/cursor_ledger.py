"""The ledger that a cursor's states are written to while the cursor is in use, one state per entry."""

import asyncio

from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.settings import LedgerConfig


class CursorLedger:
    """A cursor's open ledger, made by ``create``. One ``append`` at a time; each returns only when its own entry is
    confirmed.

    The confirmation of a cancelled append may still arrive; it does not confirm the next append (I38).
    """

    def __init__(self) -> None:
        self._writer: LedgerWriter
        self._entry = -1
        self._waiter: asyncio.Future[None] | None = None

    @classmethod
    async def create(
        cls, ledgers: LedgerClient, config: LedgerConfig, custom: dict[str, bytes]
    ) -> "CursorLedger":
        """Create a ledger. Raises LedgerError, the store's errors. When cancelled, an empty ledger may remain."""
        ledger = cls()
        ledger._writer = await ledgers.create(
            config.ensemble,
            config.write_quorum,
            config.ack_quorum,
            custom=custom,
            listener=ledger,
        )
        return ledger

    @property
    def ledger_id(self) -> int:
        return self._writer.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata as last stored."""
        return self._writer.metadata

    async def append(self, payload: bytes) -> int:
        """Append an entry and return its id when it is durable. Raises LedgerError. When cancelled, it may become
        durable."""
        self._entry = self._writer.append(Slice(payload, [0, len(payload)], len(payload)))
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        return self._entry

    def confirmed(self, below: int) -> None:
        """Complete the append of an entry below ``below``. Called by the writer."""
        if self._waiter is not None and below > self._entry and not self._waiter.done():
            self._waiter.set_result(None)

    def failed(self, error: LedgerError) -> None:
        """Fail the append in progress. Called by the writer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    async def close(self) -> None:
        """Close the ledger as ``LedgerWriter.close``."""
        await self._writer.close()

    def abandon(self, why: str) -> None:
        """Stop at once; an append in progress raises LedgerError."""
        error = LedgerError(why)
        self._writer.abandon(error)
        self.failed(error)
