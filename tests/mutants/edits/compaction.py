"""Mistakes in compaction: what stays, what readers see of it, which ledger counts."""

from tests.mutants.edit import Edit

WHERE = "unit/broker/compaction"
VALUES = f"{WHERE}/test_last_values.py"
TOPIC = f"{WHERE}/test_topic_compaction.py"
CODE = "engine/broker/compaction"

LAST = (f"{VALUES}::test_the_last_value_of_each_key_stays_where_it_was",)
OUTLIVES = (f"{TOPIC}::test_compacted_messages_outlive_the_topics_ledgers_and_its_owner",)
CRASH = (f"{TOPIC}::test_a_crash_at_any_step_leaves_the_old_or_the_new_ledger_and_no_other",)

EDITS = (
    Edit(
        "emptied-key-stays",
        f"{CODE}/last_values.py::LastValues._note",
        "self._places.pop(key, None)",
        "pass",
        LAST,
        "M11",
    ),
    Edit(
        "first-value-stays",
        f"{CODE}/last_values.py::LastValues._note",
        "self._places[key] = place",
        "self._places.setdefault(key, place)",
        LAST,
        "M11",
    ),
    Edit(
        "batch-with-an-empty-message-goes",
        f"{CODE}/last_values.py::LastValues.take",
        "single.payload_size <= 0",
        "any(one.payload_size <= 0 for one, _ in batch)",
        LAST,
        "M11",
    ),
    Edit(
        "compacted-topic-read-as-it-is",
        f"{CODE}/compacted_cursor.py::CompactedCursor._covered",
        "self._at <= horizon",
        "self._at < self._first",
        OUTLIVES,
        "M11",
    ),
    Edit(
        "what-was-kept-before-is-not-read",
        f"{CODE}/compactor.py::CompactionSource.entries",
        "self._previous is not None and",
        "self._previous is None and",
        (f"{TOPIC}::test_readers_receive_compacted_messages_and_then_the_topic",),
    ),
    Edit(
        "compacted-ledgers-not-named",
        f"{CODE}/topic_compaction.py::TopicCompaction._compact",
        "await cursor.replacing(old, new)",
        "pass",
        CRASH,
        "M18",
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
        "compacted-ledger-outlives-its-topic",
        "engine/managed/stored/records.py::CursorRecord.ledgers",
        "compacted, self.ledger_id)",
        "self.ledger_id)",
        (f"{TOPIC}::test_only_the_newest_compacted_ledger_is_kept_and_deleted_with_the_topic",),
    ),
    Edit(
        "emptied-topic-has-its-last-message-still",
        "engine/broker/topics/subscriptions/last_message.py::LastMessage.at_hand",
        "compacted and self._compaction.holds_all",
        "False",
        (f"{TOPIC}::test_the_last_message_is_that_of_the_compacted_topic",),
    ),
    Edit(
        "compaction-expires",
        "engine/broker/topics/subscriptions/subscriptions.py::Subscriptions.expire",
        "subscription.durable and subscription.name != COMPACTION",
        "subscription.durable",
        (f"{TOPIC}::test_the_compaction_cursor_counts_as_no_backlog_and_does_not_expire",),
    ),
)
