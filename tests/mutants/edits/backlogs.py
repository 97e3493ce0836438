"""Mistakes in how many messages a backlog of entries holds, how old it is, and what is ranked by that."""

from tests.mutants.edit import Edit

MEASURE = "engine/broker/administration/backlog_messages.py"
MEASURE_TEST = "unit/broker/administration/test_backlog_messages.py"
QUOTAS = "engine/broker/topics/quotas.py"
INDEX = "gateway/services/index"
INDEX_TEST = "unit/gateway/services/index/test_topic_index.py"
DETAIL_TEST = "unit/admin_ui/test_topic_detail.py"
BOARD_TEST = "unit/gateway/services/attention/test_board.py"

EDITS = (
    Edit(
        "messages-that-came-again-make-a-backlog-larger",
        f"{MEASURE}::MessageMeans.__init__",
        "topic.published.messages.total - topic.repeated_messages",
        "topic.published.messages.total",
        (f"{MEASURE_TEST}::test_duplicates_that_are_not_stored_are_not_counted",),
    ),
    Edit(
        "old-entries-have-the-size-of-new-ones",
        f"{MEASURE}::MessageMeans.measure",
        "old = min(max(behind - added, 0), entries)",
        "old = 0",
        (
            f"{MEASURE_TEST}"
            "::test_entries_older_than_the_load_are_unmeasured_until_their_size_is_known",
        ),
    ),
    Edit(
        "an-estimate-is-said-to-be-exact",
        f"{MEASURE}::_by_mean",
        "round(entries * messages / of), entries)",
        "round(entries * messages / of))",
        (f"{MEASURE_TEST}::test_batches_are_exact_until_one_is_acknowledged_and_estimated_then",),
    ),
    Edit(
        "unknown-messages-are-none",
        f"{MEASURE}::_by_mean",
        "return Measured(entries, entries, 0, entries)",
        "return Measured(entries, 0)",
        (
            f"{MEASURE_TEST}"
            "::test_entries_older_than_the_load_are_unmeasured_until_their_size_is_known",
        ),
    ),
    Edit(
        "an-age-found-before-a-cursor-went-back-stands",
        f"{QUOTAS}::BacklogQuotas.oldest_ms",
        "oldest is not None and oldest.position < position",
        "oldest is not None",
        (f"{MEASURE_TEST}::test_an_oldest_entry_outside_memory_is_the_one_of_the_last_check",),
    ),
    Edit(
        "backlogs-are-ranked-by-entries",
        f"{INDEX}/selection.py",
        '"backlog": ROW_COLUMNS.index("backlog_messages")',
        '"backlog": ROW_COLUMNS.index("backlog")',
        (
            f"{INDEX_TEST}"
            "::test_a_topic_of_few_large_batches_ranks_before_one_of_more_single_messages",
        ),
    ),
    Edit(
        "what-waits-for-an-unknown-time-waits-the-longest",
        f"{INDEX}/selection.py::_age_rank",
        "if oldest_at is None or oldest_at == OLDEST_UNKNOWN:",
        "if oldest_at is None:",
        (f"{INDEX_TEST}::test_what_has_waited_longest_sorts_first_and_what_is_not_known_last",),
    ),
    Edit(
        "a-partition-of-unknown-age-has-none",
        "admin_ui/topics/detail.py::_add_subscription",
        "if oldest > 0 else None",
        'if oldest > 0 else row["oldest_at"]',
        (
            f"{DETAIL_TEST}"
            "::test_the_oldest_message_is_unknown_while_one_partition_does_not_report_it",
        ),
    ),
    Edit(
        "a-topic-at-rest-forgets-its-messages",
        f"{INDEX}/figures.py::at_rest",
        "elif backlog and backlog == last[BACKLOG]:",
        "elif False:",
        (
            f"{INDEX_TEST}"
            "::test_an_unloaded_topic_keeps_its_messages_while_as_many_entries_are_stored",
        ),
    ),
    Edit(
        "entries-that-wait-are-compared-with-messages-that-are-sent",
        "engine/broker/administration/subscription_feed.py::_sighting",
        "rate * backlog / messages if messages else rate",
        "rate",
        (
            "unit/broker/administration/test_subscription_feed.py::test_more_arrives_than_is_acknowledged",
        ),
    ),
    Edit(
        "few-batches-are-few-messages",
        "engine/broker/administration/lag_causes.py::Watch._hold_s",
        "max(seen.backlog, seen.messages) <= FEW",
        "seen.backlog <= FEW",
        (
            "unit/broker/administration/test_lag_causes.py"
            "::test_few_entries_of_many_messages_are_not_few",
        ),
    ),
    Edit(
        "harm-is-measured-in-entries",
        "gateway/services/attention/ranking.py::Problem.waiting",
        "return self.backlog if self.messages is None else self.messages",
        "return self.backlog",
        (f"{BOARD_TEST}::test_few_large_batches_do_more_harm_than_more_single_messages",),
    ),
)
