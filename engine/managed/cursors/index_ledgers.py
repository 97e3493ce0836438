"""The ledgers in which a cursor's index of waiting entries is kept. What is in them is up to who writes it.

A ledger is written once, whole, and named by the cursor's node as one to be deleted until all of it is durable, so that
whoever comes after a crash deletes what was left half written (M17).
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
    """Of one durable cursor. Calls raise LedgerError and the store's errors when trying again may help, and
    ManagedLedgerFencedError when another owner took over. All are cancel-safe."""

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
        """The ledgers of the index, and how many entries each says when."""
        return self._persister.store.index

    async def write(self, parts: AsyncIterable[bytes]) -> int:
        """A new ledger with ``parts`` as its entries, closed; to be ``put`` or ``discard``-ed."""
        config: LedgerConfig = self._state.config
        custom = custom_metadata(self._state.name, self._name)
        ledger = await CursorLedger.create(self._ledgers, config, custom)
        try:
            await self._persister.begin_index(ledger.ledger_id)
            async for part in parts:
                await ledger.append(part)
            await ledger.close()
        except BaseException:
            ledger.abandon("the index in it is not wanted")
            self.discard(ledger.ledger_id)
            raise
        return ledger.ledger_id

    def discard(self, ledger_id: int) -> None:
        """What was written will not be put. Nothing happens where it was."""
        self._persister.store.end_index(ledger_id)

    async def put(self, index: Mapping[int, int]) -> None:
        """Make these ledgers the whole index. Those that it had before are deleted."""
        await self._persister.write_index(dict(index))

    async def reader(self, ledger_id: int) -> LedgerReader:
        """Of one of ``stored``. Raises NoSuchLedgerError when it is lost."""
        return await self._ledgers.open(ledger_id, recover=True)
