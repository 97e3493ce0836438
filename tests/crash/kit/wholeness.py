"""The check that the bookies of a cluster hold what its metadata says, by asking all of them."""

import asyncio
import time

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError
from engine.ledger.settings import LedgerSettings
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.repair.ledger_listing import ledgers
from engine.repair.ledger_repair import LedgerRepair
from engine.repair.marks import RepairRecords

AT_ONCE = 16
POLL_S = 0.5
BATCH_BYTES = 1 << 20


class NotWholeError(Exception):
    """The ledgers that lack copies, or are marked, when the time was over."""


def wait_whole(metadata: str, timeout_s: float) -> int:
    """Wait until every member of every ledger serves and holds its share and no ledger is marked; return the number of
    ledgers.

    Nothing may change bookies meanwhile. Of a segment that is being written only the first entries are asked about.
    Raises NotWholeError.
    """
    return asyncio.run(_wait_whole(metadata, timeout_s))


async def _wait_whole(metadata: str, timeout_s: float) -> int:
    until = time.monotonic() + timeout_s
    store = await connect(metadata)
    try:
        while True:
            count, lacking = await whole(store)
            if not lacking:
                return count
            if time.monotonic() > until:
                raise NotWholeError(f"{len(lacking)} of {count} ledgers: {lacking[:20]}")
            await asyncio.sleep(POLL_S)
    finally:
        await store.close()


async def whole(store: MetadataStore) -> tuple[int, list[str]]:
    """Return the number of ledgers, and why any of them lacks copies."""
    client = LedgerClient(
        store=store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=LedgerSettings(),
    )
    repair = LedgerRepair(store, client, batch_bytes=BATCH_BYTES, rate_by_bytes=0)
    records = RepairRecords(store, SystemClock(), RandomEntropy())

    async def why(ledger: int) -> str | None:
        try:
            _, findings = await repair.examine(ledger)
        except NoSuchLedgerError:
            return None
        except MagnetarError as error:
            return f"{ledger}: {error}"
        return None if findings.whole else f"{ledger}: {findings}"

    try:
        listed = [n async for batch in ledgers(store) for n, _ in batch]
        lacking = [f"{n} is marked" async for n in records.marked()]
        for i in range(0, len(listed), AT_ONCE):
            answers = await asyncio.gather(*map(why, listed[i : i + AT_ONCE]))
            lacking += [answer for answer in answers if answer is not None]
        return len(listed), lacking
    finally:
        await client.close()
