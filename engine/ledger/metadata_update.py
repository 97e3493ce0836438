"""Compare-and-set changes of ledger metadata: replace bookies, start a recovery, close. Every outcome is made certain.

There is no other way to write metadata of a ledger that exists (I14).

A write whose answer was lost is settled by reading again until the store answers, within a deadline.
"""

import asyncio
from collections.abc import Callable
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
"""A node holds them whatever the bookies' names; recovery, which has to end, may add some."""

Decide = Callable[[LedgerMetadata], LedgerMetadata | None]
"""New metadata for what is stored now; None when it stands as wanted; raises when it must not be changed."""


async def read(store: MetadataStore, ledger_id: int) -> LedgerMetadata:
    """Stored metadata. Raises NoSuchLedgerError, MetadataFormatError and the store's errors."""
    try:
        found = await store.get(paths.ledger(ledger_id))
    except NoNodeError:
        raise NoSuchLedgerError(f"ledger {ledger_id} does not exist") from None
    return decoded(found)


def decoded(found: tuple[bytes, Stat]) -> LedgerMetadata:
    """Of a ledger's node as it was read. Raises MetadataFormatError."""
    value, stat = found
    return replace(decode(value), version=stat.version)


async def change(
    store: MetadataStore,
    ledger_id: int,
    decide: Decide,
    timeout_s: float,
    known: LedgerMetadata | None = None,
) -> LedgerMetadata:
    """Apply ``decide`` by compare-and-set until it is stored; returns what is stored then.

    ``known``: what the caller has read or written last; it saves the first read.

    Raises what ``decide`` raises, NoSuchLedgerError, and WriteError when the store gives no certainty in ``timeout_s``.
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
    ours: LedgerMetadata,
    start: int,
    ensemble: tuple[str, ...],
    timeout_s: float,
) -> LedgerMetadata:
    """The writer's change: from entry ``start`` on use ``ensemble``. Raises LedgerFencedError, LedgerClosedError, and
    WriteError when the ledger has had so many that its metadata would outgrow its node: another ledger is due."""

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        _refuse_unless_open(stored, ledger_id)
        wanted = ours.with_ensemble(start, ensemble).segments[-1]
        if stored.segments[-1] == wanted:
            return None
        if stored.segments[-1] != ours.segments[-1]:
            raise LedgerFencedError(f"ledger {ledger_id}: somebody else changed its ensemble")
        changed = stored.with_ensemble(start, ensemble)
        if len(changed.segments) > SEGMENTS_MAX:
            raise WriteError(f"ledger {ledger_id} has had {SEGMENTS_MAX} ensembles of bookies")
        return changed

    return await change(store, ledger_id, decide, timeout_s, ours)


async def write_closed(
    store: MetadataStore,
    ledger_id: int,
    ours: LedgerMetadata,
    last_entry: int,
    length: int,
    timeout_s: float,
) -> LedgerMetadata:
    """The writer's close. An equal close counts as ours. Raises LedgerFencedError, LedgerClosedError."""

    def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
        if stored.state is LedgerState.CLOSED and (stored.last_entry, stored.length) == (
            last_entry,
            length,
        ):
            return None
        _refuse_unless_open(stored, ledger_id)
        return stored.closed(last_entry, length)

    return await change(store, ledger_id, decide, timeout_s, ours)


async def start_recovery(
    store: MetadataStore, ledger_id: int, known: LedgerMetadata | None, timeout_s: float
) -> LedgerMetadata:
    """OPEN becomes IN_RECOVERY; the other states stay."""

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
    """IN_RECOVERY becomes CLOSED; if somebody closed it first, theirs stands.

    Segments that ``recovered`` has beyond ``began`` (what recovery started from) are added.
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
    """The writer changes nothing once somebody recovers or has closed the ledger (I13)."""
    if stored.state is LedgerState.IN_RECOVERY:
        raise LedgerFencedError(f"ledger {ledger_id} is being recovered")
    if stored.state is LedgerState.CLOSED:
        raise LedgerClosedError(f"ledger {ledger_id} was closed by somebody else")
