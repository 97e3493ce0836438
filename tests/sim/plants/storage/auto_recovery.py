"""Further mistakes of auto-recovery: who acts and when, whom it believes, bookies that leave, damaged copies."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bookie.scrubbing import Scrubber
from bookie.serving import Serving
from engine.ledger import metadata_update
from engine.ledger.cluster.choice import BookieChoice
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.metadata import paths
from engine.metadata.protobuf.prototext import escape
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from engine.repair import checking, decommissions, segment_copy, worker
from engine.repair.auditor import Auditor
from engine.repair.checking import LedgerFindings, Ranges
from engine.repair.election import Election
from engine.repair.ledger_listing import ledgers
from engine.repair.marks import LedgerMark, RepairRecords
from engine.repair.worker import ReplicationWorker
from tests.sim.plants.planting import Patches


def every_candidate_is_the_auditor() -> Patches:
    """Take any vote for a won election."""

    async def stand(self: Election) -> bool:
        self._session, self.elected = self._store.session_id, True
        return True

    return [(Election, "stand", stand)]


def auditor_outlives_its_session() -> Patches:
    """Remain the auditor until the loss of the session is reported."""
    return [(Election, "leads", property(lambda self: self.elected))]


def auditor_ignores_the_switch() -> Patches:
    """Mark ledgers while auto-recovery is turned off."""
    real = Auditor.run

    async def run(self: Auditor) -> None:
        self._records = _AlwaysOn(self._records)  # type: ignore[assignment]
        await real(self)

    return [(Auditor, "run", run)]


class _AlwaysOn:
    def __init__(self, records: RepairRecords) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def enabled(self) -> bool:
        return True


def worker_ignores_the_switch() -> Patches:
    """Take marked ledgers while auto-recovery is turned off."""
    real = ReplicationWorker.run

    async def run(self: ReplicationWorker) -> None:
        self._records = _AlwaysOn(self._records)  # type: ignore[assignment]
        await real(self)

    return [(ReplicationWorker, "run", run)]


def mark_is_removed_whatever_its_version() -> Patches:
    """Remove the mark of a repaired ledger, although it may have been marked anew."""
    real = RepairRecords.remove

    async def remove(self: RepairRecords, mark: LedgerMark) -> bool:
        return await real(self, mark._replace(version=-1))

    return [(RepairRecords, "remove", remove)]


def lock_is_not_taken() -> Patches:
    """Repair without a lock: metadata is changed by compare-and-set anyway."""

    async def lock(self: RepairRecords, ledger_id: int, worker: str) -> bool:
        return True

    return [(RepairRecords, "lock", lock)]


def open_ledger_is_recovered_at_once() -> Patches:
    """Recover a marked open ledger without giving its writer time to replace the bookie."""
    real = ReplicationWorker._work

    async def work(self: ReplicationWorker, ledger_id: int, grace_of: int | None) -> None:
        metadata = await self._repair._client.metadata(ledger_id)
        await real(self, ledger_id, metadata.segments[-1].first)

    return [(ReplicationWorker, "_work", work)]


def silence_is_a_loss() -> Patches:
    """Take a bookie that does not list its entries in time for one that has none."""
    real = checking.holdings

    async def holdings(access: Any, metadata: Any, bookies: Any) -> dict[str, Ranges | None]:
        return {b: held or [] for b, held in (await real(access, metadata, bookies)).items()}

    return [(checking, "holdings", holdings)]


def one_failure_is_final() -> Patches:
    """Do not try a ledger again after a failure."""
    real = ReplicationWorker._failed

    def failed(self: ReplicationWorker, ledger_id: int, error: Exception | None) -> None:
        real(self, ledger_id, error)
        self._held[ledger_id] = worker._Held(1e9, None)

    return [(ReplicationWorker, "_failed", failed)]


def copies_bear_another_key() -> Patches:
    """Copy with the key of a ledger without a password."""
    return [(segment_copy, "master_key", lambda password: bytes(20))]


def scrubber_passes_over_damage() -> Patches:
    """Read damaged blocks back and go on behind them."""

    async def found(self: Scrubber, unreadable: Any) -> None:
        await asyncio.sleep(0)

    return [(Scrubber, "_found", found)]


def drained_copies_count() -> Patches:
    """Count the copies on a bookie that is drained among the intact ones, as they are."""

    async def draining(store: MetadataStore) -> list[str]:
        return []

    return [(worker, "draining", draining)]


def open_ledgers_are_not_counted_in_a_drain() -> Patches:
    """Count closed ledgers alone when it is decided whether a bookie may be stopped."""
    real = decommissions.ledgers_of

    async def ledgers_of(store: Any, bookie: str) -> AsyncIterator[tuple[int, bool, int]]:
        async for row in real(store, bookie):
            if not row[1]:
                yield row

    return [(decommissions, "ledgers_of", ledgers_of)]


def ledgers_are_counted_by_their_last_segment() -> Patches:
    """Look only at the last segment when it is decided whether a ledger names a bookie that leaves."""

    async def ledgers_of(store: Any, bookie: str) -> AsyncIterator[tuple[int, bool, int]]:
        async for batch in ledgers(store):
            for ledger_id, metadata in batch:
                if bookie in metadata.segments[-1].bookies:
                    yield ledger_id, metadata.state is not LedgerState.CLOSED, 0

    return [(decommissions, "ledgers_of", ledgers_of)]


def copies_may_go_to_a_member() -> Patches:
    """Choose the new bookie without regard to those that have the copy already: one copy more on paper."""
    real = BookieChoice.replacements

    def replacements(
        self: BookieChoice, positions: Any, ensemble: Any, quorum: int, excluded: Any = ()
    ) -> dict[int, str]:
        chosen = real(self, positions, ensemble, quorum, excluded)
        kept = [bookie for place, bookie in enumerate(ensemble) if place not in positions]
        writable = [b for b in kept if b in self._candidates().writable and b not in excluded]
        return dict.fromkeys(chosen, writable[0]) if writable else chosen

    async def replace_members(
        store: Any, ledger_id: int, known: Any, first: int, replaced: Any, timeout_s: float
    ) -> LedgerMetadata:
        def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
            for segment in stored.segments:
                if segment.first == first:
                    members = tuple(replaced.get(b, b) for b in segment.bookies)
                    return replace(stored, segments=_with(stored, first, members))
            return None

        return await metadata_update.change(store, ledger_id, decide, timeout_s, known)

    return [
        (BookieChoice, "replacements", replacements),
        (metadata_update, "replace_members", replace_members),
    ]


def _with(stored: LedgerMetadata, first: int, members: tuple[str, ...]) -> tuple[Segment, ...]:
    return tuple(
        Segment(first, members) if segment.first == first else segment
        for segment in stored.segments
    )


def silence_is_whole() -> Patches:
    """Take a ledger for whole as soon as nothing is known to be missing, although members did not answer."""
    return [
        (
            LedgerFindings,
            "whole",
            property(lambda self: not (self.lost or self.open_lost or self.waited)),
        )
    ]


def entries_of_a_failed_disk_are_listed() -> Patches:
    """List the entries that the index names, also those whose disk has failed."""

    def held(self: Serving, ledger_id: int) -> Ranges:
        entries = self.storage.entries
        return self.scrubber.readable(ledger_id, entries.ranges(ledger_id, entries.usage.keys()))

    return [(Serving, "_held", held)]


def lock_is_released_before_the_work() -> Patches:
    """Lock a ledger only for the moment in which it is taken."""
    real = ReplicationWorker._work

    async def work(self: ReplicationWorker, ledger_id: int, grace_of: int | None) -> None:
        await self._records.unlock(ledger_id)
        await real(self, ledger_id, grace_of)

    return [(ReplicationWorker, "_work", work)]


def cookie_goes_while_its_bookie_serves() -> Patches:
    """Remove the cookie of a drained bookie once nothing is left on it, without waiting until it is stopped."""

    async def is_registered(store: Any, bookie: str) -> bool:
        return False

    return [(decommissions, "is_registered", is_registered)]


def deleted_ledgers_are_stored_again() -> Patches:
    """Store the repaired ensemble of a ledger also when the ledger was deleted meanwhile."""
    real = metadata_update.replace_members

    class Store:
        def __init__(self, store: Any, known: LedgerMetadata) -> None:
            self._store = store
            self._known = known

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def put(self, path: str, value: bytes, version: int) -> Any:
            try:
                return await self._store.put(path, value, version)
            except NoNodeError:
                await self._store.create(path, value, make_parents=True)
                return await self._store.exists(path)

    async def replace_members(store: Any, ledger_id: int, known: Any, *rest: Any) -> Any:
        return await real(Store(store, known), ledger_id, known, *rest)

    return [(metadata_update, "replace_members", replace_members)]


def last_entry_is_not_asked_for() -> Patches:
    """Check the entries of a closed ledger up to the last one, exclusively."""
    real = checking.ends

    def short(metadata: LedgerMetadata) -> list[tuple[int, int]]:
        spans = real(metadata)
        if metadata.state is LedgerState.CLOSED:
            spans[-1] = (spans[-1][0], spans[-1][1] - 1)
        return spans

    return [(checking, "ends", short)]


def members_should_hold_every_entry() -> Patches:
    """Expect every entry on every member of a striped ensemble: intact copies are moved."""
    real = checking.lacks

    def lacks(ranges: Any, first: int, last: int, position: int, size: int, quorum: int) -> bool:
        return real(ranges, first, last, position, size, size)

    return [(checking, "lacks", lacks)]


def votes_are_known_by_name() -> Patches:
    """Take a vote and a leader's node that bear the candidate's name for its own, whatever session made them."""

    async def votes(self: Election) -> list[tuple[str, int]]:
        own = f"bookieId: {escape(self._candidate.encode())}\n".encode()
        listed = []
        for path, owner in await real(self):
            with suppress(NoNodeError):
                value, _ = await self._store.get(path)
                listed.append((path, self._session if value == own else owner))
        return listed

    async def lead(self: Election) -> bool:
        value = json.dumps(self._candidate).encode()
        with suppress(NodeExistsError):
            await self._store.create(paths.AUDITOR_LEADER, value, ephemeral=True, make_parents=True)
        with suppress(NoNodeError):
            return (await self._store.get(paths.AUDITOR_LEADER))[0] == value
        return False

    real = Election._votes
    return [(Election, "_votes", votes), (Election, "_lead", lead)]
