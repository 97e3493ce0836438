"""Mistakes in dispatch, compaction and topic patterns."""

from tests.mutants.edit import Edit

COMPACTION = "engine/broker/compaction"
TOPIC = "unit/broker/compaction/test_topic_compaction.py"
VALUES = "unit/broker/compaction/test_last_values.py"
KEYED = "unit/broker/dispatch/test_key_shared.py"
PASSED = f"{KEYED}::test_a_key_stays_with_a_consumer_that_holds_skipped_messages_of_it"
MARKERS = "unit/broker/test_markers.py"
PARKED = "engine/broker/dispatch/parked.py"
LISTS = "unit/broker/control/test_topic_lists.py"
TOPIC_LISTS = "engine/broker/control/topic_lists.py"

EDITS = (
    Edit(
        "a-cancelled-caller-ends-the-watchers-change",
        f"{TOPIC_LISTS}::TopicLists._refresh",
        "await asyncio.shield(followed.notifying)",
        "await followed.notifying",
        (f"{LISTS}::test_changes_keep_their_order_when_the_caller_that_listed_is_cancelled",),
    ),
    Edit(
        "changes-of-topics-overtake-each-other",
        f"{TOPIC_LISTS}::TopicLists._refresh",
        "await asyncio.wait([followed.notifying])",
        "pass",
        (f"{LISTS}::test_changes_keep_their_order_when_the_caller_that_listed_is_cancelled",),
    ),
    Edit(
        "a-topic-pattern-repeats-once-more",
        "engine/base/regex/linear.py::_Program._emit_repeat",
        "range(node.most - node.least)",
        "range(node.most - node.least + 1)",
        ("unit/base/regex/test_linear.py::test_it_agrees_with_pythons_matcher",),
    ),
    Edit(
        "a-notification-overtakes-the-answer-to-subscribe",
        "engine/broker/dispatch/consumer.py::Consumer.notify",
        "if self._early is None:",
        "if True:",
        (
            "unit/broker/connection/test_consume.py::"
            "test_each_failover_consumer_is_notified_right_behind_the_answer",
        ),
        "D8",
    ),
    Edit(
        "what-is-parked-is-not-bounded-in-bytes",
        f"{PARKED}::Parked.has_room",
        "self._bytes + view.size <= PARKED_BYTES_MAX",
        "True",
        ("unit/broker/dispatch/test_parked.py::test_large_entries_are_bounded_by_their_bytes",),
    ),
    Edit(
        "what-is-parked-keeps-its-whole-read",
        f"{PARKED}::_small_buffers",
        "run.held <= WASTE_MAX * view.size",
        "True",
        (
            "unit/broker/dispatch/test_parked.py::"
            "test_a_small_entry_does_not_keep_the_buffer_of_its_read_alive",
        ),
    ),
    Edit(
        "what-is-parked-again-comes-last",
        f"{PARKED}::Parked.put_back",
        "views.appendleft(part)",
        "views.append(part)",
        ("unit/broker/dispatch/test_parked.py::test_entries_put_back_are_taken_first_again",),
        "D10",
    ),
    Edit(
        "only-the-last-chunk-stays",
        f"{COMPACTION}/last_values.py::LastValues._take_chunk",
        "tuple(chunks)",
        "tuple(chunks[-1:])",
        (f"{VALUES}::test_all_chunks_of_the_last_message_of_a_key_stay",),
        "M11",
    ),
    Edit(
        "chunks-without-the-others-fall-away",
        f"{COMPACTION}/last_values.py::LastValues.selection",
        "map(tuple, self._chunks.values())",
        "()",
        (
            f"{VALUES}::test_chunks_of_a_message_that_is_not_complete_stay_beside_the_value_before",
            f"{TOPIC}::test_a_chunked_message_stays_whole_also_when_it_is_compacted_half_way",
        ),
        "M11",
    ),
    Edit(
        "a-message-whose-chunks-are-not-complete-counts",
        f"{COMPACTION}/last_values.py::LastValues._take_chunk",
        "if len(chunks) == metadata.num_chunks_from_msg:",
        "if chunks:",
        (f"{VALUES}::test_chunks_of_a_message_that_is_not_complete_stay_beside_the_value_before",),
        "M11",
    ),
    Edit(
        "an-encrypted-batch-goes-by-its-first-key",
        f"{COMPACTION}/last_values.py::LastValues.take",
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
        f"{COMPACTION}/topic_compaction.py::TopicCompaction._attached",
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
        "what-was-passed-frees-its-key",
        "engine/broker/dispatch/redelivery.py::PendingAcks.pass_up_to",
        "if self.slots_of is not None:",
        "if False:",
        (PASSED,),
        "D10",
    ),
    Edit(
        "what-was-passed-keeps-its-key-for-ever",
        "engine/broker/dispatch/core.py::SharingDispatcher.acknowledged",
        "self._chooser.released(consumer, pending_of(consumer).pop_passed(position))",
        "pass",
        (PASSED,),
        "D10",
    ),
    Edit(
        "further-chunks-do-not-keep-their-key",
        "engine/broker/dispatch/choose/sticky.py::Sticky.sent",
        "if self._ordered and self._map.owner(slot) is not consumer:",
        "if False:",
        (f"{KEYED}::test_a_moved_key_is_released_when_its_last_chunk_is_acknowledged",),
        "D10",
    ),
    Edit(
        "a-compaction-whose-cursor-is-deleted-leaves-its-ledger",
        f"{COMPACTION}/topic_compaction.py::TopicCompaction._compact",
        "await self._host.log.delete_ledger(new)",
        "pass",
        (f"{TOPIC}::test_deleting_the_subscription_during_a_compaction_ends_both",),
        "M18",
    ),
    Edit(
        "an-unforeseen-failure-of-a-compaction-is-told-as-success",
        f"{COMPACTION}/topic_compaction.py::TopicCompaction._run",
        "except Exception as error:",
        "except MagnetarError as error:",
        (f"{TOPIC}::test_a_failed_compaction_is_reported_as_failed",),
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
        "what-did-not-fit-into-a-replay-is-lost",
        "engine/broker/dispatch/source.py::EntrySource._read_again",
        "self._to_replay = [position for position in positions if position > last]",
        "pass",
        (
            "unit/broker/dispatch/test_rewinds.py::"
            "test_replayed_entries_are_read_as_earlier_ones_are_taken",
        ),
    ),
    Edit(
        "a-rewind-leaves-what-was-to-be-replayed",
        "engine/broker/dispatch/source.py::EntrySource._fetch",
        "self._to_replay = ()",
        "pass",
        (
            "unit/broker/dispatch/test_rewinds.py::"
            "test_replayed_entries_are_read_as_earlier_ones_are_taken",
        ),
    ),
    Edit(
        "markers-are-delivered",
        "engine/broker/dispatch/source.py::EntrySource.next",
        "self._hold(self._messages(views))",
        "self._hold(views)",
        (f"{MARKERS}::test_markers_are_acknowledged_and_use_no_permit",),
        "D17",
    ),
    Edit(
        "markers-from-storage-are-delivered",
        "engine/broker/dispatch/source.py::EntrySource._fetch",
        "views = self._messages(views)",
        "pass",
        (f"{MARKERS}::test_markers_are_acknowledged_and_use_no_permit",),
        "D17",
    ),
    Edit(
        "markers-stay-in-the-backlog",
        "engine/broker/topics/subscriptions/subscription.py::Subscription.pass_markers",
        "self.cursor.acknowledge(positions)",
        "pass",
        (f"{MARKERS}::test_markers_are_acknowledged_and_use_no_permit",),
        "D17",
    ),
    Edit(
        "the-end-is-hidden-by-markers",
        "engine/broker/topics/subscriptions/subscription.py::Subscription.pass_markers",
        "self.notify_end()",
        "pass",
        (f"{MARKERS}::test_the_end_of_a_topic_is_reported_when_only_markers_remain",),
        "D17",
    ),
    Edit(
        "the-last-message-is-a-marker",
        "engine/broker/topics/subscriptions/last_message.py::LastMessage.read",
        "if i not in facts_of(run, MARKER).markers:",
        "if True:",
        (f"{MARKERS}::test_the_last_message_is_no_marker",),
        "D17",
    ),
    Edit(
        "the-last-message-at-hand-is-a-marker",
        "engine/broker/topics/subscriptions/last_message.py::LastMessage.at_hand",
        "entry is None or facts_of(entry, MARKER).markers",
        "entry is None",
        (f"{MARKERS}::test_the_last_message_is_no_marker",),
        "D17",
    ),
    Edit(
        "tags-beyond-a-row-are-not-searched-for",
        "engine/wire/frames.py::tagged",
        "or not _fit(rows, count, width)",
        "",
        (
            "unit/wire/test_kernels.py::"
            "test_tagged_entries_are_those_with_the_tag_in_their_metadata",
        ),
    ),
    Edit(
        "facts-wanted-later-are-not-searched-for",
        "engine/broker/dispatch/facts.py::facts_of",
        "elif missing := wanted & ~facts.known:",
        "elif False:",
        (
            "unit/broker/dispatch/test_facts.py::"
            "test_only_wanted_facts_are_searched_for_and_others_are_added_later",
        ),
    ),
)
