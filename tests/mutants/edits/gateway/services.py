"""Mistakes in what the gateway collects, records, lists and publishes."""

from tests.mutants.edit import Edit

CATALOG = "unit/gateway/services/test_catalog.py"
COLLECTOR = "unit/gateway/services/collection/test_collector.py"
HISTORY = "unit/gateway/services/test_history.py"
INDEX = "gateway/services/index"
LISTED_TOPICS = "unit/gateway/services/index/test_listed_topics.py"
PUBLISHER = "gateway/services/publishing.py::Publisher"
PUBLISHING = "unit/gateway/services/test_publishing.py"

EDITS = (
    Edit(
        "bad-record-ends-the-catalog",
        "gateway/services/catalog.py::_recorded",
        "except RecordFormatError as error:",
        "except NotImplementedError as error:",
        (f"{CATALOG}::test_a_record_that_cannot_be_read_costs_its_own_topic_only",),
        "",
    ),
    Edit(
        "legacy-topics-not-listed",
        "gateway/services/catalog.py::counted",
        "for name in sorted(legacy):",
        "for name in sorted(legacy & set(DOMAINS)):",
        (f"{CATALOG}::test_topics_of_legacy_namespaces_are_listed_before_they_are_loaded",),
        "",
    ),
    Edit(
        "failed-catalog-asked-for-ever",
        "gateway/services/collection/stored_topics.py::_caught",
        "except Exception as error:",
        "except FAILURES as error:",
        (f"{COLLECTOR}::test_after_an_unexpected_failure_topics_are_read_again",),
        "",
    ),
    Edit(
        "fresh-although-rounds-fail",
        "gateway/services/collection/collector.py::Collector.known_until",
        "min(store_ms, self._succeeded_ms) if failing else store_ms",
        "store_ms",
        (f"{COLLECTOR}::test_shown_numbers_are_those_of_the_last_successful_round",),
        "",
    ),
    Edit(
        "broker-followed-until-the-first-surprise",
        "gateway/services/feeds/row_follower.py::RowFollower.run",
        "except Exception:",
        "except (KeyError, TypeError, ValueError):",
        (
            "unit/gateway/services/feeds/test_row_follower.py"
            "::test_an_answer_in_an_unknown_form_is_followed_by_a_request_for_all_rows",
        ),
        "",
    ),
    Edit(
        "room-for-a-claimed-number-of-chunks",
        "gateway/services/rehearsal/opening.py::EntryOpener._chunk",
        "if len(parts) != count or any(number not in parts for number in range(len(parts))):",
        "if parts.keys() != set(range(min(count, 8_000_000))):",
        (
            "unit/gateway/services/rehearsal/test_opening.py"
            "::test_a_claimed_number_of_chunks_takes_no_room",
        ),
        "",
    ),
    Edit(
        "metrics-split-at-carriage-returns",
        "gateway/services/metrics.py::merge",
        'lines = body.split(b"\\n")',
        "lines = body.splitlines()",
        ("unit/gateway/test_numbers.py::test_a_carriage_return_in_a_label_ends_no_line",),
        "",
    ),
    Edit(
        "health-waits-for-the-slowest",
        "gateway/services/admin/brokers.py::health",
        "for failure in asyncio.as_completed(failures):",
        "for failure in failures:",
        (
            "unit/gateway/services/test_brokers.py"
            "::test_one_healthy_broker_suffices_whatever_the_others_do",
        ),
        "",
    ),
    Edit(
        "history-damaged-inside-kept",
        "gateway/services/history/history_file.py::is_damaged",
        "or code & 0xFF in _DAMAGE",
        "",
        (f"{HISTORY}::test_a_file_damaged_inside_is_put_aside_and_readers_follow",),
        "",
    ),
    Edit(
        "days-forget-what-a-subject-settled-at",
        "gateway/services/history/steps.py::_steps_of",
        "kept += [(steps[-1] + 1, point) for _, point in settled]",
        "",
        (
            f"{HISTORY}::test_a_subject_that_settles_keeps_its_value_in_later_steps"
            "_and_costs_two_rows",
        ),
        "",
    ),
    Edit(
        "readers-stay-with-the-old-history",
        "gateway/services/history/readings.py::History._read",
        "self._file.inode != inode",
        "not inode",
        (f"{HISTORY}::test_a_file_damaged_inside_is_put_aside_and_readers_follow",),
        "",
    ),
    Edit(
        "numbers-are-awaited-on-any-event-loop",
        "gateway/services/collection/collector.py::Collector.snapshot",
        "self._link.check_loop()",
        "pass",
        (
            "unit/gateway/services/collection/test_collector.py::"
            "test_a_snapshot_awaited_on_another_loop_fails_at_once",
        ),
    ),
    Edit(
        "live-without-a-broker",
        "gateway/services/collection/followed_brokers.py::FollowedBrokers.known_until",
        "return [last_seen]",
        "return []",
        (
            "unit/gateway/services/collection/test_collector.py::test_numbers_stay_those_of_the_last_broker_when_none_is_registered",
        ),
    ),
    Edit(
        "a-page-gives-up-on-a-part-that-is-late",
        "gateway/services/collection/collector.py::Collector.read",
        "self.blame(topic, late=False)",
        "self.blame(topic)",
        (
            "unit/gateway/services/collection/test_collector.py::test_a_page_waits_for_a_part_that_is_late_and_not_for_one_that_is_down",
        ),
    ),
    Edit(
        "when-problems-began-is-forgotten",
        "gateway/services/history/recorder.py::Recorder._finish",
        "file.write_causes(changed, gone)",
        "None",
        ("unit/gateway/services/test_history.py::test_the_recorder_keeps_when_problems_began",),
    ),
    Edit(
        "backlogs-are-ranked-by-entries",
        f"{INDEX}/selection.py",
        '"backlog": ROW_COLUMNS.index("backlog_messages")',
        '"backlog": ROW_COLUMNS.index("backlog")',
        (
            f"{LISTED_TOPICS}"
            "::test_a_topic_of_few_large_batches_ranks_before_one_of_more_single_messages",
        ),
    ),
    Edit(
        "a-table-gathered-before-a-change-is-used",
        "gateway/services/feeds/gathered_table.py::GatheredTable._renew",
        "        if self._work is work:\n            self._table",
        "        if True:\n            self._table",
        (
            "unit/gateway/services/feeds/test_gathered_table.py"
            "::test_a_forgotten_table_is_not_answered_nor_one_that_was_begun_before",
        ),
    ),
    Edit(
        "functions-of-all-namespaces-are-listed",
        "gateway/services/functions/listed_functions.py::FunctionTable._filtered",
        "if not viewer.everything:",
        "if False:",
        (
            "unit/gateway/services/functions/test_listed_functions.py"
            "::test_filters_are_joined_and_a_viewer_sees_its_namespaces_alone",
        ),
        "A6",
    ),
    Edit(
        "rest-produce-answers-before-the-receipts",
        f"{PUBLISHER}._publish",
        "await receipts.are_complete",
        "await asyncio.sleep(0)",
        (f"{PUBLISHING}::test_a_message_is_reported_stored_when_the_broker_has_confirmed_it",),
        "W6",
    ),
    Edit(
        "rest-produce-tells-a-failure-as-success",
        "gateway/services/publishing.py::failure_of",
        "return (1 if error.retriable else 2), text",
        "return 0, text",
        (f"{PUBLISHING}::test_a_message_without_a_receipt_in_time_is_no_success",),
        "W6",
    ),
)
