"""Mistakes in compaction: what stays, what readers see of it, which ledger counts."""

from tests.mutants.edit import Edit

WHERE = "unit/broker/compaction"
VALUES = f"{WHERE}/test_last_values.py"
LAST = (f"{VALUES}::test_the_last_value_of_each_key_stays_where_it_was",)
CODE = "engine/broker/compaction"
TOPIC = f"{WHERE}/test_topic_compaction.py"
OUTLIVES = (f"{TOPIC}::test_compacted_messages_outlive_the_topics_ledgers_and_its_owner",)
CRASH = (f"{TOPIC}::test_a_crash_at_any_step_leaves_the_old_or_the_new_ledger_and_no_other",)

EDITS = (
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
        "compacted-ledgers-not-named",
        f"{CODE}/topic_compaction.py::TopicCompaction._compact",
        "await cursor.replacing(old, new)",
        "pass",
        CRASH,
        "M18",
    ),
    Edit(
        "only-the-last-chunk-stays",
        f"{CODE}/last_values.py::LastValues._take_chunk",
        "tuple(chunks)",
        "tuple(chunks[-1:])",
        (f"{VALUES}::test_all_chunks_of_the_last_message_of_a_key_stay",),
        "M11",
    ),
    Edit(
        "chunks-without-the-others-fall-away",
        f"{CODE}/last_values.py::LastValues.selection",
        "map(tuple, self._chunks.values())",
        "()",
        (
            f"{VALUES}::test_chunks_of_a_message_that_is_not_complete_stay_beside_the_value_before",
            f"{TOPIC}::test_a_chunked_message_stays_whole_also_when_it_is_compacted_half_way",
        ),
        "M11",
    ),
    Edit(
        "an-encrypted-batch-goes-by-its-first-key",
        f"{CODE}/last_values.py::LastValues.take",
        "metadata.num_messages_in_batch > 1 and metadata.encryption_keys",
        "False",
        (
            f"{VALUES}::"
            "test_an_encrypted_batch_of_several_messages_stays_as_other_keys_may_be_in_it",
        ),
        "M11",
    ),
    Edit(
        "a-compaction-begins-where-its-cursor-was-made",
        f"{CODE}/topic_compaction.py::TopicCompaction._attached",
        "await cursor.reset(EARLIEST)",
        "pass",
        (f"{TOPIC}::test_a_compaction_cursor_without_a_ledger_starts_at_the_beginning",),
        "M11",
    ),
    Edit(
        "the-compactions-subscription-expires",
        "engine/broker/topics/inactivity.py::expired",
        "and subscription.name != COMPACTION",
        "",
        (f"{TOPIC}::test_the_compactions_subscription_does_not_expire",),
        "M11",
    ),
    Edit(
        "any-client-deletes-what-was-compacted",
        "engine/broker/connection/consume.py::ConsumeCommands.unsubscribe",
        "isinstance(subscription, CompactionSubscription)",
        "False",
        (f"{TOPIC}::test_a_compaction_subscription_created_by_a_client_hides_no_messages",),
        "M11",
    ),
    Edit(
        "a-compaction-whose-cursor-is-deleted-leaves-its-ledger",
        f"{CODE}/topic_compaction.py::TopicCompaction._compact",
        "await self._host.log.delete_ledger(new)",
        "pass",
        (f"{TOPIC}::test_deleting_the_subscription_during_a_compaction_ends_both",),
        "M18",
    ),
    Edit(
        "an-unforeseen-failure-of-a-compaction-is-told-as-success",
        f"{CODE}/topic_compaction.py::TopicCompaction._run",
        "except Exception as error:",
        "except MagnetarError as error:",
        (f"{TOPIC}::test_a_failed_compaction_is_reported_as_failed",),
    ),
)
