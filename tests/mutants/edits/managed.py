"""Mistakes in the managed ledger: the list of ledgers, cursors, what is trimmed and what is read."""

from tests.mutants.edit import Edit

ROLLING = "engine/managed/writing/rolling.py"
LEDGER = "unit/managed/test_ledger.py"
INVARIANTS = "unit/managed/test_invariants.py"
CURSOR = "unit/managed/cursors/test_cursor.py"
CHANGES = "unit/broker/administration/previews/test_cursor_changes.py"
STORE = "engine/managed/cursors/cursor_store.py"
APPENDER = "engine/managed/writing/appender.py"
LOADING_TEST = "unit/managed/test_loading.py"
HELD = "unit/managed/test_held_reads.py"
HELD_TOPIC = "unit/broker/test_held_reads.py"
OPENING = "unit/managed/reading/test_entry_reader.py"
TOPICS = "unit/broker/topics"
WHERE = "unit/broker/compaction"
TOPIC = f"{WHERE}/test_topic_compaction.py"
CRASH = (f"{TOPIC}::test_a_crash_at_any_step_leaves_the_old_or_the_new_ledger_and_no_other",)
DELETION_TEST = "unit/broker/administration/test_deletion.py"

EDITS = (
    Edit(
        "next-ledger-before-the-last-is-closed",
        f"{ROLLING}::LedgerList.follow",
        """
        if old is not None:
            await self._settle(old)
        """,
        "",
        ("unit/managed/test_promises.py::test_m2_at_most_the_last_ledger_of_the_list_is_open",),
        "I36",
    ),
    Edit(
        "ledger-used-before-it-is-listed",
        f"{ROLLING}::LedgerList.follow",
        "await self._write([*self.line.ledgers, fresh])",
        "pass",
        (f"{LEDGER}::test_rollover_keeps_order_and_lists_each_ledger_before_it_confirms",),
        "I36",
    ),
    Edit(
        "list-written-over",
        "engine/managed/stored/node.py::StoredNode.write",
        "await self._store.put(self.path, value, self.version)",
        "await self._store.put(self.path, value)",
        (
            "unit/managed/test_lost_races.py::test_i39_a_change_between_read_and_write_is_not_overwritten",
        ),
        "I39",
    ),
    Edit(
        "anothers-value-taken-for-ours",
        "engine/managed/stored/node.py::StoredNode._settle",
        "if stat.version == self.version + 1 and value == self._unsure:",
        "if stat.version == self.version + 1:",
        (
            "unit/managed/test_lost_races.py::test_i39_anothers_write_after_one_without_an_answer_is_not_ours",
        ),
        "I39",
    ),
    Edit(
        "cursors-listed-before-the-list-was-ours",
        "engine/managed/stored/node.py::StoredNode._wrote",
        "stat.children_version == self._children_version",
        "True",
        (
            "unit/managed/test_loading.py::test_a_cursor_created_by_the_former_owner_during_a_takeover_is_loaded",
        ),
    ),
    Edit(
        "list-not-recovered",
        f"{ROLLING}::LedgerList.recover",
        "recover=True",
        "recover=False",
        (f"{LEDGER}::test_old_owner_confirms_nothing_after_a_new_one_opened",),
        "I39",
    ),
    Edit(
        "deleted-before-the-list-is-stored",
        f"{ROLLING}::LedgerList.trim",
        "self._dropped += dropped_ids",
        "self._doomed += dropped_ids\nawait self.sweep()",
        (f"{INVARIANTS}::test_i37_a_ledger_is_deleted_only_when_the_stored_list_has_dropped_it",),
        "I37",
    ),
    Edit(
        "doomed-though-the-list-was-not-stored",
        f"{ROLLING}::LedgerList._write",
        """
        except BaseException:
            self._dropped = dropped + self._dropped
            self._dropped_objects = objects + self._dropped_objects
            raise
        """,
        """
        except BaseException:
            self._doomed += dropped
            raise
        """,
        (
            "unit/managed/test_lost_races.py::test_i37_nothing_is_deleted_while_the_list_could_not_be_stored",
        ),
        "I37",
    ),
    Edit(
        "trimmed-one-entry-ahead-of-cursors",
        "engine/managed/writing/lifecycle.py::trimmable",
        "stop > consumed",
        "stop > consumed + 1",
        (
            "unit/managed/writing/test_lifecycle.py::test_only_wholly_consumed_ledgers_are_trimmed_and_never_the_last",
        ),
        "I37",
    ),
    Edit(
        "trimmed-by-the-unpersisted-mark",
        "engine/managed/cursors/cursor.py::Cursor.trim_limit",
        "min(self._stored_mark, self._acks.mark)",
        "self._acks.mark",
        (f"{CURSOR}::test_consumed_ledgers_are_trimmed_only_behind_persisted_marks",),
        "I37",
    ),
    Edit(
        "trimming-takes-what-an-undo-needs",
        "engine/managed/ledger.py::ManagedLedger",
        "self._trimmer.begin(self._cursors.trim_limit, self._trimmed)",
        "self._trimmer.begin(self._cursors.consumed, self._trimmed)",
        (f"{CHANGES}::test_skipped_entries_are_kept_for_a_quarter_of_an_hour",),
    ),
    Edit(
        "next-owner-trims-what-an-undo-needs",
        "engine/managed/cursors/cursor.py::Cursor.__init__",
        "self._kept = self._kept_by_change()",
        "self._kept = None",
        (f"{CHANGES}::test_skipped_entries_are_kept_for_a_quarter_of_an_hour",),
    ),
    Edit(
        "change-of-nothing-takes-the-way-back",
        "engine/managed/cursors/cursor.py::Cursor.move",
        "if effect.nothing:",
        "if False:",
        (f"{CHANGES}::test_a_change_of_nothing_leaves_the_last_one_to_be_undone",),
    ),
    Edit(
        "stored-mark-ahead-of-what-is-stored",
        "engine/managed/cursors/persister.py::Persister._write",
        "self.mark = mark",
        "self.mark = self._snapshot()[1]",
        (
            "unit/managed/test_writes_under_way.py::test_i38_an_acknowledgement_during_a_write_does_not_count_as_stored",
        ),
        "I38",
    ),
    Edit(
        "acknowledgement-confirmed-before-it-is-stored",
        "engine/managed/cursors/persister.py::Persister.wait",
        "await waiter",
        "pass",
        (f"{CURSOR}::test_persisted_acknowledgements_survive_a_crash_and_later_ones_may_not",),
        "I38",
    ),
    Edit(
        "reset-answered-before-it-is-stored",
        "engine/managed/cursors/cursor.py::Cursor.reset",
        "await self.persisted()",
        "pass",
        (
            "unit/managed/test_writes_under_way.py::test_m9_a_move_of_the_cursor_returns_when_it_is_stored",
        ),
        "M9",
    ),
    Edit(
        "parts-of-batches-cut-off",
        f"{STORE}::CursorStore._fits",
        "return len(self._record(-1, state).encode()) <= INLINE_BYTES_MAX",
        "return True",
        (f"{INVARIANTS}::test_i38_many_partly_acknowledged_batches_survive_at_any_size",),
        "I38",
    ),
    Edit(
        "cursor-not-taken-from-its-old-owner",
        f"{STORE}::CursorStore.take",
        """
        if not await self._move_to_node(state):
            await self._point(self.ledger_id, state)
        """,
        "pass",
        (f"{LEDGER}::test_old_owner_cannot_confirm_an_acknowledgement_to_a_cursor_it_lost",),
        "I39",
    ),
    Edit(
        "receipt-after-the-session-may-have-ended",
        "engine/managed/writing/appender.py::Appender.confirmed",
        "if self._state.ended or not self._tenure.proven():",
        "if self._state.ended:",
        (
            "unit/broker/control/test_lapsed_ownership.py::test_no_receipt_leaves_after_the_session_may_have_ended",
        ),
    ),
    Edit(
        "acknowledgement-after-the-session-may-have-ended",
        "engine/managed/cursors/persister.py::Persister.wait",
        "if not self._tenure.proven():",
        "if False:",
        (
            "unit/managed/test_writes_under_way.py::test_an_acknowledgement_stored_after_the_session_ended_is_not_confirmed",
        ),
    ),
    Edit(
        "ids-given-twice-are-used",
        f"{ROLLING}::LedgerList._check_fresh",
        "if fresh > highest:",
        "if fresh != highest:",
        (
            "unit/managed/test_promises.py::test_m3_falling_ledger_ids_are_refused_and_nothing_is_written",
        ),
        "M3",
    ),
    Edit(
        "confirmation-of-an-earlier-entry-taken-for-this-ones",
        "engine/managed/cursors/cursor_ledger.py::CursorLedger.confirmed",
        "below > self._entry and",
        "",
        (
            "unit/managed/cursors/test_cursor_ledger.py::test_i38_the_confirmation_of_a_cancelled_write_does_not_confirm_the_next",
        ),
    ),
    Edit(
        "deletion-not-marked",
        "engine/managed/stored/removal.py::mark_deleted",
        "await node.write(marked.encode())",
        "pass",
        ("unit/managed/test_deletions.py::test_m17_a_topics_interrupted_deletion_is_finished",),
        "M17",
    ),
    Edit(
        "shadow-topics-recover-the-ledgers-of-their-source",
        "engine/managed/shadow_ledger.py::ShadowReads._opened",
        "owner=False",
        "owner=True",
        (
            "unit/managed/reading/test_shadow_ledger.py"
            "::test_m19_the_source_goes_on_writing_its_ledger",
        ),
        "M19",
    ),
    Edit(
        "a-shadow-topic-deletes-its-sources-ledgers",
        "engine/managed/factory.py::ManagedLedgerFactory.begin_deletion",
        "record.ledgers = []",
        "pass",
        (
            "unit/managed/reading/test_shadow_ledger.py"
            "::test_a_record_that_lists_ledgers_of_the_source_is_deleted_without_them",
        ),
        "M19",
    ),
    Edit(
        "a-deletion-at-rest-fences-no-writer",
        "engine/managed/factory.py::ManagedLedgerFactory.begin_deletion",
        "await self._settle_last(record)",
        "pass",
        (
            "unit/managed/test_deletions.py"
            "::test_i39_a_deletion_by_the_next_owner_fences_the_previous_writer",
        ),
        "I39",
    ),
    Edit(
        "a-change-takes-the-mark-of-a-deletion-back",
        "engine/managed/writing/rolling.py::LedgerList.mark_deleted",
        "self._is_deleted = True",
        "pass",
        ("unit/managed/test_deletions.py::test_no_change_takes_the_mark_of_a_deletion_back",),
        "M17",
    ),
    Edit(
        "cursor-kept-though-its-deletion-is-unsure",
        "engine/managed/cursors/cursor_set.py::CursorSet._delete",
        'self._mark_unread(name, f"its deletion is not confirmed: {_reason(error)}")',
        "pass",
        (
            "unit/broker/topics/subscriptions/test_unsure_subscriptions.py"
            "::test_after_a_failed_deletion_the_subscription_is_complete_or_deleted",
        ),
        "M16",
    ),
    Edit(
        "cursor-forgotten-though-its-creation-is-unsure",
        "engine/managed/cursors/cursor_set.py::CursorSet._create",
        'self._mark_unread(name, f"its creation is not confirmed: {_reason(error)}")',
        "del self.by_name[name]",
        (
            "unit/broker/topics/subscriptions/test_unsure_subscriptions.py"
            "::test_a_subscription_whose_creation_got_no_answer_is_complete_or_absent",
        ),
        "M16",
    ),
    Edit(
        "properties-of-any-size-beside-a-cursor-ledger",
        f"{STORE}::CursorStore._record",
        "if ledger_id >= 0 and _properties_bytes(state) > INLINE_BYTES_MAX:",
        "if False:",
        (f"{CURSOR}::test_properties_larger_than_a_node_survive_every_change_of_owner",),
    ),
    Edit(
        "a-client-names-ledgers-to-be-deleted",
        "engine/managed/cursors/cursor_set.py::CursorSet.open",
        "check_cursor_properties(cursor_properties)",
        "",
        (
            f"{CURSOR}::test_properties_of_a_subscription_that_are_too_large_or_the_brokers_own_are_refused",
        ),
    ),
    Edit(
        "a-roll-that-fails-is-not-answered",
        f"{APPENDER}::Appender._roll",
        "except Exception as error:",
        "except (LedgerError, WorldError, ManagedLedgerError) as error:",
        (
            "unit/managed/test_promises.py::test_a_roll_that_fails_unexpectedly_fails_its_appends_and_is_retried",
        ),
    ),
    Edit(
        "a-close-that-ends-at-an-unexpected-exception",
        "engine/managed/ledger.py::ManagedLedger._close",
        'with contained(f"clean close of {self.name}"):',
        "if True:",
        (
            f"{LEDGER}::test_a_close_that_fails_unexpectedly_persists_the_other_cursors_and_ends_the_log",
        ),
    ),
    Edit(
        "a-write-of-a-cursor-that-fails-unexpectedly-is-not-answered",
        "engine/managed/cursors/persister.py::Persister._run",
        'self._fail(ManagedLedgerError(f"cursor {self._name} cannot be written: {error!r}"))',
        "pass",
        (
            f"{CURSOR}::test_a_state_that_cannot_be_encoded_fails_its_waiters_and_is_retried_after_a_pause",
        ),
    ),
    Edit(
        "a-large-state-of-a-cursor-is-read-at-once",
        "engine/managed/stored/cursor_entries.py::last_readable",
        "await with_pauses(CursorState.decoding(run.entry(0)))",
        "CursorState.decode(run.entry(0))",
        (f"{LOADING_TEST}::test_other_tasks_run_while_a_large_state_is_loaded",),
    ),
    Edit(
        "a-change-of-nothing-is-confirmed-before-it-is-durable",
        "engine/managed/cursors/cursor.py::Cursor.move",
        "await self.persisted()\n                return",
        "return",
        (
            "unit/broker/administration/previews/test_cursor_changes.py::"
            "test_a_change_of_nothing_is_confirmed_when_what_it_skips_is_durably_acknowledged",
        ),
    ),
    Edit(
        "readers-ahead-of-the-readable-limit",
        "engine/managed/cursors/cursor_reader.py::CursorReader._read_memory",
        "end = self._line.readable_to",
        "end = self._line.durable_to",
        (
            f"{HELD}::test_i40_readers_receive_nothing_behind_the_limit_and_are_woken_when_it_rises",
            f"{HELD_TOPIC}::test_i40_consumers_receive_entries_once_they_are_readable",
        ),
        "I40",
    ),
    Edit(
        "the-readable-limit-follows-though-held",
        "engine/managed/positions.py::LedgerLine.grow",
        "if not self._held:",
        "if True:",
        (f"{HELD}::test_i40_the_readable_limit_is_never_ahead_of_what_is_durable",),
        "I40",
    ),
    Edit(
        "a-released-limit-wakes-nobody",
        "engine/managed/ledger.py::ManagedLedger._hold_reads",
        "self._appender.notify_readers()",
        "pass",
        (f"{HELD_TOPIC}::test_i40_consumers_receive_entries_once_they_are_readable",),
        "I40",
    ),
    Edit(
        "trimmed-before-it-could-be-read",
        "engine/managed/cursors/cursor_set.py::CursorSet.trim_limit",
        "min([line.readable_to, *limits])",
        "min(limits, default=line.durable_to)",
        (f"{HELD}::test_i40_nothing_behind_the_limit_is_trimmed",),
        "I40",
    ),
    Edit(
        "an-offloaded-ledger-counts-as-lost",
        "engine/managed/reading/entry_reader.py::open_entries",
        """
        if offload.deleted_from_bookies:
            raise OffloadedError(
        """,
        """
        if False:
            raise OffloadedError(
        """,
        (f"{OPENING}::test_an_offloaded_ledger_is_read_from_the_bookies_while_they_keep_it",),
    ),
    Edit(
        "expiry-takes-the-first-young-one",
        "engine/managed/reading/search.py::find_by_time",
        "return line.before(low)",
        "return line.before(min(low + 1, line.durable_to))",
        (f"{TOPICS}/test_expiry.py::test_younger_messages_are_not_acknowledged",),
        "D11",
    ),
    Edit(
        "age-by-publishers-clocks-alone",
        "engine/managed/ledger.py::ManagedLedger._summary_of",
        "max(published_ms, since_ms)",
        "published_ms",
        (
            f"{TOPICS}/test_expiry.py::test_fresh_messages_are_kept_when_clocks_of_some_publishers_are_wrong",
        ),
        "D11",
    ),
    Edit(
        "compacted-ledger-that-counts-is-deleted",
        "engine/managed/cursors/cursor_store.py::CursorStore.take",
        "self._doomed.pop(state.properties.get(COMPACTED_LEDGER, -1), None)",
        "pass",
        CRASH,
        "M18",
    ),
    Edit(
        "what-is-replayed-is-held-however-large-its-buffers-are",
        "engine/managed/reading/replay.py::replay",
        "held += sum({id(view.run): view.run.held for view in more_views}.values())",
        "pass",
        (
            "unit/managed/test_ledger.py::"
            "test_backlog_is_read_from_the_bookies_when_the_cache_is_small",
        ),
    ),
    Edit(
        "what-a-cut-off-deletion-left-stays",
        "engine/managed/factory.py::ManagedLedgerFactory._start_once",
        "if forget is not None:",
        "if False:",
        (f"{DELETION_TEST}::test_remains_of_an_interrupted_deletion_are_deleted_on_the_next_use",),
    ),
)
