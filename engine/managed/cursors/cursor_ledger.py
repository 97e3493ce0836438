"""The ledger that a cursor's states are written to while it is in use, one state per entry."""

import asyncio

from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.settings import LedgerConfig


class CursorLedger:
    """Made by ``create``. One ``append`` at a time; of each it is known for sure which entry was confirmed.

    The confirmation of an append that was cancelled comes all the same, and says nothing of the next one (I38).
    """

    def __init__(self) -> None:
        self._writer: LedgerWriter
        self._entry = -1
        self._waiter: asyncio.Future[None] | None = None

    @classmethod
    async def create(
        cls, ledgers: LedgerClient, config: LedgerConfig, custom: dict[str, bytes]
    ) -> "CursorLedger":
        """A new ledger. Raises LedgerError, the store's errors; cancelled, an empty ledger may be left."""
        made = cls()
        made._writer = await ledgers.create(
            config.ensemble,
            config.write_quorum,
            config.ack_quorum,
            custom=custom,
            listener=made,
        )
        return made

    @property
    def ledger_id(self) -> int:
        return self._writer.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """As stored last."""
        return self._writer.metadata

    async def append(self, payload: bytes) -> int:
        """Id of the entry when it is durable. Raises LedgerError; cancelled, it may become durable."""
        self._entry = self._writer.append(Slice(payload, [0, len(payload)], len(payload)))
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        return self._entry

    def confirmed(self, below: int) -> None:
        """From the writer."""
        if self._waiter is not None and below > self._entry and not self._waiter.done():
            self._waiter.set_result(None)

    def failed(self, error: LedgerError) -> None:
        """From the writer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    async def close(self) -> None:
        """See ``LedgerWriter.close``."""
        await self._writer.close()

    def abandon(self, why: str) -> None:
        """Stop at once; who waits for an entry gets LedgerError."""
        error = LedgerError(why)
        self._writer.abandon(error)
        self.failed(error)
