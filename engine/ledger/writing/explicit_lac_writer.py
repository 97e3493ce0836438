"""Explicit LAC: the last add confirmed that an idle writer stores on its bookies. Only the V3 protocol has it."""

import asyncio
from collections.abc import Callable

from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest, DigestType, master_key
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import write_set
from engine.wire import bookie_v3 as v3


class ExplicitLacWriter:
    """Periodic writes of a ledger's LAC to the write set of that entry, while no add carries it.

    ``idle`` returns the LAC and the metadata; -1 while adds are pending, which carry the LAC themselves. The value is
    never above what is confirmed (I8).
    """

    __slots__ = ("_access", "_idle", "_loop", "_timer", "_written")

    def __init__(
        self, access: LedgerAccess, idle: Callable[[], tuple[int, LedgerMetadata]]
    ) -> None:
        self._access = access
        self._idle = idle
        self._written = -1
        self._loop = asyncio.get_running_loop()
        self._timer = self._schedule()

    def stop(self) -> None:
        self._timer.cancel()

    def _schedule(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._access.settings.explicit_lac_interval_s, self._write)

    def _write(self) -> None:
        """Send the LAC if it has risen. The answers are ignored, because a lost LAC only delays readers."""
        self._timer = self._schedule()
        lac, metadata = self._idle()
        if lac <= self._written:
            return
        self._written = lac
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
