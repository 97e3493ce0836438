"""Mistakes of auto-recovery."""

from tests.mutants.edit import Edit

REPAIR = "unit/repair/test_repair.py"

EDITS = (
    Edit(
        "a-copy-begins-behind-the-first-entry",
        "engine/repair/segment_copy.py::SegmentCopy.run",
        "at = self._first",
        "at = self._first + 1",
        (f"{REPAIR}::test_copies_of_a_lost_bookie_are_made_again",),
        "I33",
    ),
    Edit(
        "an-open-ledger-is-recovered-at-once",
        "engine/repair/worker.py::ReplicationWorker._work",
        "if grace_of != first:",
        "if not first + 1:",
        (f"{REPAIR}::test_an_open_ledger_is_recovered_after_its_grace_and_not_before",),
        "I34",
    ),
    Edit(
        "a-later-mark-is-removed",
        "engine/repair/marks.py::RepairRecords.remove",
        "await self._store.delete(path, mark.version)",
        "await self._store.delete(path)",
        ("unit/repair/test_marks.py::test_marks_merge_and_a_removal_respects_a_later_one",),
        "I35",
    ),
    Edit(
        "a-bookie-that-is-away-counts-as-a-copy",
        "engine/repair/checking.py::check",
        """
        if bookie not in serving:
            positions.append(position)
            continue
        """,
        """
        if bookie not in serving:
            continue
        """,
        (f"{REPAIR}::test_a_deleted_ledger_loses_its_mark_and_a_hopeless_one_keeps_it",),
        "I42",
    ),
    Edit(
        "a-lost-bookie-is-not-waited-for",
        "engine/repair/auditor.py::Auditor._look",
        "if self._away and (self._triggered or len(together) > 1 or until <= now):",
        "if self._away:",
        (f"{REPAIR}::test_a_bookie_that_is_back_within_the_delay_is_waited_for",),
        "I43",
    ),
    Edit(
        "a-cookie-goes-before-the-copies",
        "engine/repair/bookie_changes.py::decommission",
        """
        if not left:
            break
        """,
        "break",
        (f"{REPAIR}::test_decommission_that_does_not_end_names_what_is_left",),
        "I44",
    ),
    Edit(
        "a-ledger-is-deleted-by-its-repair",
        "engine/repair/ledger_repair.py::LedgerRepair._copy_segment",
        'access = self._client.access(ledger_id, metadata.password or b"")',
        """
        await self._store.delete(f"/ledgers/00/0000/L{ledger_id:04d}")
        access = self._client.access(ledger_id, metadata.password or b"")
        """,
        (f"{REPAIR}::test_a_deleted_ledger_loses_its_mark_and_a_hopeless_one_keeps_it",),
        "I45",
    ),
    Edit(
        "a-copy-goes-to-any-bookie",
        "engine/ledger/cluster/choice.py::BookieChoice.replacements",
        "chosen = self._placement.replacements(positions, ensemble, write_quorum, candidates)",
        "chosen = dict.fromkeys(positions, candidates.writable[0])",
        (f"{REPAIR}::test_a_copy_needs_another_bookie",),
        "I46",
    ),
)
