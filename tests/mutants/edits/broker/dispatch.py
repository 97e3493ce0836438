"""Mistakes in dispatch: permits, redelivery, delays, keys, chunks, markers."""

from tests.mutants.edit import Edit

DISPATCH = "unit/broker/dispatch/test_dispatch.py"
CORE = "engine/broker/dispatch/core.py"
UNBLOCKING = "unit/broker/dispatch/test_unblocking.py"
DELAYED = "unit/broker/dispatch/delays/test_delayed.py"
KEEPER = "unit/broker/dispatch/delays/test_delay_keeper.py"
KEYED = "unit/broker/dispatch/test_key_shared.py"
KEYED_PROPERTY = "unit/broker/dispatch/test_key_shared_property.py"
PARKED = "engine/broker/dispatch/sharing/parked.py"
PASSED = f"{KEYED}::test_a_key_stays_with_a_consumer_that_holds_skipped_messages_of_it"
MARKERS = "unit/broker/test_markers.py"

EDITS = (
    Edit(
        "permits-not-used",
        "engine/broker/dispatch/consumer.py::Consumer._sent",
        "self.permits -= messages",
        "self.permits -= 1",
        (f"{DISPATCH}::test_permits_count_messages_and_a_batch_may_overdraw_them",),
        "D1",
    ),
    Edit(
        "permits-not-added",
        "engine/broker/dispatch/consumer.py::Consumer.granted",
        "self.permits += permits",
        "self.permits = permits",
        (
            "unit/broker/dispatch/test_permits.py::test_permits_add_up_while_there_is_nothing_to_send",
        ),
        "D1",
    ),
    Edit(
        "one-more-than-permitted",
        "engine/broker/dispatch/consumer.py::Consumer.can_receive",
        "self.permits > 0",
        "self.permits >= 0",
        ("unit/broker/dispatch/test_permits.py::test_no_entry_is_sent_without_a_permit",),
        "D1",
    ),
    Edit(
        "read-wakes-nobody",
        "engine/broker/dispatch/source.py::EntrySource._fetch",
        "self._ready()",
        "pass",
        (f"{DISPATCH}::test_redelivered_messages_are_counted_and_precede_new_ones",),
        "D2",
    ),
    Edit(
        "limit-of-a-subscription-ignored",
        f"{CORE}::SharingDispatcher._turn",
        "self._chooser.next() if self._limits.room() else None",
        "self._chooser.next()",
        (f"{UNBLOCKING}::test_acknowledgements_unblock",),
        "D3",
    ),
    Edit(
        "a-limit-of-one-blocks-for-ever",
        "engine/broker/dispatch/sharing/send_limits.py::SendLimits.unblock",
        "max(self._max // 2, 1)",
        "self._max // 2",
        (f"{UNBLOCKING}::test_a_limit_of_one_delivers_the_next_after_each_acknowledgement",),
        "D3",
    ),
    Edit(
        "redeliveries-are-counted-over-consumers",
        f"{CORE}::SharingDispatcher.remove",
        "self._unacked.counts.clear()",
        "pass",
        (
            "unit/broker/dispatch/test_given_back.py"
            "::test_the_redelivery_count_is_kept_until_the_last_consumer_leaves",
        ),
        "D4",
    ),
    Edit(
        "leaving-frees-nobody",
        f"{CORE}::SharingDispatcher.remove",
        "self._limits.unblock()",
        "pass",
        (f"{UNBLOCKING}::test_a_consumer_that_leaves_unblocks_the_subscription",),
        "D3",
    ),
    Edit(
        "given-back-of-others",
        "engine/broker/dispatch/sharing/unacked_entries.py::UnackedEntries.give_back",
        "if pending.discard(*p)}",
        "if pending.discard(*p) or True}",
        (
            "unit/broker/dispatch/test_given_back.py::test_entries_held_by_a_consumer_are_sent_to_no_other",
        ),
        "D4",
    ),
    Edit(
        "held-of-who-left-is-lost",
        f"{CORE}::SharingDispatcher.remove",
        "self._waiting.add_keyed(held)",
        "pass",
        (
            f"{DISPATCH}::test_shared_delivers_all_entries_and_none_to_two_consumers_under_random_changes",
        ),
        "D4",
    ),
    Edit(
        "acknowledged-sent-again",
        "engine/broker/dispatch/redelivery.py::ReplayQueue.discard",
        "self._members.pop(position, None)",
        "pass",
        (
            "unit/broker/dispatch/test_redelivery.py::test_entries_acknowledged_in_between_are_not_replayed",
        ),
        "D4",
    ),
    Edit(
        "delivered-before-its-time",
        "engine/broker/dispatch/delays/delayed_delivery.py::DelayedDelivery._set_aside",
        "facts.deliver_at_ms <= now_ms + self.alarm.early_ms",
        "facts.deliver_at_ms <= now_ms + 60_000",
        (f"{DELAYED}::test_each_delayed_message_is_delivered_once_at_its_time",),
        "D5",
    ),
    Edit(
        "no-alarm-for-what-is-due",
        f"{CORE}::SharingDispatcher.wake",
        "self._delays.alarm.set(now_ms)",
        "pass",
        (f"{DELAYED}::test_each_delayed_message_is_delivered_once_at_its_time",),
        "D5",
    ),
    Edit(
        "delayed-entries-kept",
        f"{CORE}::SharingDispatcher.acknowledged_up_to",
        "self._delays.index.discard_up_to(position)",
        "pass",
        (f"{DELAYED}::test_clearing_and_skipping_remove_delayed_entries",),
        "D5",
    ),
    Edit(
        "a-lost-part-is-passed-over",
        "engine/broker/dispatch/delays/delay_keeper.py::DelayKeeper._give_up",
        "self._lost()",
        "pass",
        (f"{KEEPER}::test_a_lost_index_part_disconnects_consumers_and_no_message_is_lost",),
        "D5",
    ),
    Edit(
        "merged-run-begins-anew",
        "engine/broker/dispatch/delays/delay_keeper.py::DelayKeeper._merge",
        "new.begin_behind(taken_ms)",
        "pass",
        (f"{KEEPER}::test_messages_due_during_a_merge_are_delivered_once",),
        "D5",
    ),
    Edit(
        "chunk-owner-forgotten",
        "engine/broker/dispatch/sharing/chunks.py::ChunkOwners.keep",
        "self._owners[chunk.uuid] = owner",
        "self._owners[chunk.uuid[:-1]] = owner",
        (f"{DISPATCH}::test_all_chunks_of_a_message_go_to_one_consumer",),
        "D6",
    ),
    Edit(
        "parked-chunks-lost-with-their-consumer",
        f"{CORE}::SharingDispatcher.remove",
        "self._chooser.wait(view)",
        "pass",
        (
            "unit/broker/dispatch/test_parked_chunks.py::test_chunks_parked_for_a_detached_consumer_go_to_another_in_order",
        ),
        "D6",
    ),
    Edit(
        "rewind-lost-for-a-better-consumer",
        "engine/broker/dispatch/single.py::SingleDispatcher._take_over",
        "self._source.read_from(self._entries_for(self._active))",
        "self._source.cursor = self._entries_for(self._active)",
        (
            "unit/broker/dispatch/test_one_active.py::test_a_consumer_of_higher_priority_begins_at_the_first_unacknowledged_entry",
        ),
        "D8",
    ),
    Edit(
        "rewind-under-a-read-lost",
        "engine/broker/dispatch/source.py::EntrySource.rewind",
        "self._rewind_due = True",
        "pass",
        ("unit/broker/dispatch/test_rewinds.py::test_a_rewind_under_a_read_is_not_lost",),
        "D7",
    ),
    Edit(
        "seek-keeps-what-was-read",
        "engine/broker/dispatch/source.py::EntrySource.settle",
        "self._drop()",
        "pass",
        ("unit/broker/dispatch/test_rewinds.py::test_a_seek_drops_unsent_entries",),
        "D7",
    ),
    Edit(
        "moved-key-sent-at-once",
        "engine/broker/dispatch/choose/sticky.py::Sticky._must_wait",
        "draining is not None and draining.holder is not owner",
        "False",
        (
            f"{KEYED}::test_a_key_that_moves_waits_until_its_old_consumer_acknowledged_its_messages",
            f"{KEYED_PROPERTY}::test_every_key_is_delivered_in_order_and_no_entry_waits_without_a_reason",
        ),
        "D10",
    ),
    Edit(
        "new-while-a-key-is-read-again",
        "engine/broker/dispatch/core.py::SharingDispatcher._next",
        "if source.replaying:",
        "if False:",
        (f"{KEYED}::test_unsent_entries_follow_redelivered_ones",),
        "D10",
    ),
    Edit(
        "a-full-consumer-stops-all-keys",
        "engine/broker/dispatch/core.py::SharingDispatcher._send_bound",
        "self._parking.park(owner, rest)",
        "self._source.give_back(rest)",
        (f"{KEYED}::test_a_consumer_without_permits_delays_its_own_keys_only",),
        "D10",
    ),
    Edit(
        "handover-put-off-by-who-comes",
        "engine/broker/dispatch/single.py::SingleDispatcher._choose",
        "elif self._handover is None:",
        "elif self._end_handover() is None:",
        ("unit/broker/dispatch/test_one_active.py::test_new_consumers_do_not_postpone_a_handover",),
        "D8",
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
        "what-was-passed-frees-its-key",
        "engine/broker/dispatch/redelivery.py::PendingAcks.pass_up_to",
        "if self.slots_of is not None:",
        "if False:",
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
        "markers-are-delivered",
        "engine/broker/dispatch/source.py::EntrySource.next",
        "self._hold(self._messages(views))",
        "self._hold(views)",
        (f"{MARKERS}::test_markers_are_acknowledged_and_use_no_permit",),
        "D17",
    ),
    Edit(
        "markers-behind-many-bytes-of-their-tag-are-not-seen",
        "engine/broker/dispatch/facts.py::_positions_of",
        "positions if len(positions) < most else None",
        "positions",
        (
            "unit/broker/dispatch/test_facts.py::"
            "test_facts_do_not_depend_on_other_bytes_with_the_bytes_of_a_tag",
        ),
        "D17",
    ),
)
