"""Mistakes in the bookie."""

from tests.mutants.edit import Edit

CRASH = "unit/bookie/storage/test_storage_crash.py"
INVARIANTS = "unit/bookie/storage/test_invariants.py"
SERVER = "unit/bookie/test_server.py"

EDITS = (
    Edit(
        "journal-not-synced",
        "bookie/storage/journal/journal.py::JournalWriter.write_group",
        "self._file.fdatasync()",
        "pass",
        (f"{CRASH}::test_answered_adds_and_fences_survive_a_crash_at_every_disk_operation",),
        "I19",
    ),
    Edit(
        "journal-synced-before-the-write",
        "bookie/storage/journal/journal.py::JournalWriter.write_group",
        """
        try:
            self._file.pwritev(parts, self._offset)
        except OSError as error:
            full = as_full(error)
            if full is error:
                self._broken = error
            raise full from error
        try:
            self._file.fdatasync()
        """,
        """
        try:
            self._file.fdatasync()
        except OSError as error:
            full = as_full(error)
            if full is error:
                self._broken = error
            raise full from error
        try:
            self._file.pwritev(parts, self._offset)
        """,
        (f"{CRASH}::test_answered_adds_and_fences_survive_a_crash_at_every_disk_operation",),
        "B1",
    ),
    Edit(
        "adds-taken-until-the-fence-is-synced",
        "bookie/storage/ledgers.py::Ledgers.add",
        "elif ledger.fenced and not recovery:",
        "elif ledger.fence_durable and not recovery:",
        (f"{INVARIANTS}::test_i23_a_fence_divides_the_adds_of_one_buffer_into_seen_and_refused",),
        "I23",
    ),
    Edit(
        "fence-not-asked",
        "bookie/storage/ledgers.py::Ledgers.add",
        "elif ledger.fenced and not recovery:",
        "elif False:",
        (f"{SERVER}::test_a_fence_survives_a_crash_also_of_a_ledger_never_seen",),
        "I20",
    ),
    Edit(
        "fence-answered-before-its-sync",
        "bookie/requests/entry_reads.py::EntryReads.fence",
        """
        self._journal.append(RecordKind.FENCE, record.body, 0, partial(self._fenced, ledger_id, done))
        """,
        """
        self._journal.append(RecordKind.FENCE, record.body, 0, partial(self._fenced, ledger_id, lambda _: None))
        done(code)
        """,
        ("unit/bookie/test_answers_after_sync.py::test_nothing_is_answered_before_its_sync",),
        "I20",
    ),
    Edit(
        "unreadable-entry-denied",
        "bookie/storage/read_queue.py::StoredEntries._read_range",
        "return Code.IO, []",
        "return Code.NO_ENTRY, []",
        ("unit/bookie/test_answers.py::test_an_unreadable_entry_is_an_error_never_an_absence",),
        "I21 B3",
    ),
    Edit(
        "limbo-denies",
        "bookie/storage/ledgers.py::Ledgers.absent",
        "return Code.LIMBO if ledger.limbo else Code.NO_ENTRY",
        "return Code.NO_ENTRY",
        ("unit/bookie/test_answers.py::test_a_bookie_that_may_have_lost_entries_denies_none",),
        "I21",
    ),
    Edit(
        "disk-miss-denied-without-asking",
        "bookie/requests/entry_reads.py::EntryReads._stored",
        "if code == Code.NO_ENTRY:",
        "if False:",
        ("unit/bookie/test_answers.py::test_a_bookie_that_may_have_lost_entries_denies_none",),
        "B4",
    ),
    Edit(
        "missing-cookie-overlooked",
        "bookie/cookies.py::check_cookie",
        "if stored is not None and None in local:",
        "if stored is not None and all(text is None for text in local):",
        ("unit/bookie/test_directories.py::test_a_wiped_or_foreign_directory_is_refused",),
        "I22 B6",
    ),
    Edit(
        "first-copy-wins",
        "bookie/storage/write_cache.py::LedgerRuns.find",
        "reversed(self.runs)",
        "self.runs",
        (
            f"{INVARIANTS}::test_i24_what_recovery_writes_again_is_taken_and_read_as_it_came",
            "unit/bookie/storage/test_formats.py::test_the_latest_copy_of_an_entry_wins_in_the_cache",
        ),
        "I24",
    ),
    Edit(
        "key-not-compared",
        "bookie/storage/ledgers.py::Ledgers.fence",
        "elif ledger.master_key != master_key:",
        "elif False:",
        (f"{INVARIANTS}::test_i25_a_wrong_key_adds_fences_and_confirms_nothing",),
        "I25",
    ),
    Edit(
        "key-not-compared-by-adds",
        "bookie/storage/ledgers.py::Ledgers.add",
        "elif ledger.master_key != run.master_key:",
        "elif ledger.master_key != run.master_key and not recovery:",
        (f"{INVARIANTS}::test_i25_a_wrong_key_adds_fences_and_confirms_nothing",),
        "I25",
    ),
    Edit(
        "mark-goes-back",
        "bookie/storage/checkpoint.py::Flusher.secure",
        "self._checkpoint(self.persisted)",
        "self._checkpoint(Mark(0, 0, 1))",
        (
            f"{INVARIANTS}::test_i26_i27_the_mark_only_rises_and_journal_files_are_given_up_only_behind_it",
        ),
        "I26",
    ),
    Edit(
        "fences-left-out-of-a-flush",
        "bookie/storage/ledgers.py::Ledgers.fence",
        """
            ledger.fenced = True
            self._changed[ledger_id] = ledger
        """,
        "ledger.fenced = True",
        (
            "unit/bookie/storage/test_checkpoints.py::test_a_change_of_a_flushed_ledger_is_in_the_next_flush",
        ),
        "I26",
    ),
    Edit(
        "journal-trimmed-one-file-early",
        "bookie/storage/journal/journal.py::JournalWriter.recycle",
        "if file_id < mark.file_id",
        "if file_id <= mark.file_id",
        (
            f"{INVARIANTS}::test_i26_i27_the_mark_only_rises_and_journal_files_are_given_up_only_behind_it",
        ),
        "I27",
    ),
    Edit(
        "journal-trimmed-before-the-checkpoint",
        "bookie/storage/checkpoint.py::Checkpointer._checkpoint",
        "await self._lane.run(self._flusher.checkpoint)",
        "self._flusher.flushed",
        (
            "unit/bookie/storage/test_checkpoints.py::test_journal_files_are_given_up_only_behind_a_mark_that_is_stored",
        ),
        "I27",
    ),
    Edit(
        "silence-proves-deletion",
        "bookie/garbage.py::GarbageCollector._is_deleted",
        "return await self._store.exists(paths.ledger(ledger_id)) is None",
        """
        try:
            return await self._store.exists(paths.ledger(ledger_id)) is None
        except StoreUnavailableError:
            return True
        """,
        (f"{INVARIANTS}::test_i28_a_round_that_cannot_check_every_ledger_deletes_nothing",),
        "I28",
    ),
    Edit(
        "candidates-listed-after-the-question",
        "bookie/storage/gc.py::find_deleted",
        "[ledger_id for ledger_id in candidates if await is_deleted(ledger_id)]",
        "candidates if all([await is_deleted(ledger_id) for ledger_id in candidates[:1]]) else []",
        ("unit/bookie/test_server.py::test_deleted_ledgers_are_forgotten_and_not_restored",),
        "I28 B10",
    ),
    Edit(
        "lagging-store-believed",
        "engine/metadata/zookeeper.py::ZooKeeperStore.exists",
        """
        self._send_request(Sync(self._full(path)), lambda answer: _note_failure(answer, failed))
        """,
        "pass",
        ("unit/metadata/test_lagging_server.py::test_absence_is_checked_again_after_a_sync",),
        "I28",
    ),
    Edit(
        "copies-not-synced",
        "bookie/storage/compaction.py::Copier.sync",
        "self._writer.sync()",
        "pass",
        (
            "unit/bookie/storage/test_compaction.py::test_a_crash_at_any_disk_operation_of_collection_and_compaction_loses_nothing",
        ),
        "I29 B11",
    ),
    Edit(
        "source-removed-before-the-index-is-flushed",
        "bookie/storage/checkpoint.py::Flusher.secure",
        """
            self._manifest.sync()
            self._index.flush()
        """,
        "self._manifest.sync()",
        (
            "unit/bookie/storage/test_compaction.py::test_a_crash_at_any_disk_operation_of_collection_and_compaction_loses_nothing",
        ),
        "I29",
    ),
    Edit(
        "pinned-log-forgotten",
        "bookie/storage/index/index.py::BookieIndex.pin",
        "self._use(changes, log_id, PINNED, 1)",
        "pass",
        (
            f"{INVARIANTS}::test_i30_a_log_that_was_not_understood_in_full_outlives_all_its_known_ledgers",
        ),
        "I30",
    ),
    Edit(
        "read-only-takes-adds",
        "bookie/requests/adds.py::Adds._accept",
        "run.flags & PRIORITY_FLAGS and self._has_room()",
        "self._has_room()",
        (
            "unit/bookie/test_disks.py::test_adds_are_refused_while_a_crash_can_still_be_replayed_and_space_be_freed",
        ),
        "I31",
    ),
    Edit(
        "reserve-not-kept",
        "bookie/disks.py::Disks._is_full",
        "space.free < self.reserve_bytes(directory)",
        "not space.free",
        ("unit/bookie/test_reserve.py::test_adds_are_refused_when_only_the_reserve_is_left",),
        "B9",
    ),
    Edit(
        "near-block-of-another-ledger",
        "bookie/storage/read_queue.py::StoredEntries._find",
        "ledger_id == near.ledger_id and near.first <= entry_id < near.below",
        "near.first <= entry_id < near.below",
        (f"{INVARIANTS}::test_i32_answers_of_one_connection_carry_the_bytes_of_their_own_entries",),
        "I32",
    ),
    Edit(
        "torn-record-replayed",
        "bookie/storage/journal/journal_reader.py::_good_records",
        "if len(body) != size or crc32c(body) != crc:",
        "if len(body) != size:",
        (f"{CRASH}::test_a_torn_tail_is_cut_and_never_appended_to",),
        "B2",
    ),
    Edit(
        "damage-taken-for-a-torn-tail",
        "bookie/storage/journal/journal_reader.py::read_groups",
        "if later is not None:",
        "if later is not None and group is None:",
        (f"{CRASH}::test_a_damaged_group_before_good_ones_refuses_to_start",),
        "B2",
    ),
    Edit(
        "cut-off-journal-taken-for-a-torn-tail",
        "bookie/storage/journal/journal_reader.py::read_groups",
        "if file.size() < header.file_bytes:",
        "if file.size() < BLOCK:",
        (f"{CRASH}::test_a_journal_file_that_became_shorter_refuses_to_start",),
        "B2",
    ),
    Edit(
        "block-checksum-not-compared",
        "bookie/storage/logs/entry_log_format.py::decode_block",
        "if crc32c(data) != crc:",
        "if not data:",
        ("unit/bookie/storage/test_formats.py::test_every_cut_and_flip_of_a_block_is_noticed",),
        "B3",
    ),
    Edit(
        "fence-lost-with-the-index",
        "bookie/storage/checkpoint.py::Flusher.flush",
        "notes += [encode_ledger(record) for record in work.records]",
        "pass",
        (
            "unit/bookie/storage/test_rebuild.py::test_entries_fences_and_tombstones_outlive_the_index",
        ),
        "B5",
    ),
    Edit(
        "tombstone-not-asked",
        "bookie/storage/ledgers.py::Ledgers.add",
        "elif ledger.deleted_ms:",
        "elif False:",
        (f"{SERVER}::test_deleted_ledgers_are_forgotten_and_not_restored",),
        "B5",
    ),
    Edit(
        "fence-before-a-restart-forgotten",
        "bookie/storage/ledgers.py::Ledgers.replay_fence",
        "self._ledgers[ledger_id].fence_durable = True",
        "self._ledgers[ledger_id].fenced = False",
        (f"{CRASH}::test_answered_adds_and_fences_survive_a_crash_at_every_disk_operation",),
        "B7",
    ),
    Edit(
        "failed-sync-tried-again",
        "bookie/storage/journal/journal.py::JournalWriter.write_group",
        "self._file.fdatasync()",
        """
        try:
            self._file.fdatasync()
        except OSError:
            self._file.fdatasync()
        """,
        (
            "unit/bookie/storage/test_failed_syncs.py::test_a_sync_that_fails_once_is_never_tried_again",
        ),
        "B8",
    ),
    Edit(
        "failed-sync-answered",
        "bookie/storage/journal/journal.py::Journal._written",
        """
            self._on_fatal(error)
            return
        """,
        "self._on_fatal(error)",
        (
            "unit/bookie/storage/test_journal.py::test_a_failed_sync_answers_no_request_then_or_later",
        ),
        "B8",
    ),
    Edit(
        "short-write-ignored",
        "engine/base/disk/files.py::SystemFile.pwritev",
        "if written != size:",
        "if not written:",
        ("unit/bookie/storage/test_short_writes.py::test_a_short_write_is_continued",),
        "I19",
    ),
    Edit(
        "short-direct-write-ignored",
        "engine/base/disk/files.py::DirectFile._write",
        "while done < size:",
        "if done < size:",
        ("unit/bookie/storage/test_short_writes.py::test_a_short_direct_write_is_continued",),
        "I19",
    ),
    Edit(
        "lac-goes-back",
        "bookie/storage/ledgers.py::Ledgers.write_lac",
        "if not ledger.explicit_lac or lac_of(body) > ledger.written_lac:",
        "if True:",
        (
            "unit/bookie/requests/test_v3.py::test_an_explicit_lac_survives_a_crash_and_never_decreases",
        ),
        "B12",
    ),
    Edit(
        "held-connections-not-released",
        "bookie/requests/adds.py::Adds.relieve",
        "self._release()",
        "pass",
        (f"{SERVER}::test_adds_beyond_the_bound_wait_in_the_socket_and_are_all_answered",),
        "B13",
    ),
    Edit(
        "long-journal-not-noticed",
        "bookie/storage/checkpoint.py::Checkpointer.journal_grew",
        "self.request()",
        "pass",
        (
            "unit/bookie/storage/test_checkpoints.py::test_a_long_journal_is_shortened_without_a_request",
        ),
        "B13",
    ),
    Edit(
        "adds-without-bound",
        "bookie/requests/adds.py::Adds._hold_when_pressed",
        "connection.hold_requests()",
        "pass",
        (f"{SERVER}::test_adds_beyond_the_bound_wait_in_the_socket_and_are_all_answered",),
        "B14",
    ),
    Edit(
        "entry-log-not-synced",
        "bookie/storage/logs/entry_log.py::EntryLogWriter.append",
        "self.sync()",
        "pass",
        (f"{INVARIANTS}::test_i26_what_is_before_the_mark_is_known_without_the_journal",),
        "I26",
    ),
)
