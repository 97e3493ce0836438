"""BookKeeper's sanity test of a bookie: a ledger is written to it alone, read and deleted."""

import asyncio
from collections.abc import Sequence

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.cluster.placement import Candidates
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore
from engine.net.network import Network

ENTRIES = 10
PAYLOAD = b"sanity"
SANITY_S = 30.0


class _OneBookie:
    """The placement of a ledger on a named bookie."""

    def __init__(self, bookie: str) -> None:
        self._bookie = bookie

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        return [self._bookie]

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> dict[int, str]:
        return {}


async def is_sane(
    bookie: str,
    settings: LedgerSettings,
    *,
    store: MetadataStore,
    network: Network,
    clock: Clock,
    entropy: Entropy,
) -> bool:
    """Return whether ``bookie`` returns the entries that are written to it. Raises LedgerError, the store's errors, and
    TimeoutError after SANITY_S."""
    client = LedgerClient(
        store=store,
        network=network,
        clock=clock,
        entropy=entropy,
        settings=settings,
        placement=_OneBookie(bookie),
    )
    size = len(PAYLOAD)
    try:
        async with asyncio.timeout(SANITY_S):
            writer = await client.create(1, 1, 1)
            try:
                spans = [n for i in range(ENTRIES) for n in (size * i, size * (i + 1))]
                writer.append(Slice(PAYLOAD * ENTRIES, spans, size * ENTRIES))
                await writer.close()
                reader = await client.open(writer.ledger_id, recover=False)
                read = await reader.read(0, ENTRIES - 1, 1 << 20)
            finally:
                await client.delete(writer.ledger_id)
    finally:
        await client.close()
    return [run.entry(i) for run in read for i in range(run.count)] == [PAYLOAD] * ENTRIES
