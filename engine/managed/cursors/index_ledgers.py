"""The ledgers in which a cursor's index of delayed entries is stored. The caller defines their content.

A ledger is written once, completely. Until all of it is durable, the cursor's node names it as one to be deleted, so
that the next owner after a crash deletes an incomplete one (M17).
"""

from collections.abc import AsyncIterable, Mapping

from engine.ledger.client import LedgerClient
from engine.ledger.reading.reader import LedgerReader
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.cursors.persister import Persister
from engine.managed.settings import LedgerConfig
from engine.managed.state import LogState
from engine.managed.writing.rolling import custom_metadata


class IndexLedgers:
    """The index ledgers of one durable cursor. All calls are cancel-safe.

    They raise LedgerError and the store's errors when trying again may help, and ManagedLedgerFencedError when another
    owner took over.
    """

    __slots__ = ("_ledgers", "_name", "_persister", "_state")

    def __init__(
        self,
        ledgers: LedgerClient,
        persister: Persister,
        state: LogState,
        name: str,
    ) -> None:
        self._ledgers = ledgers
        self._persister = persister
        self._state = state
        self._name = name

    @property
    def stored(self) -> Mapping[int, int]:
        """The ledgers of the index, with the number of entries that each has the time of."""
        return self._persister.store.index

    async def write(self, payloads: AsyncIterable[bytes]) -> int:
        """Write ``parts`` as the entries of a new ledger and close it. The caller must ``put`` or ``discard`` it."""
        config: LedgerConfig = self._state.config
        custom = custom_metadata(self._state.name, self._name)
        ledger = await CursorLedger.create(self._ledgers, config, custom)
        try:
            await self._persister.begin_index(ledger.ledger_id)
            async for payload in payloads:
                await ledger.append(payload)
            await ledger.close()
        except BaseException:
            ledger.abandon("the index in it is not wanted")
            self.discard(ledger.ledger_id)
            raise
        return ledger.ledger_id

    def discard(self, ledger_id: int) -> None:
        """Mark a written ledger as unwanted. Has no effect on one that was ``put``."""
        self._persister.store.end_index(ledger_id)

    async def put(self, index: Mapping[int, int]) -> None:
        """Replace the entire index by these ledgers. Those of the previous index are deleted."""
        await self._persister.write_index(dict(index))

    async def reader(self, ledger_id: int) -> LedgerReader:
        """Open one of ``stored``. Raises NoSuchLedgerError when it is lost."""
        return await self._ledgers.open(ledger_id, recover=True)
