"""Mistakes of auto-recovery."""

from tests.mutants.edit import Edit

REPAIR = "unit/repair/test_repair.py"
DISKS = "unit/bookie/test_failed_disks.py"
PLACES = "unit/repair/test_placement_repair.py"
SCRUB = "unit/bookie/test_scrubbing.py"
LEAVING = "unit/repair/test_decommissions.py"
LOSS_IN_A_CHECK = "test_a_loss_during_a_check_of_all_ledgers_is_audited_and_a_short_absence_is_none"

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
        "an-idle-ledger-with-an-empty-segment-waits-for-its-writer",
        "engine/repair/worker.py::ReplicationWorker._work",
        "if not (findings.open_lost or isinstance(error, UnprovenBookiesError)):",
        "if not findings.open_lost:",
        (f"{REPAIR}::test_idle_ledger_whose_last_segment_is_empty_is_closed_and_copied",),
        "I42",
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
        "a-check-marks-bookies-that-are-waited-for",
        "engine/repair/auditor.py::Auditor.check_ledgers",
        "if segment.bookies[position] in asked",
        "",
        (f"{REPAIR}::{LOSS_IN_A_CHECK}",),
        "I43",
    ),
    Edit(
        "a-repair-takes-every-absent-bookie-for-lost",
        "engine/repair/checking.py::check",
        "if named is not None:",
        "if named is not None and named is None:",
        (f"{REPAIR}::test_a_repair_waits_for_bookies_that_its_mark_does_not_name",),
        "I43",
    ),
    Edit(
        "a-loss-waits-for-the-end-of-a-check",
        "engine/repair/auditor.py::Auditor._begin_check",
        "self._checking = self._tasks.spawn(path, self._check(path, work))",
        "await self._check(path, work)",
        (f"{REPAIR}::{LOSS_IN_A_CHECK}",),
        "I53",
    ),
    Edit(
        "a-ledger-that-cannot-be-read-names-no-bookie",
        "engine/repair/decommissions.py::Decommissioning._carry_on",
        "if unread:",
        "if unread and not unread:",
        (f"{LEAVING}::test_ledgers_whose_metadata_cannot_be_read_keep_the_cookie",),
        "I44",
    ),
    Edit(
        "a-ledger-that-lost-its-mark-stays-on-a-leaving-bookie",
        "engine/repair/decommissions.py::Decommissioning._carry_on",
        "if not is_marked or not await self._records.is_marked(ledger_id):",
        "if not is_marked:",
        (f"{LEAVING}::test_ledgers_that_lost_their_marks_are_marked_again",),
        "I53",
    ),
    Edit(
        "a-cookie-goes-although-its-bookie-registers",
        "engine/repair/bookie_changes.py::remove_cookie",
        "await store.create(path, value)",
        "pass",
        (f"{LEAVING}::test_cookie_of_a_bookie_that_registers_at_this_moment_is_there_again",),
        "I44",
    ),
    Edit(
        "a-bookie-without-its-cookie-registers",
        "bookie/presence.py::Presence.register",
        "if await self._store.exists(self._cookie) is None:",
        "if not self._cookie:",
        (
            "unit/bookie/test_presence.py"
            "::test_a_bookie_that_was_taken_out_while_it_was_cut_off_does_not_register",
        ),
        "I44",
    ),
    Edit(
        "a-ledger-is-deleted-by-its-repair",
        "engine/repair/ledger_repair.py::LedgerRepair._copy_segment",
        "await self.copy_span(ledger_id, metadata, span, chosen)",
        """
        await self._store.delete(f"/ledgers/00/0000/L{ledger_id:04d}")
        await self.copy_span(ledger_id, metadata, span, chosen)
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
    Edit(
        "a-damaged-block-is-passed-over",
        "bookie/storage/scrub.py::_read_run",
        "if block is None or not _covers(block, ledger_id, row):",
        "if block is None:\n    continue\nif not _covers(block, ledger_id, row):",
        (f"{SCRUB}::test_a_damaged_entry_is_found_and_written_again",),
        "I47",
    ),
    Edit(
        "digests-are-not-read-back",
        "bookie/scrubbing.py::Scrubber._next_part",
        "part = await self._read(ledger_id, current.entry, PART_BYTES, self._known[1])",
        "part = await self._read(ledger_id, current.entry, PART_BYTES, None)",
        (f"{SCRUB}::test_an_entry_whose_digest_is_wrong_is_written_again",),
        "I47",
    ),
    Edit(
        "what-is-missing-is-not-looked-for",
        "engine/repair/ledger_repair.py::OwnCopies._missing",
        "if at <= stop and held_from(position, at, size, quorum) <= stop:",
        "if at > stop:",
        (f"{SCRUB}::test_a_missing_entry_is_written_again",),
        "I47",
    ),
    Edit(
        "an-unreadable-entry-is-listed-as-held",
        "bookie/serving.py::Serving._held",
        "return self.scrubber.readable(ledger_id, entries.ranges(ledger_id, logs))",
        "return entries.ranges(ledger_id, logs)",
        (
            f"{SCRUB}::test_without_an_intact_copy_the_ledger_is_marked_and_its_entries_are_not_listed",
        ),
        "I47",
    ),
    Edit(
        "a-restart-reads-everything-back-again",
        "bookie/scrubbing.py::Scrubber._load",
        "self.now, self.last = now or Pass(), last",
        "self.now, self.last = Pass(), last",
        (f"{SCRUB}::test_a_pass_takes_most_of_the_set_time_and_is_continued_after_a_restart",),
        "I47",
    ),
    Edit(
        "what-reads-find-damaged-waits-for-the-next-pass",
        "bookie/serving.py::Serving._damaged",
        "self.scrubber.suspect(ledger_id, entry_id)",
        "pass",
        (f"{SCRUB}::test_damage_that_a_read_meets_is_restored_between_passes",),
        "I47",
    ),
    Edit(
        "a-failed-disk-ends-the-bookie",
        "bookie/storage/logs/log_files.py::LogFiles.fail",
        "if error.errno not in FAILURES or directory not in self.directories[1:]:",
        "if True:",
        (f"{DISKS}::test_writes_go_on_in_the_directories_that_are_left",),
        "I48",
    ),
    Edit(
        "the-disk-of-the-index-is-taken-out",
        "bookie/storage/logs/log_files.py::LogFiles.fail",
        "if error.errno not in FAILURES or directory not in self.directories[1:]:",
        "if error.errno not in FAILURES or directory not in self.directories:",
        (f"{DISKS}::test_without_the_index_or_the_journal_the_bookie_stops",),
        "I48",
    ),
    Edit(
        "one-bad-sector-takes-a-disk-out",
        "bookie/storage/logs/log_files.py::LogFiles.suspect",
        "self.suspects[directory] = str(error)",
        "self.fail(directory, error)",
        (f"{DISKS}::test_one_bad_sector_takes_no_directory_out",),
        "I48",
    ),
    Edit(
        "logs-of-a-failed-disk-count-as-held",
        "bookie/storage/index/index.py::BookieIndex.ranges",
        "if place.log_id in logs",
        "if place.log_id",
        (f"{DISKS}::test_lost_entries_are_errors_and_never_absences",),
        "I48",
    ),
    Edit(
        "ledgers-of-a-failed-disk-are-not-marked",
        "bookie/serving.py::Serving._logs_lost",
        "self.scrubber.lost[ledger_id] = None",
        "pass",
        (f"{DISKS}::test_ledgers_of_a_failed_disk_alone_are_copied_again",),
        "I48",
    ),
    Edit(
        "the-first-directory-may-be-left-out",
        "bookie/cookies.py::reduced_cookie",
        "left[:1] != previous.ledger_dirs[:1] or",
        "",
        (f"{DISKS}::test_a_start_without_a_failed_directory_needs_leave",),
        "I48",
    ),
    Edit(
        "a-drained-bookie-counts-as-a-copy",
        "engine/repair/worker.py::ReplicationWorker._work",
        "away = await draining(self._store)",
        "away = list[str]()",
        (f"{PLACES}::test_a_read_only_bookie_is_drained_while_it_serves",),
        "I49",
    ),
    Edit(
        "a-cookie-goes-while-its-bookie-serves",
        "engine/repair/decommissions.py::Decommissioning._carry_on",
        "await self._keep(bookie, replace(request, left=0, counted_ms=counted_ms, waits=DRAINED))\nreturn",
        "pass",
        (f"{PLACES}::test_a_read_only_bookie_is_drained_while_it_serves",),
        "I49",
    ),
    Edit(
        "copies-in-one-rack-stay",
        "engine/repair/worker.py::ReplicationWorker._place",
        "if moved:",
        "if not moved:",
        (f"{PLACES}::test_a_ledger_in_one_rack_is_moved_where_that_is_enabled",),
        "I50",
    ),
    Edit(
        "copies-are-moved-where-that-is-not-enabled",
        "engine/repair/auditor.py::Auditor.check_placement",
        "if self._settings.repaired_placement_policy_not_adhering_bookie_enabled:",
        "if True:",
        (f"{PLACES}::test_a_ledger_in_one_rack_is_moved_where_that_is_enabled",),
        "I50",
    ),
    Edit(
        "intact-copies-are-moved",
        "engine/repair/checking.py::check",
        "elif lacks(ranges, first, last, position, size, write_quorum):",
        "else:",
        (f"{REPAIR}::test_intact_copies_of_a_marked_ledger_stay_where_they_are",),
        "I51",
    ),
    Edit(
        "every-candidate-is-elected",
        "engine/repair/election.py::Election._lead",
        "return stat is not None and stat.ephemeral_owner == self._session",
        "return stat is not None",
        ("unit/repair/test_marks.py::test_a_leader_of_the_other_place_keeps_it",),
        "I52",
    ),
    Edit(
        "entries-written-again-stay-unreadable",
        "bookie/scrubbing.py::Scrubber._holes",
        "if damage.digest:",
        "if True:",
        (f"{SCRUB}::test_entries_that_a_worker_writes_again_are_listed_at_once",),
        "I47",
    ),
    Edit(
        "lost-bookies-are-waited-for-without-end",
        "engine/repair/auditor.py::Auditor._look",
        "until = min(self._away.values(), default=now) + delay",
        "until = now + delay",
        (f"{REPAIR}::test_copies_of_a_lost_bookie_are_made_again",),
        "I53",
    ),
)
