"""Mistakes in policies, rates, limits, hand-overs and what a broker reports of itself."""

from tests.mutants.edit import Edit

TOPIC_LISTS = "engine/broker/control/topic_lists.py"
LISTS = "unit/broker/control/test_topic_lists.py"
CAUSES = "engine/broker/administration/lag_causes.py"
CAUSES_TEST = "unit/broker/administration/test_lag_causes.py"
MEASURE = "engine/broker/administration/backlog_messages.py"
MEASURE_TEST = "unit/broker/administration/test_backlog_messages.py"
AGAIN = "unit/gateway/services/test_namespace_made_again.py"
ROOM = "engine/broker/control/topic_room.py::TopicRoom.admit"
ROOM_TEST = "unit/broker/test_topic_room.py"

EDITS = (
    Edit(
        "connection-closed-with-what-its-preview-did-not-show",
        "engine/broker/administration/client_connections.py::ConnectionOperations.close",
        "if later:",
        "if False:",
        (
            "unit/broker/administration/test_client_connections.py"
            "::test_a_connection_that_opened_something_since_is_not_closed",
        ),
        "A41",
    ),
    Edit(
        "session-not-compared-after-the-registration",
        "engine/broker/service.py::BrokerService._join",
        "if self._base.store.session_id != session_id:",
        "if False:",
        (
            "unit/broker/control/test_rejoin.py::test_two_sessions_lost_at_any_steps_of_one_registration",
        ),
    ),
    Edit(
        "who-is-left-in-line-is-not-served-again",
        "engine/broker/control/rate_limit.py::RateLimit._serve",
        "if self._line and self._timer is None:",
        "if False:",
        ("unit/broker/control/test_rate_limit.py::test_waiting_users_of_a_rate_get_equal_shares",),
        "D15",
    ),
    Edit(
        "one-bundles-failure-ends-the-hand-over",
        "engine/broker/administration/operations/transfers.py::BundleTransfers.drain",
        'with contained(f"hand-over of {bundle}"):',
        "if True:",
        (
            "unit/broker/test_service.py::test_a_drain_hands_over_every_other_bundle_when_one_fails_unexpectedly",
        ),
    ),
    Edit(
        "a-cancelled-caller-ends-the-watchers-change",
        f"{TOPIC_LISTS}::TopicLists._refresh",
        "await asyncio.shield(followed.notifying)",
        "await followed.notifying",
        (f"{LISTS}::test_changes_keep_their_order_when_the_caller_that_listed_is_cancelled",),
    ),
    Edit(
        "policies-cached-for-ever",
        "engine/broker/control/catalog.py::Catalog._known_of",
        "self._store.watch(path, lambda _: self._forget(name, entry))",
        "self._store.watch(path, lambda _: None)",
        (
            "unit/broker/control/test_policies_cache.py::test_changed_policies_are_read_again_and_reported",
        ),
    ),
    Edit(
        "a-growing-hot-key-is-well-for-a-moment",
        f"{CAUSES}::Watch._is_slow",
        "is_reported = self.cause in _LAGGING",
        "is_reported = self.cause in (LagCause.SLOW, LagCause.RATE_LIMIT)",
        (f"{CAUSES_TEST}::test_a_growing_hot_key_is_reported_without_a_break",),
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
        "a-bundle-nobody-used-is-cut-without-boundaries",
        "engine/broker/administration/operations/bundles.py::BundleOperations.split_bundle",
        "await self._ownership.bundles(args.namespace)",
        "pass",
        (
            "unit/gateway/test_verbs_under_faults.py::test_a_verb_whose_kth_call_of_the_store_fails_is_whole_after_a_repeat",
        ),
    ),
    Edit(
        "topic-made-and-refused-as-not-served",
        "engine/broker/administration/operations/topics.py::TopicOperations._load_created",
        """
        except NotServedHere:
            with suppress(MovedError):
                await self._topics.check_owned(name)
        """,
        """
        except NotServedHere:
            raise
        """,
        (
            f"{AGAIN}::test_a_topic_whose_bundle_is_lost_while_it_is_made_is_loaded_when_it_is_taken_again",
        ),
    ),
    Edit(
        "dead-letters-of-a-partition-made-partitioned",
        "engine/broker/control/catalog.py::Catalog.partitions",
        "topics.is_partitionable(topic)",
        "topic.partition < 0",
        (
            "unit/gateway/services/test_kinds_of_topics.py::test_a_name_with_a_partition_inside_can_be_made_by_its_use",
        ),
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
)
