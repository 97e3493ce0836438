"""Mistakes in runs of analyses."""

from tests.mutants.edit import Edit

SERVICES = "gateway/jobs/services.py"
RECOVERY = "unit/gateway/jobs/test_recovery.py"
ATTEMPTS = "unit/gateway/jobs/test_attempts.py"
SCHEDULES = "unit/gateway/jobs/launching/test_schedules.py"
WORKER = "unit/gateway/jobs/worker/test_worker.py"
SILENT = "unit/gateway/jobs/test_silent_redis.py"
OFFSETS = "spark_jobs/pulsar_source/offsets.py"
STREAMS = "unit/spark_jobs/test_offsets.py"
TRIMMED = "unit/spark_jobs/test_trimmed.py"
THROUGH_BROKERS = "unit/spark_jobs/brokers/test_entries.py"

EDITS = (
    Edit(
        "copies-of-one-batch-share-a-sequence-id",
        "gateway/services/copying/plan.py::SourcePart.sequence",
        "+ max(index, 0)",
        "",
        (
            "unit/gateway/services/copying/test_plan.py"
            "::test_sequence_ids_rise_over_ledgers_and_within_batches",
        ),
        "J11",
    ),
    Edit(
        "sequence-ids-of-a-copy-begin-again-with-each-ledger",
        "gateway/services/copying/plan.py::SourcePart.ordinal",
        "next(base for ledger, base in self.ledgers if ledger == ledger_id) + entry_id",
        "entry_id",
        (
            "unit/gateway/services/copying/test_plan.py"
            "::test_sequence_ids_rise_over_ledgers_and_within_batches",
        ),
        "J11",
    ),
    Edit(
        "chunks-of-a-message-sent-anew-are-copied-as-one-more",
        "gateway/services/copying/reading.py::whole_chunked",
        "if number == 0 and places and place != places[0]:",
        "if False:",
        (
            "unit/gateway/services/copying/test_interrupted.py"
            "::test_each_message_is_copied_once_wherever_it_is_interrupted",
        ),
        "J11",
    ),
    Edit(
        "an-interrupted-undo-calls-its-own-skips-consumed",
        "gateway/services/copying/undoing.py::CopyUndoer._attempt",
        "if self._again:",
        "if False:",
        (
            "unit/gateway/services/copying/test_interrupted.py"
            "::test_an_undo_takes_all_copies_back_and_never_says_that_a_consumer_had_them",
        ),
        "J11",
    ),
    Edit(
        "attempts-not-compared",
        f"{SERVICES}::_held",
        "attempt=run.attempt, ",
        "",
        (
            "unit/gateway/jobs/test_late_attempts.py::test_a_late_attempt_changes_nothing_of_the_one_at_work",
        ),
        "J1",
    ),
    Edit(
        "lease-not-compared",
        f"{SERVICES}::_as_read",
        "lease_until_ms=run.lease_until_ms,",
        "",
        (f"{RECOVERY}::test_a_heartbeat_just_before_the_recovery_keeps_the_run",),
        "J1",
    ),
    Edit(
        "files-not-synced",
        "gateway/jobs/outputs.py::seal",
        "_sync(path)",
        "pass",
        (
            "unit/gateway/jobs/test_outputs.py::test_files_are_durable_before_the_row_points_to_them",
        ),
        "J2",
    ),
    Edit(
        "cancelled-run-succeeds",
        f"{SERVICES}::finish",
        "if _held(run).filter(cancel_requested=False).update(**changes):",
        "if _held(run).update(**changes):",
        (f"{ATTEMPTS}::test_a_cancellation_is_final",),
        "J3",
    ),
    Edit(
        "claimed-twice",
        f"{SERVICES}::claim",
        "attempt=attempt, state=RunState.QUEUED",
        "attempt=attempt",
        (f"{ATTEMPTS}::test_a_message_received_twice_is_processed_once",),
        "J4",
    ),
    Edit(
        "lost-message-not-sent-again",
        f"{SERVICES}::recover",
        "if not enqueue(run_id=run.id, attempt=run.attempt):",
        "if False:",
        (f"{RECOVERY}::test_a_run_whose_message_could_not_be_sent_is_queued_and_done_later",),
        "J4",
    ),
    Edit(
        "outcome-after-the-lease",
        "gateway/jobs/tasks.py::_close",
        "None if heartbeat.lost else services.finish(run=run, state=state, **outcome)",
        "services.finish(run=run, state=state, **outcome)",
        (f"{WORKER}::test_a_worker_that_cannot_renew_its_lease_stops_and_closes_nothing",),
        "J5",
    ),
    Edit(
        "progress-goes-back",
        f"{SERVICES}::report",
        "held.filter(done__lte=done).update",
        "held.update",
        ("unit/gateway/jobs/test_progress.py::test_progress_never_goes_back",),
    ),
    Edit(
        "a-start-of-a-run-waits-for-redis",
        "gateway/jobs/services.py::in_background",
        "_sender.submit(run)",
        "run()",
        (f"{SILENT}::test_a_run_is_taken_at_once_though_redis_is_silent",),
        holds="J4",
    ),
    Edit(
        "every-console-that-opens-asks-redis",
        "gateway/jobs/services.py::Warming.request",
        "self._sending.acquire(blocking=False)",
        "True",
        (f"{SILENT}::test_consoles_that_open_do_not_wait_for_redis_and_request_once",),
    ),
    Edit(
        "telling-the-workers-takes-as-long-as-redis-likes",
        "gateway/jobs/sending.py::send",
        '"socket_timeout": timeout_s',
        '"socket_timeout": None',
        (f"{SILENT}::test_notifying_the_workers_has_a_time_out",),
    ),
    Edit(
        "a-cancelled-run-that-hangs-keeps-its-slot",
        "gateway/jobs/tasks.py::_Heartbeat._stop_attempt",
        "now_s - self._unwanted_s > END_PATIENCE_S",
        "False",
        (f"{WORKER}::test_a_cancelled_run_that_hangs_gives_its_slot_back",),
        holds="J6",
    ),
    Edit(
        "a-spark-that-hangs-is-waited-for-for-ever",
        "gateway/jobs/tasks.py::_Heartbeat._is_silent",
        "time.monotonic() - self._sign_of_life_s <= SILENT_S",
        "True",
        (f"{WORKER}::test_a_run_without_a_sign_of_life_from_spark_fails_and_gives_its_slot_back",),
        holds="J6",
    ),
    Edit(
        "each-process-starts-a-due-schedule",
        "gateway/jobs/schedules.py::_start",
        "if not taken.update(**changes):",
        "if taken.update(**changes) < 0:",
        (f"{SCHEDULES}::test_two_processes_that_look_at_once_start_one_run",),
        holds="J7",
    ),
    Edit(
        "an-object-of-a-lost-worker-is-changed-again",
        "admin_ui/changes/services.py::next_items",
        "ChangeItem.objects.filter(pk__in=keys).update(state=ItemState.APPLYING)",
        "ChangeItem.objects.filter(pk__in=keys).exists()",
        (
            "unit/admin_ui/changes/test_change_kinds.py::"
            "test_a_worker_that_is_lost_leaves_what_it_was_changing_as_not_known",
        ),
        holds="J10",
    ),
    Edit(
        "a-defined-object-that-changed-since-the-preview-is-changed",
        "admin_ui/changes/definition_objects.py::make_planned",
        "await live(engine, defined) != before",
        "await live(engine, defined) is None and before",
        (
            "unit/admin_ui/changes/test_definition_api.py::"
            "test_an_object_changed_after_the_preview_is_not_changed",
        ),
        holds="J12",
    ),
    Edit(
        "a-page-of-latest-values-misses-a-compaction",
        "gateway/services/browsing/latest_values.py::_KeyedPart.page",
        "reached <= tuple(horizon or ())",
        "reached <= ()",
        (
            "unit/gateway/services/browsing/test_latest_values.py::"
            "test_a_compaction_between_two_pages_refuses_the_second",
        ),
        holds="J13",
    ),
    Edit(
        "a-page-of-latest-values-forgets-chunks-before-it",
        "gateway/services/browsing/latest_values.py::_token",
        "part.rest_chunks()",
        "None",
        (
            "unit/gateway/services/browsing/test_chunks.py::"
            "test_pages_have_whole_values_wherever_they_end",
        ),
        holds="J13",
    ),
    Edit(
        "a-message-that-lacks-a-chunk-replaces-a-value",
        "gateway/services/browsing/latest_values.py::is_partial",
        "or browsed.problem in (INCOMPLETE, REPEATED)",
        "or browsed.problem == REPEATED",
        (
            "unit/gateway/services/browsing/test_chunks.py::"
            "test_a_message_that_lacks_a_chunk_does_not_replace_the_value_before",
        ),
        holds="J13",
    ),
    Edit(
        "a-deleted-key-keeps-its-row",
        "gateway/services/browsing/latest_values.py::is_empty",
        "and not browsed.message.value",
        "and browsed.message.value == ()",
        (
            "unit/gateway/services/browsing/test_latest_values.py::"
            "test_a_key_whose_last_value_is_null_or_empty_is_removed",
        ),
        holds="J13",
    ),
    Edit(
        "a-queued-run-hides-that-no-worker-runs",
        "gateway/jobs/services.py::enqueue",
        "queued.update(stage=reason + remedy)",
        "assert queued and reason + command",
        (
            "unit/gateway/jobs/test_on_demand.py::"
            "test_a_run_without_a_worker_shows_why_and_what_starts_one",
        ),
    ),
    Edit(
        "a-run-whose-worker-is-gone-looks-at-work",
        "gateway/jobs/services.py::stage_of",
        "silent_ms < SILENT_MS",
        "True",
        (
            "unit/gateway/jobs/test_recovery.py::"
            "test_a_run_whose_worker_is_silent_shows_it_until_it_is_retried",
        ),
    ),
    Edit(
        "a-trimmed-ledger-fails-the-analysis",
        "spark_jobs/pulsar_source/batch.py::RangeEntries._of_bookies",
        "await is_listed(self._store, self._range)",
        "True",
        (f"{TRIMMED}::test_a_ledger_trimmed_after_planning_is_reported_as_trimmed",),
    ),
    Edit(
        "a-lost-ledger-is-taken-for-a-trimmed-one",
        "spark_jobs/pulsar_source/batch.py::RangeEntries._of_bookies",
        "await is_listed(self._store, self._range)",
        "False",
        (f"{TRIMMED}::test_a_ledger_that_is_lost_is_no_trimmed_one",),
    ),
    Edit(
        "a-profile-hides-what-was-trimmed",
        "spark_jobs/jobs/kit/reading.py::cells_of_range",
        "gathered.add(cells(TRIMMED, at=np.array([0]), count=error.entries))",
        "assert error.entries",
        (f"{TRIMMED}::test_a_profile_counts_trimmed_entries_and_all_others",),
    ),
    Edit(
        "rows-of-a-trimmed-range-are-left-out-silently",
        "spark_jobs/pulsar_source/batch.py::read_range",
        "options.fail_on_data_loss",
        "False",
        (f"{TRIMMED}::test_rows_of_a_trimmed_range_fail_unless_the_option_permits_it",),
    ),
    Edit(
        "what-brokers-did-not-deliver-is-not-reported-as-trimmed",
        "spark_jobs/pulsar_source/batch.py::RangeEntries._of_brokers",
        "not runs and not await is_listed(self._store, self._range)",
        "False",
        (f"{THROUGH_BROKERS}::test_a_trimmed_range_is_reported_as_by_bookies",),
        "Q5",
    ),
    Edit(
        "a-range-is-read-again-from-its-start-through-brokers",
        "spark_jobs/pulsar_source/batch.py::RangeEntries._of_brokers",
        "read(self._next)",
        "read(self._range.first)",
        (f"{THROUGH_BROKERS}::test_a_range_goes_on_through_brokers_from_the_next_entry",),
        "Q5",
    ),
    Edit(
        "a-range-does-not-end-with-an-entry-behind-it",
        "spark_jobs/pulsar_source/brokers/entries.py::BrokerEntries.read",
        "bool(delivered) and delivered[-1].position > end",
        "False",
        (f"{THROUGH_BROKERS}::test_rows_of_every_kind_of_entry_are_those_of_the_bookies",),
        "Q5",
    ),
    Edit(
        "a-stream-passes-a-ledger-that-has-no-entries-left-wrongly",
        f"{OFFSETS}::advanced",
        "ledger_range.first + left",
        "ledger_range.first + left + 1",
        (f"{STREAMS}::test_each_entry_is_read_once_or_its_loss_is_reported",),
        "Q1",
    ),
    Edit(
        "a-stream-does-not-report-what-was-trimmed",
        f"{OFFSETS}::ahead",
        "offset.creation == known.creation and offset.unread",
        "False",
        (f"{STREAMS}::test_each_entry_is_read_once_or_its_loss_is_reported",),
        "Q2",
    ),
    Edit(
        "a-topic-made-again-is-taken-for-a-loss",
        f"{OFFSETS}::ahead",
        "offset.creation == known.creation and offset.unread",
        "offset.unread",
        (f"{STREAMS}::test_a_recreated_topic_is_read_from_its_beginning",),
        "Q2",
    ),
    Edit(
        "a-stream-reads-what-a-recovery-may-cut-off",
        "spark_jobs/pulsar_source/streams/watch.py::TopicWatch._settle",
        "looked_s - since_s >= SETTLE_S",
        "True",
        (
            "unit/spark_jobs/streams/test_watch.py::test_q3_a_stored_entry_is_readable_once_it_has_settled",
        ),
        "Q3",
    ),
    Edit(
        "an-older-batch-counts-as-stored",
        "spark_jobs/pulsar_sink/numbering.py::TaskNumbers.stored_rows",
        "rows > ROWS_MAX",
        "False",
        (
            "unit/spark_jobs/sink/test_numbering.py::"
            "test_a_batch_older_than_a_stored_one_is_refused_instead_of_left_out",
        ),
        "Q4",
    ),
    Edit(
        "a-worker-is-not-seen-again-after-an-unexpected-error",
        "gateway/jobs/tasks.py::_renew_worker_key_for_ever",
        "except Exception as error:",
        "except (RedisError, OSError) as error:",
        (
            "unit/gateway/jobs/worker/test_worker_key.py::"
            "test_a_worker_is_seen_again_and_each_episode_is_logged_once",
        ),
    ),
)
