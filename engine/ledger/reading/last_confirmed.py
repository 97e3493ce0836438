"""How far an open ledger is confirmed, as its bookies tell: for readers that are not its writer."""

import asyncio
from typing import NamedTuple

from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest, header_of
from engine.ledger.errors import ReadError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import covered
from engine.ledger.reading import explicit_lac
from engine.ledger.reading.read_op import MISSING, RangeRead
from engine.wire.bookie_commands import EOK, LAST_ENTRY


class Tail(NamedTuple):
    """``confirmed``: never above what the writer was told is confirmed (I8). ``stored``: what an ack quorum holds at
    least, which the writer may not have confirmed yet. ``length`` is the payload bytes up to ``stored``, 0 if unknown.
    """

    confirmed: int
    stored: int
    length: int


async def explicitly_confirmed(
    access: LedgerAccess, metadata: LedgerMetadata, digest: Digest
) -> int:
    """What idle writers have told; -1 where explicit LAC is not used."""
    settings = access.settings
    if not settings.explicit_lac_interval_s:
        return -1
    timeout_s = settings.speculative_read_timeout_s or settings.read_entry_timeout_s
    return await explicit_lac.ask(access, metadata, digest, timeout_s)


async def read_tail(access: LedgerAccess, metadata: LedgerMetadata, digest: Digest) -> Tail:
    """Ask every bookie of the last ensemble for its last entry until every ack quorum was heard; the highest LAC in
    their headers counts. It lags behind while nothing more is written. Raises ReadError without coverage. Cancel-safe.
    """
    ledger_id = access.ledger_id
    segment = metadata.segments[-1]
    ops = []
    for bookie in segment.bookies:
        op = RangeRead(ledger_id, LAST_ENTRY, LAST_ENTRY + 1, digest)
        op.ask(access.bookies.links.reading(bookie), (LAST_ENTRY,))
        ops.append(op)
    try:
        async with asyncio.timeout(access.settings.read_entry_timeout_s):
            while True:
                heard = [op.codes[0] == EOK or op.codes[0] in MISSING for op in ops]
                if covered(heard, metadata.write_quorum, metadata.ack_quorum):
                    break
                waiting = [op.done for op in ops if not op.done.done()]
                if not waiting:
                    raise ReadError(f"ledger {ledger_id}: too few bookies answer")
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        raise ReadError(f"ledger {ledger_id}: too few bookies answer") from None
    finally:
        for op in ops:
            op.close()
    told = await explicitly_confirmed(access, metadata, digest)
    headers = [header_of(op.stored()) for op in ops if op.codes[0] == EOK]
    # Everything before the last segment was confirmed when that began.
    confirmed = max([told, segment.first - 1, *(one.lac for one in headers)])
    quorum = metadata.ack_quorum
    if metadata.ensemble_size == metadata.write_quorum and len(headers) >= quorum:
        common = sorted(headers, key=lambda one: -one.entry_id)[quorum - 1]
        if common.entry_id > confirmed:
            return Tail(confirmed, common.entry_id, common.length)
    return Tail(confirmed, confirmed, 0)
