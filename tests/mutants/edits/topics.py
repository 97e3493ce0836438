"""Mistakes in topics apart from messages: the metadata of entries, watched lists, deletion of unused topics, names in
four parts, topics that are created by their use."""

from tests.mutants.edit import Edit

CONNECTION = "unit/broker/connection/test_watches.py"
EFFECTS_TEST = "unit/broker/administration/previews/test_policy_effects.py"
INACTIVITY = "engine/broker/topics/inactivity.py"
INACTIVITY_TEST = "unit/broker/topics/test_inactivity.py"
LISTS = "engine/broker/control/topic_lists.py"
LISTS_TEST = "unit/broker/control/test_topic_lists.py"
NAMES = "unit/base/test_names.py"
STAMPS = "engine/managed/writing/stamps.py"
STAMPS_TEST = "unit/managed/writing/test_stamps.py"
TO_USE = "unit/gateway/services/test_topics_to_use.py"
WATCHES = "engine/broker/connection/watches.py"

DEDUPLICATION = "engine/broker/topics/deduplication.py::Deduplication"
DEDUPLICATION_TEST = "unit/broker/topics/test_deduplication.py"
RECOVERED = (f"{DEDUPLICATION_TEST}::test_sequence_ids_of_entries_that_a_recovery_adds_are_known",)
KERNELS_TEST = "unit/wire/test_kernels.py"
BOUNDS_TEST = "unit/broker/connection/test_bounds.py"
DELETION_TEST = "unit/broker/administration/test_deletion.py"
ROOM = "engine/broker/control/topic_room.py::TopicRoom.admit"
ROOM_TEST = "unit/broker/test_topic_room.py"
STAGES_TEST = "unit/broker/topics/test_publish.py"

EDITS = (
    Edit(
        "index-of-the-first-message-of-a-batch",
        f"{STAMPS}::Stamps.append",
        "state.last_index += run.messages",
        "state.last_index += run.count",
        (f"{STAMPS_TEST}::test_a_batch_has_the_index_of_its_last_message",),
    ),
    Edit(
        "the-next-owner-gives-indexes-again",
        f"{STAMPS}::Stamps.recover",
        "highest = max(highest, -1 if index is None else index)",
        "pass",
        (f"{STAMPS_TEST}::test_the_next_owner_continues_the_indexes",),
    ),
    Edit(
        "trimmed-indexes-are-given-again",
        f"{STAMPS}::Stamps.recover",
        "highest = int(stored) if is_index else -1",
        "highest = -1",
        (f"{STAMPS_TEST}::test_an_index_is_not_reused_after_all_entries_are_trimmed",),
    ),
    Edit(
        "who-appends-is-told-no-place",
        f"{STAMPS}::_Unstamped.appended",
        "self._run.ledger_id, self._run.first = run.ledger_id, run.first",
        "pass",
        (f"{STAMPS_TEST}::test_the_producer_receives_its_own_payload_and_position",),
    ),
    Edit(
        "lists-that-failed-are-not-asked-again",
        f"{LISTS}::TopicLists._refresh",
        "followed.changed.set()",
        "pass",
        (f"{LISTS_TEST}::test_changes_while_the_store_is_unavailable_are_reported_later",),
    ),
    Edit(
        "the-store-is-watched-for-nobody",
        f"{LISTS}::TopicLists._end_unused",
        "followed.stop()",
        "pass",
        (f"{LISTS_TEST}::test_the_store_is_not_watched_without_followers",),
    ),
    Edit(
        "names-that-do-not-match-are-told",
        f"{WATCHES}::_Watch.changed",
        "set(await matching(short, self._matches) or ())",
        "set(short)",
        (f"{CONNECTION}::test_a_watcher_receives_the_matching_topics_and_each_change",),
    ),
    Edit(
        "what-waits-for-a-slow-watcher-is-lost",
        f"{WATCHES}::WatchCommands.wake",
        "watch.send_changes()",
        "pass",
        (f"{CONNECTION}::test_changes_for_a_client_that_does_not_read_are_merged_into_one_update",),
    ),
    Edit(
        "a-topic-that-comes-again-stays-gone",
        f"{WATCHES}::_Watch._merge",
        "(self._gone - new) | (gone - self._new)",
        "self._gone | (gone - self._new)",
        (f"{CONNECTION}::test_updates_add_up_to_the_matching_topics",),
    ),
    Edit(
        "use-since-the-look-does-not-count",
        f"{INACTIVITY}::Inactivity.count",
        "self._since_s.pop(topic, None)",
        "pass",
        (f"{INACTIVITY_TEST}::test_use_in_between_restarts_the_time_of_an_unused_topic",),
    ),
    Edit(
        "system-topics-are-deleted",
        f"{INACTIVITY}::is_unused",
        "topic.name.local.startswith(SYSTEM_PREFIX)",
        "False",
        (f"{INACTIVITY_TEST}::test_unused_system_topics_are_kept",),
    ),
    Edit(
        "a-preview-frees-what-nobody-has-read",
        "engine/managed/ledger.py::ManagedLedger.freed",
        "self._cursors.consumed(passed, deleted)",
        "None",
        (f"{EFFECTS_TEST}::test_retention_frees_the_closed_ledgers_that_its_preview_counts",),
    ),
    Edit(
        "a-preview-forgets-what-a-ttl-frees",
        "engine/broker/administration/previews/policy_effects.py::of",
        "topic.log.freed(config, effects.passed, effects.gone)",
        "topic.log.freed(config, {}, effects.gone)",
        (f"{EFFECTS_TEST}::test_a_ttl_frees_ledgers_that_no_retention_keeps",),
    ),
    Edit(
        "more-is-taken-than-was-seen",
        "admin_ui/policies/services.py::_check",
        "entries > seen[topic][name] and policy is not SIZE_QUOTA",
        "False",
        (
            "unit/admin_ui/test_policies.py::test_a_change_that_would_lose_more_than_previewed_is_not_saved",
        ),
    ),
    Edit(
        "a-backlog-is-deleted-with-its-topic",
        "engine/broker/topics/topic.py::Topic.is_unused",
        "subscription.consumers or subscription.cursor.backlog_entries()",
        "one.consumers",
        (
            f"{INACTIVITY_TEST}::test_a_caught_up_subscription_keeps_a_topic_unless_the_policy_ignores_it",
        ),
    ),
    Edit(
        "consumers-have-no-time-to-come-again",
        f"{INACTIVITY}::Inactivity.expire_subscriptions",
        "now_ms - topic.loaded_ms < min(limit_ms, RETURN_MS)",
        "False",
        (f"{INACTIVITY_TEST}::test_subscriptions_do_not_expire_soon_after_the_topic_was_loaded",),
    ),
    Edit(
        "the-cluster-of-an-old-name-is-dropped",
        "engine/base/names.py::NamespaceName.below_tenant",
        'f"{self.cluster}/{self.local}" if self.cluster is not None else self.local',
        "self.local",
        (f"{NAMES}::test_legacy_name_has_a_cluster_and_keeps_slashes_in_its_local_name",),
    ),
    Edit(
        "who-only-asks-makes-a-topic",
        "gateway/services/admin/partitioned_topics.py::get_metadata",
        "if not allow_missing:",
        "if False:",
        (f"{TO_USE}::test_a_request_without_creation_creates_no_topic",),
    ),
    Edit(
        "a-topic-that-is-not-made-has-an-owner",
        "gateway/services/admin/lookup.py::owner_of",
        "await partitions_to_use(engine, name)",
        "pass",
        (f"{TO_USE}::test_without_automatic_creation_the_topic_is_not_found",),
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
        "a-batch-has-as-many-messages-as-its-command-claims",
        "engine/wire/kernels.py::take_sends",
        "messages = messages_in(buf, start, stop)",
        "messages = read_varint(buf, sequence_stop + 1, start)[0]",
        (f"{KERNELS_TEST}::test_a_send_counts_the_messages_of_its_entrys_metadata",),
    ),
    Edit(
        "metadata-may-claim-any-number-of-messages",
        "engine/wire/kernels.py::_messages_in_batch",
        "0 < count <= BATCH_MESSAGES_MAX",
        "0 < count",
        (f"{KERNELS_TEST}::test_a_send_counts_the_messages_of_its_entrys_metadata",),
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
        "engine/broker/topics/publishers.py::Publishers._next_epoch",
        "if epoch is None or (epoch > ADOPTED_MAX and epoch != self.epoch):",
        "if epoch is None:",
        (
            "unit/broker/topics/test_publishers.py::"
            "test_an_epoch_that_no_broker_assigned_keeps_no_producer_out",
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
        "engine/broker/topics/registry.py::TopicRegistry._forget_stored",
        "if name.partition < 0:",
        "if True:",
        (f"{DELETION_TEST}::test_schemas_and_permissions_stay_when_a_partition_is_deleted",),
    ),
    Edit(
        "schemas-go-before-their-topic",
        "engine/broker/topics/registry.py::TopicRegistry._remove",
        "forget = partial(self._forget_stored, name)",
        "await self._forget_stored(name); forget = partial(self._forget_stored, name)",
        (f"{DELETION_TEST}::test_a_topic_that_could_not_be_deleted_has_its_schemas",),
    ),
    Edit(
        "what-a-cut-off-deletion-left-stays",
        "engine/managed/factory.py::ManagedLedgerFactory._start_once",
        "if forget is not None:",
        "if False:",
        (f"{DELETION_TEST}::test_remains_of_an_interrupted_deletion_are_deleted_on_the_next_use",),
    ),
    Edit(
        "nobody-looks-at-the-moment-of-the-deletion",
        "engine/broker/topics/registry.py::TopicRegistry.delete_checked",
        "check()",
        "pass",
        (
            f"{DELETION_TEST}::test_a_client_that_connects_during_a_deletion_keeps_the_topic_and_its_messages",
        ),
    ),
    Edit(
        "what-is-of-all-partitions-outlives-them",
        "engine/admin/partitions.py::delete",
        "await brokers.call(FORGET_PARTITIONED, OnTopic(topic))",
        "pass",
        (f"{DELETION_TEST}::test_schemas_and_permissions_are_deleted_with_the_partitioned_topic",),
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
        "engine/broker/administration/operations/subscriptions.py::_users_properties",
        "if not key.startswith(INTERNAL_PREFIX)",
        "",
        (
            "unit/broker/administration/operations/test_subscriptions.py::"
            "test_a_new_partition_gets_no_property_that_a_broker_keeps_of_another_cursor",
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
        "negative-lifetimes-expire-everything",
        "engine/broker/policies.py::off_below_0",
        "return max(number, 0)",
        "return number",
        (
            "unit/broker/control/test_effective_policies.py::"
            "test_stored_negative_numbers_count_as_zero",
        ),
    ),
    Edit(
        "a-producer-that-was-closed-under-its-creation-stays",
        "engine/broker/connection/produce.py::ProduceCommands.close",
        "self._pending[body.producer_id] = True",
        "pass",
        (
            "unit/broker/topics/test_publishers.py::"
            "test_a_producer_closed_during_its_creation_is_not_attached",
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
    Edit(
        "topics-that-are-being-made-do-not-count",
        ROOM,
        "stored.union(*self._admitted.get(namespace, {}).values())",
        "stored",
        (
            f"{ROOM_TEST}::test_topics_created_concurrently_by_clients_stay_within_the_limit",
            f"{ROOM_TEST}::test_topics_created_concurrently_by_administrators_stay_within_the_limit",
        ),
    ),
    Edit(
        "the-partitions-of-a-new-topic-count-as-one",
        ROOM,
        "len(taken) + new > limit",
        "len(taken) >= limit",
        (f"{ROOM_TEST}::test_all_partitions_of_a_topic_created_by_a_client_count",),
    ),
    Edit(
        "a-connection-has-no-share-of-its-own-in-what-the-broker-holds",
        "engine/broker/connection/session.py::Session",
        "share=PUBLISH_SHARE_BYTES",
        "share=0",
        (
            "unit/broker/connection/test_backpressure.py::"
            "test_a_producer_of_a_stalled_topic_leaves_budget_for_others",
        ),
    ),
    Edit(
        "a-subscription-moved-back-is-deleted",
        "engine/broker/administration/previews/subscription_holdings.py::check",
        "_unread_up_to(topic, subscription, last) > limit",
        "False",
        (
            "unit/broker/administration/previews/test_subscription_holdings.py::test_a_subscription_that_was_moved_back_is_not_deleted",
        ),
    ),
    Edit(
        "a-consumer-that-came-is-no-hindrance",
        "engine/broker/administration/previews/subscription_holdings.py::check",
        "if consumer not in known:",
        "if False:",
        (
            "unit/broker/administration/previews/test_subscription_holdings.py::test_consumers_keep_a_subscription_unless_it_is_forced",
        ),
    ),
    Edit(
        "a-preview-is-not-checked-when-a-subscription-goes",
        "engine/broker/topics/subscriptions/subscription.py::Subscription.close",
        "check()",
        "pass",
        (
            "unit/broker/administration/previews/test_subscription_holdings.py::test_a_subscription_that_was_moved_back_is_not_deleted",
        ),
    ),
    Edit(
        "a-consumer-that-came-back-is-disconnected",
        "engine/broker/administration/operations/subscriptions.py::SubscriptionOperations.disconnect_consumer",
        "(consumer.name, consumer.connected_ms) != (args.name, args.connected_ms)",
        "consumer.name != args.name",
        (
            "unit/broker/administration/previews/test_subscription_holdings.py::test_a_disconnected_consumers_messages_go_to_another",
        ),
    ),
)
