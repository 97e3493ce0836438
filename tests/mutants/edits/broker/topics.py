"""Mistakes in topics: publishing, deduplication, expiry, quotas, subscriptions, deletion."""

from tests.mutants.edit import Edit

DISPATCH = "unit/broker/dispatch/test_dispatch.py"
TOPICS = "unit/broker/topics"
MARKERS = "unit/broker/test_markers.py"
STAGES_TEST = "unit/broker/topics/test_publish.py"
DEDUPLICATION_TEST = "unit/broker/topics/test_deduplication.py"
RECOVERED = (f"{DEDUPLICATION_TEST}::test_sequence_ids_of_entries_that_a_recovery_adds_are_known",)
DEDUPLICATION = "engine/broker/topics/deduplication.py::Deduplication"
DELETION_TEST = "unit/broker/administration/test_deletion.py"

EDITS = (
    Edit(
        "a-producers-name-taken-for-a-property-of-the-broker",
        "engine/broker/topics/deduplication.py::_property",
        "return ESCAPE + name if reserved else name",
        "return name",
        (
            "unit/broker/topics/test_deduplication.py::test_a_producer_named_as_a_property_of_the_broker_deletes_no_ledger_and_is_remembered",
        ),
    ),
    Edit(
        "append-wakes-nobody",
        "engine/broker/topics/topic.py::Topic._wake",
        "subscription.dispatch.wake()",
        "pass",
        (f"{DISPATCH}::test_an_append_wakes_a_waiting_consumer_without_a_timer",),
        "D2",
    ),
    Edit(
        "flow-wakes-nobody",
        "engine/broker/topics/subscriptions/subscription.py::Subscription.flow",
        "self.dispatch.wake()",
        "pass",
        (f"{DISPATCH}::test_permits_count_messages_and_a_batch_may_overdraw_them",),
        "D2",
    ),
    Edit(
        "part-of-a-batch-ignored-by-a-seek",
        "engine/broker/topics/subscriptions/cursor_moves.py::CursorMoves.reset",
        "self._cursor.acknowledge_batch(position, ack_set)",
        "pass",
        (
            "unit/broker/topics/subscriptions/test_reset.py::test_a_reset_to_a_position_inside_a_batch",
        ),
        "D7",
    ),
    Edit(
        "two-exclusive-consumers",
        "engine/broker/topics/subscriptions/subscription.py::Subscription._obstacle",
        "return self.dispatch.conflict(consumer)",
        "return None",
        ("unit/broker/dispatch/test_one_active.py::test_a_second_exclusive_consumer_is_refused",),
        "D8",
    ),
    Edit(
        "goes-on-after-a-failed-append",
        "engine/broker/topics/publish.py::Publish.append_failed",
        "owner.disconnect()",
        "pass",
        (
            "unit/broker/topics/test_storage_failures.py::test_a_send_that_cannot_be_stored_is_refused_with_the_reason_and_its_producer_disconnected",
        ),
        "D9",
    ),
    Edit(
        "receipt-on-send",
        "engine/broker/topics/publish.py::Publish.start",
        "producer.topic.publish(self)",
        """
        producer.outlet.send(build_receipts(0, 0, self.heads, 0, run.count))
        producer.topic.publish(self)
        """,
        (
            "unit/broker/topics/test_storage_failures.py::test_a_send_that_cannot_be_stored_is_refused_with_the_reason_and_its_producer_disconnected",
        ),
        "D9",
    ),
    Edit(
        "subscription-given-out-while-it-is-deleted",
        "engine/broker/topics/subscriptions/subscriptions.py::Subscriptions._ensure",
        "if subscription is not None and not subscription.closed:",
        "if subscription is not None:",
        (
            "unit/broker/topics/subscriptions/test_unsure_subscriptions.py"
            "::test_a_consumer_that_subscribes_during_a_deletion_waits_and_delays_no_other",
        ),
    ),
    Edit(
        "one-failed-expiry-stops-the-others",
        "engine/broker/topics/subscriptions/subscriptions.py::Subscriptions.expire",
        "failed = failed or error",
        "raise",
        (
            f"{TOPICS}/test_expiry.py::test_a_subscription_that_cannot_be_read_does_not_stop_the_expiry_of_others",
        ),
        "D11",
    ),
    Edit(
        "the-unread-have-no-backlog",
        "engine/broker/topics/quotas.py::BacklogQuotas.is_large",
        "if self._host.subscriptions.unread:",
        "if False:",
        (
            f"{TOPICS}/test_quotas.py::test_an_unknown_backlog_evicts_nothing_and_refuses_no_further_producer",
        ),
        "D12",
    ),
    Edit(
        "silence-lets-producers-in",
        "engine/broker/topics/quotas.py::BacklogQuotas._check_oldest",
        "self._is_too_old if is_old is None else is_old",
        "False if is_old is None else is_old",
        (f"{TOPICS}/test_quotas.py::test_producers_stay_refused_while_the_backlog_is_unknown",),
        "D12",
    ),
    Edit(
        "the-fenced-publish-on",
        "engine/broker/topics/publishers.py::Publishers._make_exclusive",
        "other.disconnect()",
        "pass",
        (
            f"{TOPICS}/test_publishers.py::test_fencing_disconnects_all_other_producers_and_refuses_waiting_ones",
        ),
        "D13",
    ),
    Edit(
        "the-epoch-is-in-memory-only",
        "engine/broker/topics/publishers.py::Publishers._next_epoch",
        "if self._host.name.persistent:",
        "if False:",
        (f"{TOPICS}/test_publishers.py::test_the_epoch_outlives_the_broker",),
        "D13",
    ),
    Edit(
        "what-is-under-way-is-taken-for-stored",
        "engine/broker/topics/deduplication.py::Deduplication._judge",
        "elif name in self._pending:",
        "elif False:",
        (
            f"{TOPICS}/test_deduplication.py::test_a_resend_waits_for_the_outcome_of_the_first_send",
            f"{TOPICS}/test_deduplication.py::test_a_resend_of_a_failed_message_is_no_duplicate",
        ),
        "D14",
    ),
    Edit(
        "who-was-sent-away-is-stored-when-there-are-tokens",
        "engine/broker/topics/publish_rate.py::PublishRate._pass_waiting",
        "if not publish.producer.takes:",
        "if False:",
        (
            f"{TOPICS}/test_publish_rate.py::"
            "test_waiting_sends_of_a_disconnected_producer_are_dropped_and_free_their_budget",
        ),
        "D15",
    ),
    Edit(
        "markers-stay-in-the-backlog",
        "engine/broker/topics/subscriptions/subscription.py::Subscription.pass_markers",
        "for view in markers for",
        "for view in markers[:0] for",
        (f"{MARKERS}::test_markers_are_acknowledged_and_use_no_permit",),
        "D17",
    ),
    Edit(
        "the-last-message-is-a-marker",
        "engine/broker/topics/subscriptions/last_message.py::LastMessage.read",
        "if i not in hidden_of(run, MARKER, self._host.aborted):",
        "if True:",
        (f"{MARKERS}::test_the_last_message_is_no_marker",),
        "D17",
    ),
    Edit(
        "stages-stand-in-the-order-of-their-making",
        "engine/broker/topics/publish.py::in_order",
        "sorted(wanted, key=_place)",
        "wanted",
        (
            f"{STAGES_TEST}::test_stages_have_one_order_whichever_policy_is_set_first",
            f"{STAGES_TEST}::test_a_loaded_topic_has_the_stages_of_one_with_changed_policies",
        ),
        "D16",
    ),
    Edit(
        "recovered-entries-are-not-known",
        f"{DEDUPLICATION}.add_recovered",
        "self._remember_entry(run.entry(i))",
        "pass",
        RECOVERED,
        "D14",
    ),
    Edit(
        "what-comes-before-the-recovery-is-judged",
        f"{DEDUPLICATION}.failed",
        "if self._resolving is None and not self._host.scope.closed:",
        "if False:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_sends_that_wait_for_a_recovery_free_their_budget_when_the_topic_closes",
        ),
        "D14",
    ),
    Edit(
        "runs-of-an-earlier-period-are-counted",
        f"{DEDUPLICATION}._entries_ended",
        "if publish.judged != self._period:",
        "if not publish.judged:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_a_change_of_the_policy_while_entries_are_under_way_leaves_no_resend_waiting",
        ),
        "D14",
    ),
    Edit(
        "what-is-under-way-when-it-begins-is-not-waited-for",
        f"{DEDUPLICATION}._begin",
        "await self._wait_for_earlier()",
        "pass",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_a_producer_waits_for_entries_under_way_when_deduplication_is_enabled",
        ),
        "D14",
    ),
    Edit(
        "any-epoch-is-adopted",
        "engine/broker/topics/publishers.py::Publishers._next_epoch",
        "if epoch is None or (epoch > ADOPTED_MAX and epoch != self.epoch):",
        "if epoch is None:",
        (
            "unit/broker/topics/test_publishers.py::"
            "test_an_epoch_that_no_broker_assigned_keeps_no_producer_out",
        ),
    ),
    Edit(
        "a-partition-takes-with-it-what-is-of-all",
        "engine/broker/topics/lifecycle/topic_deletions.py::TopicDeletions.forget_of",
        "None if name.partition >= 0 else partial(self._forget, name)",
        "partial(self._forget, name)",
        (f"{DELETION_TEST}::test_schemas_and_permissions_stay_when_a_partition_is_deleted",),
    ),
    Edit(
        "schemas-go-before-their-topic",
        "engine/broker/topics/lifecycle/topic_deletions.py::TopicDeletions._remove",
        "forget = self.forget_of(name)",
        "forget = partial(self._forget, name); await forget()",
        (f"{DELETION_TEST}::test_a_topic_that_could_not_be_deleted_has_its_schemas",),
    ),
    Edit(
        "nobody-looks-at-the-moment-of-the-deletion",
        "engine/broker/topics/lifecycle/topic_deletions.py::TopicDeletions.delete_checked",
        "check()",
        "pass",
        (
            f"{DELETION_TEST}::test_a_client_that_connects_during_a_deletion_keeps_the_topic_and_its_messages",
        ),
    ),
    Edit(
        "a-clock-set-forward-forgets-producers",
        f"{DEDUPLICATION}._now_ms",
        "return int(self._host.context.clock.monotonic_s() * 1000)",
        "return self._host.context.clock.wall_ms()",
        (
            f"{DEDUPLICATION_TEST}::test_no_producer_name_is_forgotten_when_the_clock_is_set_forward",
        ),
        "D14",
    ),
    Edit(
        "names-that-came-first-go-first",
        f"{DEDUPLICATION}._remember",
        "self._stored.pop(name, None)",
        "pass",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_a_snapshot_with_room_for_few_names_has_those_that_published_last",
        ),
    ),
    Edit(
        "a-subscription-that-came-into-use-goes",
        "engine/broker/topics/inactivity.py::Inactivity.expire_subscriptions",
        "if name not in expired(topic, topic.policies, self._clock.wall_ms()):",
        "if False:",
        (
            "unit/broker/topics/test_inactivity.py::"
            "test_a_subscription_used_while_others_are_deleted_is_kept",
        ),
    ),
    Edit(
        "properties-are-looked-at-before-others-changed-them",
        "engine/broker/topics/topic.py::Topic.change_properties",
        "async with self._properties_lock:",
        "if True:",
        (
            "unit/broker/administration/operations/test_topics.py::"
            "test_one_of_two_concurrent_changes_of_the_same_properties_is_refused",
        ),
    ),
    Edit(
        "what-entries-say-of-their-producer-is-believed",
        f"{DEDUPLICATION}._remember_entry",
        "if highest <= INT64_MAX and len(name) <= NAME_BYTES_MAX:",
        "if True:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_entries_with_impossible_producer_names_or_ids_are_not_remembered",
        ),
    ),
)
