"""Mistakes of auto-recovery: what it copies and when, whom it names, which marks it removes, whom it waits for."""

import asyncio
from collections.abc import Collection
from typing import Any

from engine.ledger import ledger_metadata, metadata_update
from engine.ledger.cluster.choice import BookieChoice
from engine.ledger.cluster.placement import SpreadPlacement
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.metadata import paths
from engine.metadata.store import ANY_VERSION, NodeExistsError
from engine.repair import checking, ledger_repair, segment_copy
from engine.repair.auditor import Auditor
from engine.repair.checking import LedgerFindings
from engine.repair.ledger_repair import LedgerRepair
from engine.repair.marks import RepairRecords
from engine.repair.segment_copy import SegmentCopy
from engine.repair.worker import ReplicationWorker
from engine.wire import bookie_commands as wire
from tests.sim.plants.planting import Patches


def ledger_that_cannot_be_repaired_is_deleted() -> Patches:
    """Delete a ledger of which no copy can be read, so that it is no longer under-replicated."""

    real = ReplicationWorker._work

    async def work(self: ReplicationWorker, ledger_id: int, grace_of: int | None) -> None:
        try:
            await real(self, ledger_id, grace_of)
        except LedgerError:
            await self._store.delete(paths.ledger(ledger_id))

    return [(ReplicationWorker, "_work", work)]


def named_before_it_is_copied() -> Patches:
    """Name the new bookie first, and let the next check find what it lacks."""

    async def run(self: SegmentCopy) -> None:
        return

    return [(SegmentCopy, "run", run)]


def named_before_the_copy_is_durable() -> Patches:
    """Name the new bookie when everything was sent to it, without its answers."""

    async def wait(self: Any, left_bytes: int) -> None:
        await asyncio.sleep(0)

    return [(segment_copy._Writes, "wait", wait)]


def copy_ends_before_the_last_entry() -> Patches:
    """Copy up to the last entry, exclusively."""
    real = SegmentCopy.__init__

    def init(
        self: SegmentCopy, access: Any, metadata: Any, span: Any, *rest: Any, **named: Any
    ) -> None:
        real(self, access, metadata, (span[0], max(span[1] - 1, span[0])), *rest, **named)

    return [(SegmentCopy, "__init__", init)]


def copy_begins_behind_the_first_entry() -> Patches:
    """Copy from behind the first entry on: segments are taken to begin after their first entry."""
    real = SegmentCopy.__init__

    def init(
        self: SegmentCopy, access: Any, metadata: Any, span: Any, *rest: Any, **named: Any
    ) -> None:
        real(self, access, metadata, (span[0] + 1, span[1]), *rest, **named)

    return [(SegmentCopy, "__init__", init)]


def unreadable_entries_are_left_out() -> Patches:
    """Leave out of a copy what cannot be read now, as after a time-out."""
    real = SegmentCopy.run

    async def run(self: SegmentCopy) -> None:
        try:
            await real(self)
        except LedgerError:
            return

    return [(SegmentCopy, "run", run)]


def stripes_of_another_position_are_copied() -> Patches:
    """Copy to a position the entries of its neighbour in striped ensembles."""
    real = SegmentCopy._due

    def due(self: SegmentCopy, position: int, entry: int) -> bool:
        return real(self, (position + 1) % self._metadata.ensemble_size, entry)

    return [(SegmentCopy, "_due", due)]


def mark_is_removed_without_a_second_look() -> Patches:
    """Remove the mark after the work, whether or not everything could be copied."""
    real = LedgerRepair.copy

    async def copy(self: LedgerRepair, ledger_id: int, metadata: Any, *rest: Any) -> Any:
        try:
            return await real(self, ledger_id, metadata, *rest)
        except LedgerError:
            return metadata

    return [(LedgerRepair, "copy", copy), (LedgerFindings, "whole", property(lambda self: True))]


def bookies_away_are_not_asked_about() -> Patches:
    """Take members that are not registered for whole, because no answer says that they lack anything."""
    real = checking.check

    async def check(
        access: Any, metadata: Any, lost: Collection[str], named: Any = None
    ) -> LedgerFindings:
        registrations = access.bookies.registrations
        before = registrations.read_only
        members = {b for segment in metadata.segments for b in segment.bookies}
        registrations.read_only = [*before, *members]
        try:
            findings = await real(access, metadata, lost, named)
        finally:
            registrations.read_only = before
        findings.unknown = findings.waited = False
        return findings

    return [(ledger_repair, "check", check)]


def only_the_first_segment_is_repaired() -> Patches:
    """Repair the first segment that lacks copies, and call the ledger whole."""
    real = LedgerRepair.examine

    async def examine(self: LedgerRepair, ledger_id: int, *rest: Any) -> Any:
        metadata, findings = await real(self, ledger_id, *rest)
        findings.lost = {first: at for first, at in findings.lost.items() if first == 0}
        findings.open_lost = findings.unknown = findings.waited = False
        return metadata, findings

    return [(LedgerRepair, "examine", examine)]


def open_ledger_is_left_to_its_writer() -> Patches:
    """Wait for the writer of an open ledger for ever, also when it is gone."""

    async def recover(self: LedgerRepair, ledger_id: int, metadata: LedgerMetadata) -> None:
        raise LedgerError("its writer will replace the bookie")

    return [(LedgerRepair, "recover", recover)]


def open_segment_is_repaired_without_recovery() -> Patches:
    """Replace lost bookies in the last segment of an open ledger as well, beside its writer."""
    real_ends = checking.ends

    def ends(metadata: LedgerMetadata) -> list[tuple[int, int]]:
        settled = real_ends(metadata)
        if len(settled) < len(metadata.segments):
            first = metadata.segments[-1].first
            settled.append((first, first - 1))
        return settled

    async def replace_members(
        store: Any, ledger_id: int, known: Any, first: int, replaced: Any, timeout_s: float
    ) -> LedgerMetadata:
        def decide(stored: LedgerMetadata) -> LedgerMetadata | None:
            for segment in stored.segments:
                if segment.first == first:
                    members = tuple(replaced.get(b, b) for b in segment.bookies)
                    return stored.with_members(first, members)
            return None

        return await metadata_update.change(store, ledger_id, decide, timeout_s, known)

    return [
        (checking, "ends", ends),
        (ledger_repair, "ends", ends),
        (metadata_update, "replace_members", replace_members),
    ]


def recovered_ledger_counts_as_whole() -> Patches:
    """Remove the mark of a ledger that was recovered, without copying what it lacks."""
    real = ReplicationWorker._work

    async def work(self: ReplicationWorker, ledger_id: int, grace_of: int | None) -> None:
        before = self._repair.ledgers_recovered
        examine = self._repair.examine

        async def once(number: int, *rest: Any) -> Any:
            metadata, findings = await examine(number, *rest)
            if self._repair.ledgers_recovered > before:
                findings = LedgerFindings()
            return metadata, findings

        self._repair.examine = once  # type: ignore[method-assign]
        try:
            await real(self, ledger_id, grace_of)
        finally:
            self._repair.examine = examine  # type: ignore[method-assign]

    return [(ReplicationWorker, "_work", work)]


def members_are_set_without_compare() -> Patches:
    """Overwrite a ledger's metadata with the repaired ensemble, whatever changed since it was read."""
    real = metadata_update.replace_members

    class Store:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def put(self, path: str, value: bytes, version: int) -> Any:
            return await self._store.put(path, value, ANY_VERSION)

    async def replace_members(store: Any, *rest: Any) -> Any:
        return await real(Store(store), *rest)

    return [(metadata_update, "replace_members", replace_members)]


def copies_go_to_any_rack() -> Patches:
    """Choose the new bookie without regard to racks."""

    def replacements(
        self: BookieChoice, positions: Any, ensemble: Any, quorum: int, excluded: Any = ()
    ) -> dict[int, str]:
        spread = SpreadPlacement(self._placement._entropy)  # type: ignore[attr-defined]
        chosen = spread.replacements(positions, ensemble, quorum, self._candidates())
        return {p: b for p, b in chosen.items() if b not in ensemble}

    return [(BookieChoice, "replacements", replacements)]


def lock_outlives_its_worker() -> Patches:
    """Lock with a persistent node: the ledgers of a worker that dies are locked for ever."""

    async def lock(self: RepairRecords, ledger_id: int, worker: str) -> bool:
        try:
            await self._store.create(paths.repair_lock(ledger_id), b"", make_parents=True)
        except NodeExistsError:
            return False
        return True

    return [(RepairRecords, "lock", lock)]


def worker_waits_for_the_watch_alone() -> Patches:
    """Look for marked ledgers when the root of the marks changes, and not from time to time."""
    real = ReplicationWorker.run

    async def run(self: ReplicationWorker) -> None:
        from dataclasses import replace

        self._settings = replace(self._settings)
        object.__setattr__(self._settings, "rw_rereplicate_backoff_s", 1e6)
        await real(self)

    return [(ReplicationWorker, "run", run)]


def absence_begins_anew_at_each_look() -> Patches:
    """Count the time for which a bookie is away from the last look: it is never over."""
    real = Auditor._look

    async def look(self: Auditor) -> float:
        now = self._clock.monotonic_s()
        self._away = dict.fromkeys(self._away, now)
        return await real(self)

    return [(Auditor, "_look", look)]


def copies_are_adds_of_a_writer() -> Patches:
    """Copy with plain adds, which fenced bookies refuse."""
    return [(segment_copy, "_WORD", wire.header(wire.ADD, 0))]


def every_segment_may_begin_elsewhere() -> Patches:
    """Write the repaired ensemble as a new segment at the end of the ledger, as a writer does."""

    def with_members(self: LedgerMetadata, first: int, bookies: tuple[str, ...]) -> LedgerMetadata:
        return self.with_ensemble(max(self.segments[-1].first, first), bookies)

    def check_follows(self: LedgerMetadata, before: LedgerMetadata) -> None:
        return

    return [
        (ledger_metadata.LedgerMetadata, "with_members", with_members),
        (ledger_metadata.LedgerMetadata, "check_follows", check_follows),
    ]
