"""Changes of a cluster's bookies that move copies: decommission of one that is stopped, and recovery of what bookies
held by the calling process itself. Nothing is removed before no ledger names the bookie any more (I44)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.ledger.ledger_metadata import LedgerState
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from engine.repair.ledger_listing import ledgers
from engine.repair.ledger_repair import LedgerRepair
from engine.repair.marks import RepairRecords

log = logging.getLogger(__name__)

POLL_S = 2.0


class BookieChangeError(MagnetarError):
    """The change is refused or did not end; the text says why and what is left."""


class HeldByBookie(NamedTuple):
    """The ledgers that name a bookie, of which open ones, and about how many bytes it holds."""

    ledgers: int
    open: int
    size: int


async def held_by(store: MetadataStore, bookie: str) -> HeldByBookie:
    """Return what a bookie holds. The bytes of open ledgers are unknown and not counted."""
    count = still_open = size = 0
    async for _, is_open, share in ledgers_of(store, bookie):
        count += 1
        still_open += is_open
        size += share
    return HeldByBookie(count, still_open, size)


async def ledgers_of(
    store: MetadataStore, bookie: str, unread: list[int] | None = None
) -> AsyncIterator[tuple[int, bool, int]]:
    """Yield each ledger that names a bookie, whether it is open, and about how many of its bytes the bookie holds.
    Those whose metadata cannot be read, and so may name it, are added to ``unread``."""
    async for batch in ledgers(store, unread):
        for ledger_id, metadata in batch:
            segments = sum(bookie in segment.bookies for segment in metadata.segments)
            if segments:
                copies = metadata.length * metadata.write_quorum // metadata.ensemble_size
                share = copies * segments // len(metadata.segments)
                yield ledger_id, metadata.state is not LedgerState.CLOSED, share


async def is_registered(store: MetadataStore, bookie: str) -> bool:
    for path in (paths.available_bookie(bookie), paths.read_only_bookie(bookie)):
        if await store.exists(path) is not None:
            return True
    return False


async def remove_cookie(store: MetadataStore, bookie: str) -> bool:
    """Remove the cookie of a bookie that is not registered; return False where it is (I44).

    A bookie that starts reads its cookie long before it registers, and looks for it once more then. So one of the two
    notices the other, whichever comes first.
    """
    path = paths.cookie(bookie)
    if await is_registered(store, bookie):
        return False
    try:
        value, stat = await store.get(path)
        await store.delete(path, stat.version)
    except NoNodeError:
        return True
    if not await is_registered(store, bookie):
        return True
    with suppress(NodeExistsError):
        await store.create(path, value)
    return False


async def decommission(
    store: MetadataStore,
    records: RepairRecords,
    bookie: str,
    *,
    timeout_s: float,
    delete_cookie: bool = True,
    progress: Callable[[int, int], None] = lambda left, first: None,
) -> int:
    """Mark the ledgers of a bookie that is stopped for good, wait until workers have copied all of them, and remove its
    cookie. Return the number of ledgers.

    ``progress`` is called with the ledgers left and those at the begin. Raises BookieChangeError for a bookie that is
    registered or not known, and when ledgers are left after ``timeout_s``; a later call continues.
    """
    if await is_registered(store, bookie):
        raise BookieChangeError(f"{bookie} is registered: stop it first, it must not return")
    if not await records.enabled():
        raise BookieChangeError("auto-recovery is turned off: its ledgers would not be copied")
    deadline = asyncio.get_running_loop().time() + timeout_s
    first: int | None = None
    while True:
        left: list[int] = []
        unread: list[int] = []
        async for ledger_id, _, _ in ledgers_of(store, bookie, unread):
            left.append(ledger_id)
            if first is None or not await records.is_marked(ledger_id):
                await records.mark(ledger_id, [bookie])
        first = len(left) if first is None else first
        progress(len(left), first)
        if not left and unread:
            raise BookieChangeError(
                f"the metadata of {len(unread)} ledgers, such as {unread[:10]}, cannot be read and may name "
                f"{bookie}; its cookie stays"
            )
        if not left:
            break
        if asyncio.get_running_loop().time() >= deadline:
            raise BookieChangeError(
                f"{len(left)} of {first} ledgers are left on {bookie}, such as {left[:10]}; its cookie stays"
            )
        await asyncio.sleep(POLL_S)
    if not first and await store.exists(paths.cookie(bookie)) is None:
        raise BookieChangeError(f"{bookie} is not known: it has no cookie, and no ledger names it")
    is_gone = remove_cookie(store, bookie) if delete_cookie else _is_stopped(store, bookie)
    if not await is_gone:
        raise BookieChangeError(f"{bookie} has registered meanwhile; its cookie stays")
    return first


async def _is_stopped(store: MetadataStore, bookie: str) -> bool:
    return not await is_registered(store, bookie)


class Recovered(NamedTuple):
    """The result of a recovery: ledgers that were copied, and those that could not be, with the reason."""

    copied: list[int]
    failed: dict[int, str]


async def recover_bookies(
    store: MetadataStore,
    repair: LedgerRepair,
    bookies: Collection[str],
    *,
    ledger: int | None = None,
    skip_open: bool = False,
    dry_run: bool = False,
) -> Recovered:
    """Copy what ``bookies`` hold elsewhere, in this process and at once, also where they are registered.

    Open ledgers are recovered, and so closed, unless ``skip_open``. With ``dry_run`` only list the ledgers.
    """
    listed: dict[int, None] = {}
    for bookie in bookies:
        async for ledger_id, is_open, _ in ledgers_of(store, bookie):
            if ledger in (None, ledger_id) and not (is_open and skip_open):
                listed.setdefault(ledger_id)
    done = Recovered([], {})
    for ledger_id in listed:
        if dry_run:
            done.copied.append(ledger_id)
            continue
        try:
            metadata, findings = await repair.examine(ledger_id, bookies)
            if findings.open_lost and not skip_open:
                await repair.recover(ledger_id, metadata)
                metadata, findings = await repair.examine(ledger_id, bookies)
            if findings.lost:
                await repair.copy(ledger_id, metadata, findings, bookies)
            done.copied.append(ledger_id)
        except NoSuchLedgerError:
            continue
        except LedgerError as error:
            done.failed[ledger_id] = str(error)
    return done
