"""The end of an open ledger as its bookies report it, for readers in other processes than its writer."""

import asyncio
from typing import NamedTuple

from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest, header_of
from engine.ledger.errors import ReadError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import covered
from engine.ledger.reading.explicit_lac import read_explicit_lac
from engine.ledger.reading.read_op import MISSING, RangeRead, answer_text
from engine.wire.bookie_commands import EOK, LAST_ENTRY


class Tail(NamedTuple):
    """The end of an open ledger.

    ``confirmed`` is never above the last entry that the writer knows to be confirmed (I8). ``stored`` is the last entry
    that an ack quorum is known to hold; the writer may not have confirmed it yet. ``length`` is the payload bytes up
    to ``stored``, 0 if unknown.
    """

    confirmed: int
    stored: int
    length: int


async def explicitly_confirmed(
    access: LedgerAccess, metadata: LedgerMetadata, digest: Digest
) -> int:
    """Return the explicit LAC stored by an idle writer; -1 where explicit LACs are off."""
    settings = access.settings
    if not settings.explicit_lac_interval_s:
        return -1
    timeout_s = settings.speculative_read_timeout_s or settings.read_entry_timeout_s
    return await read_explicit_lac(access, metadata, digest, timeout_s)


def _too_few(ledger_id: int, ops: list[RangeRead]) -> str:
    answers = ", ".join(answer_text(op.code, op.down) for op in ops)
    return f"ledger {ledger_id}: too few bookies answer: {answers}"


async def read_tail(access: LedgerAccess, metadata: LedgerMetadata, digest: Digest) -> Tail:
    """Read the last entry from every bookie of the last ensemble until the answers cover every ack quorum.

    The highest LAC in the entries' headers counts; it lags while nothing more is written. Raises ReadError without
    coverage. Cancel-safe.
    """
    ledger_id = access.ledger_id
    segment = metadata.segments[-1]
    ops = []
    for bookie in segment.bookies:
        op = RangeRead(ledger_id, LAST_ENTRY, LAST_ENTRY + 1, digest)
        op.request(access.bookies.links.reading(bookie), (LAST_ENTRY,))
        ops.append(op)
    try:
        async with asyncio.timeout(access.settings.read_entry_timeout_s):
            while True:
                answered = [op.codes[0] == EOK or op.codes[0] in MISSING for op in ops]
                if covered(answered, metadata.write_quorum, metadata.ack_quorum):
                    break
                waiting = [op.done for op in ops if not op.done.done()]
                if not waiting:
                    raise ReadError(_too_few(ledger_id, ops))
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        raise ReadError(_too_few(ledger_id, ops)) from None
    finally:
        for op in ops:
            op.close()
    explicit = await explicitly_confirmed(access, metadata, digest)
    headers = [header_of(op.stored()) for op in ops if op.codes[0] == EOK]
    # A segment begins behind the last confirmed entry, so all entries before it are confirmed.
    confirmed = max([explicit, segment.first - 1, *(header.lac for header in headers)])
    quorum = metadata.ack_quorum
    if metadata.ensemble_size == metadata.write_quorum and len(headers) >= quorum:
        common = sorted(headers, key=lambda header: -header.entry_id)[quorum - 1]
        if common.entry_id > confirmed:
            return Tail(confirmed, common.entry_id, common.length)
    return Tail(confirmed, confirmed, 0)
