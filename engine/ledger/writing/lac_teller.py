"""Explicit LAC: what an idle writer tells its bookies about the last confirmed entry. Only V3 has it."""

import asyncio
from collections.abc import Callable

from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest, DigestType, master_key
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import write_set
from engine.wire import bookie_v3 as v3


class LacTeller:
    """Tells the last confirmed entry of a ledger at each interval, when the adds themselves have not.

    ``idle`` gives it, with the metadata; -1 while adds are under way, which carry it. Never above what is confirmed
    (I8).
    """

    __slots__ = ("_access", "_idle", "_loop", "_timer", "_told")

    def __init__(
        self, access: LedgerAccess, idle: Callable[[], tuple[int, LedgerMetadata]]
    ) -> None:
        self._access = access
        self._idle = idle
        self._told = -1
        self._loop = asyncio.get_running_loop()
        self._timer = self._later()

    def stop(self) -> None:
        self._timer.cancel()

    def _later(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._access.settings.explicit_lac_interval_s, self._tell)

    def _tell(self) -> None:
        """Nobody waits for the answers: the next one says more."""
        self._timer = self._later()
        lac, metadata = self._idle()
        if lac <= self._told:
            return
        self._told = lac
        access = self._access
        ledger_id, key = access.ledger_id, master_key(access.password)
        digest = Digest(metadata.digest or DigestType.CRC32C, access.password)
        body = v3.explicit_lac(ledger_id, lac, b"")
        body += digest.compute(body, b"")
        bookies = metadata.bookies(lac)
        for position in write_set(lac, metadata.ensemble_size, metadata.write_quorum):
            access.bookies.links.v3(bookies[position]).request(
                lambda number: v3.write_lac_request(number, ledger_id, lac, key, body),
                lambda _response: None,
            )
