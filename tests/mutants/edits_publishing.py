"""Mistakes in what happens to runs between the socket and the log: stages, deduplication, claims of the client; and in
how topics are deleted under them."""

from tests.mutants.edit import Edit

DEDUPLICATION = "engine/broker/topics/deduplication.py::Deduplication"
DEDUPLICATION_TEST = "unit/broker/topics/test_deduplication.py"
RECOVERED = (f"{DEDUPLICATION_TEST}::test_entries_that_recovery_brings_into_the_log_are_known",)
KERNELS_TEST = "unit/wire/test_kernels.py"
BOUNDS_TEST = "unit/broker/connection/test_bounds.py"
DELETION_TEST = "unit/broker/administration/test_deletion.py"
STAGES_TEST = "unit/broker/topics/test_publish.py"

EDITS = (
    Edit(
        "stages-stand-in-the-order-of-their-making",
        "engine/broker/topics/publish.py::in_order",
        "sorted(wanted, key=_place)",
        "wanted",
        (
            f"{STAGES_TEST}::test_stages_stand_in_one_order_whichever_policy_comes_first",
            f"{STAGES_TEST}::test_a_loaded_topic_has_the_stages_that_one_with_changed_policies_has",
        ),
        "D16",
    ),
    Edit(
        "recovered-entries-are-not-known",
        f"{DEDUPLICATION}.take_recovered",
        "self._recall(run.entry(i))",
        "pass",
        RECOVERED,
        "D14",
    ),
    Edit(
        "recovery-tells-nobody",
        "engine/managed/writing/rolling.py::LedgerList._settle",
        "self.recovered(entries, size)",
        "pass",
        RECOVERED,
        "D14",
    ),
    Edit(
        "what-comes-before-the-recovery-is-judged",
        f"{DEDUPLICATION}.failed",
        "if self._doubting is None and not self._host.scope.closed:",
        "if False:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_what_waits_for_a_recovery_is_given_back_when_the_topic_closes",
        ),
        "D14",
    ),
    Edit(
        "runs-of-an-earlier-period-are-counted",
        f"{DEDUPLICATION}._landed",
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
        "await self._know_earlier()",
        "pass",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_who_comes_while_entries_of_before_are_under_way_waits_for_them",
        ),
        "D14",
    ),
    Edit(
        "a-batch-has-as-many-messages-as-its-command-claims",
        "engine/wire/kernels.py::take_sends",
        "messages = messages_in(buf, start, stop)",
        "messages = read_varint(buf, sequence_stop + 1, start)[0]",
        (f"{KERNELS_TEST}::test_a_send_counts_as_many_messages_as_its_entry_says",),
    ),
    Edit(
        "metadata-may-claim-any-number-of-messages",
        "engine/wire/kernels.py::_messages_in_batch",
        "0 < count <= BATCH_MESSAGES_MAX",
        "0 < count",
        (f"{KERNELS_TEST}::test_a_send_counts_as_many_messages_as_its_entry_says",),
    ),
    Edit(
        "sequence-ids-beyond-int64-pass",
        "engine/wire/kernels.py::take_sends",
        "checked = sequence_size if sequence_size <= 9 else 0",
        "checked = sequence_size if sequence_size <= 10 else 0",
        (f"{KERNELS_TEST}::test_sequence_ids_beyond_int64_take_the_slow_path",),
    ),
    Edit(
        "the-slow-path-takes-sequence-ids-beyond-int64",
        "engine/broker/connection/produce.py::refuse_send",
        "if number > INT64_MAX:",
        "if False:",
        (f"{BOUNDS_TEST}::test_a_send_with_a_sequence_id_beyond_int64_is_answered_and_not_stored",),
    ),
    Edit(
        "any-epoch-is-adopted",
        "engine/broker/topics/publishers.py::Publishers._grow",
        "if epoch is None or (epoch > ADOPTED_MAX and epoch != self.epoch):",
        "if epoch is None:",
        (
            "unit/broker/topics/test_publishers.py::"
            "test_an_epoch_that_no_broker_gave_shuts_nobody_out",
        ),
    ),
    Edit(
        "names-of-producers-have-no-bound",
        "engine/broker/connection/bounds.py::check_name",
        "if size > NAME_BYTES_MAX:",
        "if False:",
        (f"{BOUNDS_TEST}::test_a_name_beyond_the_bound_is_refused",),
    ),
    Edit(
        "a-partition-takes-with-it-what-is-of-all",
        "engine/broker/topics/registry.py::TopicRegistry._forget_whole",
        "if name.partition < 0:",
        "if True:",
        (f"{DELETION_TEST}::test_what_belongs_to_the_whole_topic_stays_when_a_partition_goes",),
    ),
    Edit(
        "schemas-go-before-their-topic",
        "engine/broker/topics/registry.py::TopicRegistry._remove",
        "forget = partial(self._forget_whole, name)",
        "await self._forget_whole(name); forget = partial(self._forget_whole, name)",
        (f"{DELETION_TEST}::test_a_topic_that_could_not_be_deleted_has_its_schemas",),
    ),
    Edit(
        "what-a-cut-off-deletion-left-stays",
        "engine/managed/factory.py::ManagedLedgerFactory._start_once",
        "if forget is not None:",
        "if False:",
        (f"{DELETION_TEST}::test_what_a_deletion_did_not_reach_goes_with_the_next_use",),
    ),
    Edit(
        "nobody-looks-at-the-moment-of-the-deletion",
        "engine/broker/topics/registry.py::TopicRegistry.delete_checked",
        "check()",
        "pass",
        (f"{DELETION_TEST}::test_who_connects_under_a_deletion_keeps_the_topic_and_its_messages",),
    ),
    Edit(
        "what-is-of-all-partitions-outlives-them",
        "engine/admin/partitions.py::delete",
        "await brokers.call(api.FORGET_PARTITIONED, api.OnTopic(topic))",
        "pass",
        (f"{DELETION_TEST}::test_what_belongs_to_the_whole_topic_goes_when_it_is_deleted",),
    ),
    Edit(
        "schemas-of-the-other-domain-go-too",
        "engine/tenancy/topics.py::twin_exists",
        "return exists or",
        "return False and exists or False and",
        (f"{DELETION_TEST}::test_the_other_domains_topic_of_the_name_keeps_its_schemas",),
    ),
    Edit(
        "new-partitions-get-the-indexes-of-others",
        "engine/broker/administration/operations.py::_given",
        "if not key.startswith(INTERNAL_PREFIX)",
        "",
        (
            "unit/broker/administration/test_operations.py::"
            "test_a_new_partition_gets_no_property_that_a_broker_keeps_of_another_cursor",
        ),
    ),
    Edit(
        "a-clock-set-forward-forgets-producers",
        f"{DEDUPLICATION}._now_ms",
        "return int(self._host.context.clock.monotonic_s() * 1000)",
        "return self._host.context.clock.wall_ms()",
        (f"{DEDUPLICATION_TEST}::test_a_clock_that_is_set_forward_makes_no_name_forgotten",),
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
        "negative-lifetimes-expire-everything",
        "engine/broker/control/acted_upon.py::_off_below_0",
        "return max(number, 0)",
        "return number",
        (
            "unit/broker/control/test_acted_upon.py::"
            "test_a_negative_number_that_somebody_stored_lets_nothing_go",
        ),
    ),
    Edit(
        "a-producer-that-was-closed-under-its-creation-stays",
        "engine/broker/connection/produce.py::ProduceCommands.close",
        "self._pending[body.producer_id] = True",
        "pass",
        (
            "unit/broker/topics/test_publishers.py::"
            "test_a_producer_that_its_client_closed_while_it_was_made_is_not_there",
        ),
    ),
    Edit(
        "what-waits-for-a-ledger-is-forgotten-at-the-seal",
        "engine/managed/writing/appender.py::Appender.terminate",
        "self._fail_waiting()",
        "self.appends.take_all()",
        ("unit/broker/topics/test_storage_failures.py::test_entries_under_way_get_their_receipts",),
    ),
    Edit(
        "a-subscription-that-came-into-use-goes",
        "engine/broker/topics/inactivity.py::Inactivity.expire_subscriptions",
        "if name not in expired(topic, topic.policies, self._clock.wall_ms()):",
        "if False:",
        (
            "unit/broker/topics/test_inactivity.py::"
            "test_a_subscription_that_was_used_while_others_went_stays",
        ),
    ),
    Edit(
        "properties-are-looked-at-before-others-changed-them",
        "engine/broker/topics/topic.py::Topic.change_properties",
        "async with self._changing(PROPERTIES):",
        "if True:",
        (
            "unit/broker/administration/test_operations.py::"
            "test_of_two_changes_of_the_same_properties_at_once_one_is_refused",
        ),
    ),
    Edit(
        "what-entries-say-of-their-producer-is-believed",
        f"{DEDUPLICATION}._recall",
        "if highest <= INT64_MAX and len(name) <= NAME_BYTES_MAX:",
        "if True:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_entries_that_say_what_no_producer_can_be_are_not_remembered",
        ),
    ),
)
