"""Compare-and-set changes of ledger metadata: replace bookies, of a writer or a repair, start a recovery, close.

Metadata of an existing ledger is written in no other way (I14). When the answer to a write is lost, the metadata is
read again until the store answers, within a deadline, so that every outcome is certain.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    NoSuchLedgerError,
    WriteError,
)
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, decode, encode
from engine.metadata import paths
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    Stat,
    StoreUnavailableError,
)

RETRY_S = 0.1
SEGMENTS_MAX = 1000
"""Segments that a node has room for, whatever the bookies' names. Recovery may exceed it, because it has to finish."""

Decide = Callable[[LedgerMetadata], LedgerMetadata | None]
"""Returns the new metadata for the stored one, or None when that is as wanted. Raises when it must not be changed."""


async def read(store: MetadataStore, ledger_id: int) -> LedgerMetadata:
    """Read stored metadata. Raises NoSuchLedgerError, MetadataFormatError and the store's errors."""
    try:
        node = await store.get(paths.ledger(ledger_id))
    except NoNodeError:
        raise NoSuchLedgerError(f"ledger {ledger_id} does not exist") from None
    return decoded(node)


def decoded(node: tuple[bytes, Stat]) -> LedgerMetadata:
    """Decode a ledger's node as the store returned it. Raises MetadataFormatError."""
    value, stat = node
    return replace(decode(value), version=stat.version)


async def change(
    store: MetadataStore,
    ledger_id: int,
    decide: Decide,
    timeout_s: float,
    known: LedgerMetadata | None = None,
) -> LedgerMetadata:
    """Apply ``decide`` by compare-and-set until its result is stored, and return the stored metadata.

    ``known`` is the metadata that the caller last read or wrote; it saves the first read. Raises what ``decide``
    raises, NoSuchLedgerError, and WriteError when the outcome is not certain within ``timeout_s``.
    """
    path = paths.ledger(ledger_id)
    deadline = asyncio.get_running_loop().time() + timeout_s
    stored = known if known is not None and known.version >= 0 else None
    while True:
        try:
            if stored is None:
                stored = await read(store, ledger_id)
            wanted = decide(stored)
            if wanted is None:
                return stored
            wanted.check_follows(stored)
            stat = await store.put(path, encode(wanted), stored.version)
            return replace(wanted, version=stat.version)
        except BadVersionError:
            stored = None
        except NoNodeError:
            raise NoSuchLedgerError(f"ledger {ledger_id} does not exist") from None
        except (StoreUnavailableError, SessionExpiredError) as e:
            stored = None  # the write may have happened
            if asyncio.get_running_loop().time() >= deadline:
                raise WriteError(f"metadata of ledger {ledger_id}: {e}") from e
            await asyncio.sleep(RETRY_S)


async def change_ensemble(
    store: MetadataStore,
    ledger_id: int,
    known: LedgerMetadata,
    start: int,
    ensemble: tuple[str, ...],
    timeout_s: float,
) -> LedgerMetadata:
    """Store that entries from ``start`` on lie on ``ensemble``, for the ledger's writer.

    Raises LedgerFencedError, LedgerClosedError, and WriteError when another segment would make the metadata too large
    for its node; the writer's owner then creates the next ledger.
    """

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        _refuse_unless_open(stored, ledger_id)
        segment = known.with_ensemble(start, ensemble).segments[-1]
        if stored.segments[-1] == segment:
            return None
        if stored.segments[-1] != known.segments[-1]:
            raise LedgerFencedError(f"ledger {ledger_id}: another client changed its ensemble")
        changed = stored.with_ensemble(start, ensemble)
        if len(changed.segments) > SEGMENTS_MAX:
            raise WriteError(f"ledger {ledger_id} has had {SEGMENTS_MAX} ensembles of bookies")
        return changed

    return await change(store, ledger_id, decide, timeout_s, known)


async def replace_members(
    store: MetadataStore,
    ledger_id: int,
    known: LedgerMetadata,
    first: int,
    replaced: Mapping[str, str],
    timeout_s: float,
) -> LedgerMetadata:
    """Store that bookies have taken over the copies of others in the segment that starts at ``first``, for a repair.

    ``replaced``: the new bookie by the old one, which may be the same. An old one that is no member any more is left
    out, because another repair has replaced it. Raises LedgerError when the segment is gone, the last one of a ledger
    that is not closed (I34), or has a new bookie at another position.
    """

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        segments = stored.segments
        if stored.state is not LedgerState.CLOSED:
            segments = segments[:-1]
        for segment in segments:
            if segment.first == first:
                members = tuple(replaced.get(bookie, bookie) for bookie in segment.bookies)
                if members == segment.bookies:
                    return None
                if len(set(members)) != len(members):
                    raise LedgerError(f"ledger {ledger_id}: a bookie would have two positions")
                return stored.with_members(first, members)
        raise LedgerError(f"ledger {ledger_id} has no segment to repair at {first}")

    return await change(store, ledger_id, decide, timeout_s, known)


async def write_closed(
    store: MetadataStore,
    ledger_id: int,
    known: LedgerMetadata,
    last_entry: int,
    length: int,
    timeout_s: float,
) -> LedgerMetadata:
    """Store CLOSED for the ledger's writer. A stored close with the same end counts as this one, because the answer to
    the first attempt may have been lost. Raises LedgerFencedError, LedgerClosedError."""

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        if stored.state is LedgerState.CLOSED and (stored.last_entry, stored.length) == (
            last_entry,
            length,
        ):
            return None
        _refuse_unless_open(stored, ledger_id)
        return stored.closed(last_entry, length)

    return await change(store, ledger_id, decide, timeout_s, known)


async def start_recovery(
    store: MetadataStore, ledger_id: int, known: LedgerMetadata | None, timeout_s: float
) -> LedgerMetadata:
    """Change OPEN to IN_RECOVERY, leave the other states, and return the stored metadata."""

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        return stored.recovering() if stored.state is LedgerState.OPEN else None

    return await change(store, ledger_id, decide, timeout_s, known)


async def finish_recovery(
    store: MetadataStore,
    ledger_id: int,
    began: LedgerMetadata,
    recovered: LedgerMetadata,
    last_entry: int,
    length: int,
    timeout_s: float,
) -> LedgerMetadata:
    """Change IN_RECOVERY to CLOSED; a close that another client stored first is kept.

    The segments that ``recovered`` has beyond ``began``, the metadata at the start of the recovery, are added.
    """

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        if stored.state is LedgerState.CLOSED:
            return None
        if stored.state is not LedgerState.IN_RECOVERY:
            raise LedgerError(f"ledger {ledger_id} left recovery by itself")
        changed = stored
        for segment in recovered.segments:
            if segment.first >= began.segments[-1].first and segment not in began.segments:
                changed = changed.with_ensemble(segment.first, segment.bookies)
        return changed.closed(last_entry, length)

    return await change(store, ledger_id, decide, timeout_s, began)


def _refuse_unless_open(stored: LedgerMetadata, ledger_id: int) -> None:
    """Raise LedgerFencedError or LedgerClosedError unless the ledger is open: a writer changes nothing once another
    client recovers or has closed the ledger (I13)."""
    if stored.state is LedgerState.IN_RECOVERY:
        raise LedgerFencedError(f"ledger {ledger_id} is being recovered")
    if stored.state is LedgerState.CLOSED:
        raise LedgerClosedError(f"ledger {ledger_id} was closed by another client")
