"""Mistakes in what is received from other clusters."""

from tests.mutants.edit import Edit

DEDUPLICATION = "engine/broker/topics/deduplication.py"
TESTS = "unit/broker/topics/geo/test_replicated_entries.py"
REPLICATOR = "engine/broker/topics/geo/replicator.py::Replicator"
ADMINISTRATION = "unit/broker/administration/operations/test_replicated_topics.py"
REPLICATOR_TESTS = "unit/broker/topics/geo/test_replicator.py"
UNSTORED_TESTS = "unit/broker/topics/geo/test_unstored_replicator.py"
SUBSCRIPTIONS = "engine/broker/topics/geo/replicated_subscriptions.py::ReplicatedSubscriptions"
SUBSCRIPTION_TESTS = "unit/broker/topics/geo/test_replicated_subscriptions.py"
MIGRATION_TESTS = "unit/broker/topics/lifecycle/test_topic_migration.py"
ONCE = f"{TESTS}::test_g1_entries_sent_again_are_stored_once_by_their_positions"

EDITS = (
    Edit(
        "replicated-entries-are-judged-by-the-entry-alone",
        f"{DEDUPLICATION}::_ids",
        "(place_of(*id), place_of(*id))",
        "(id[1], id[1])",
        (ONCE,),
        "G1",
    ),
    Edit(
        "positions-of-a-replicator-are-lost-with-the-broker",
        f"{DEDUPLICATION}::Deduplication._remember_entry",
        "if position is not None:",
        "if position is not None and metadata.HasField('marker_type'):",
        (f"{TESTS}::test_g1_positions_are_known_after_a_restart",),
        "G1",
    ),
    Edit(
        "a-replicator-stays-connected-after-a-refusal",
        "engine/broker/topics/publish.py::Publish.refuse",
        "if owner.origin:",
        "if owner.origin and owner.closed:",
        (f"{TESTS}::test_g1_nothing_behind_a_refused_entry_is_stored",),
        "G1",
    ),
    Edit(
        "entries-behind-a-refused-one-of-a-run-are-stored",
        "engine/broker/topics/limits.py::admit_fitting",
        "publish.producer.origin and publish.producer.closed",
        "False",
        (f"{TESTS}::test_g1_nothing_behind_a_refused_entry_of_a_run_is_stored",),
        "G1",
    ),
    Edit(
        "entries-behind-one-without-a-position-are-stored",
        "engine/broker/connection/produce.py::ProduceCommands._send_replicated",
        "producer.disconnect()",
        "pass",
        (f"{TESTS}::test_g1_nothing_behind_an_entry_without_a_position_is_stored",),
        "G1",
    ),
    Edit(
        "a-client-may-name-itself-a-replicator",
        "engine/broker/connection/produce.py::replicated_cluster",
        "return (CLUSTER,) if origin_of(name) or name.startswith(SHADOW_LINK) else ()",
        "return ()",
        ("unit/access/test_engine_matrix.py::test_a_replicator_needs_the_role_of_a_superuser",),
    ),
    Edit(
        "a-replicator-passes-what-it-sent",
        f"{REPLICATOR}._send_part",
        "if sent is not None:",
        "self._pass_over(run.ledger_id, run.first + part.start, len(part))\nif sent is not None:",
        (f"{REPLICATOR_TESTS}::test_g2_nothing_is_passed_before_it_is_stored_there",),
        "G2",
    ),
    Edit(
        "a-replicator-continues-behind-what-it-sent",
        f"{REPLICATOR}._run",
        "self._source.rewind()",
        "pass",
        (f"{REPLICATOR_TESTS}::test_g2_a_producer_without_receipts_is_replaced",),
        "G2",
    ),
    Edit(
        "a-replicator-sends-back",
        f"{REPLICATOR}._is_for",
        "not facts.replicated_from and (",
        "(",
        (
            f"{REPLICATOR_TESTS}::test_g3_an_entry_is_not_sent_back_or_to_clusters_that_it_is_not_for",
        ),
        "G3",
    ),
    Edit(
        "messages-are-sent-to-a-cluster-that-receives-none",
        "engine/broker/topics/geo/unstored_replicator.py::UnstoredReplicator._send_or_drop",
        " or not self._has_room(producer, chosen)",
        "",
        (f"{UNSTORED_TESTS}::test_entries_without_a_receipt_bound_what_is_sent",),
    ),
    Edit(
        "receipts-of-other-positions-count",
        "engine/client/replicating_producer.py::ReplicatingProducer._received",
        "if first is not None and first.position == position:",
        "if first is not None and first.position <= position:",
        (
            "unit/client/test_replicating_producer.py::test_a_receipt_of_another_position_ends_the_connection",
        ),
        "G2",
    ),
    Edit(
        "producers-do-not-wait-for-positions-in-other-clusters",
        "engine/broker/topics/geo/topic_replication.py::TopicReplication.ready",
        "await asyncio.wait([self._work], timeout=READY_WAIT_S)",
        "return",
        (
            f"{REPLICATOR_TESTS}::test_g2_a_producer_waits_until_positions_in_other_clusters_are_stored",
        ),
        "G2",
    ),
    Edit(
        "a-failure-at-its-start-leaves-a-producer-there",
        f"{REPLICATOR}._replicate",
        "try: await self._expire()",
        "await self._expire()\ntry:",
        (
            f"{REPLICATOR_TESTS}::test_a_failure_right_after_the_attachment_leaves_no_producer_there",
        ),
    ),
    Edit(
        "what-expired-while-a-cluster-was-away-is-sent",
        f"{REPLICATOR}._replicate",
        "await self._expire()",
        "pass",
        (f"{REPLICATOR_TESTS}::test_entries_that_expired_while_a_cluster_was_away_are_not_sent",),
    ),
    Edit(
        "entries-that-are-not-sent-use-up-the-rate",
        f"{REPLICATOR}._send",
        "for some in passed:",
        "self._throttle.sent(view)\nfor some in passed:",
        (f"{REPLICATOR_TESTS}::test_entries_that_are_passed_do_not_count_against_the_rate",),
    ),
    Edit(
        "a-rate-of-replication-stays-until-the-next-load",
        "engine/broker/topics/topic.py::Topic.settings_changed",
        "self.replication.apply_rates()",
        "pass",
        (f"{REPLICATOR_TESTS}::test_a_changed_rate_applies_to_what_waits",),
    ),
    Edit(
        "a-replicated-topic-is-deleted",
        "engine/broker/administration/operations/topics.py::TopicOperations.delete_topic",
        "await self._refuse_replicated(name)",
        "pass",
        (
            f"{ADMINISTRATION}::test_a_topic_that_is_sent_to_other_clusters_is_not_deleted",
            f"{ADMINISTRATION}::test_a_partitioned_topic_that_is_sent_to_other_clusters_is_not_deleted",
        ),
    ),
    Edit(
        "a-namespace-of-several-clusters-is-deleted",
        "engine/tenancy/namespaces.py::check_deletable",
        'len(policies.get("replication_clusters") or ()) > 1',
        "False",
        (f"{ADMINISTRATION}::test_a_namespace_of_several_clusters_is_not_deleted",),
    ),
    Edit(
        "the-last-snapshot-counts-before-it-is-passed",
        "engine/broker/topics/geo/replicated_position.py::ReplicatedPosition.passed",
        "self.snapshots[0].here <= mark_delete",
        "mark_delete is not None",
        (f"{SUBSCRIPTION_TESTS}::test_g4_what_is_not_acknowledged_here_is_not_passed_there",),
        "G4",
    ),
    Edit(
        "a-subscription-of-an-update-begins-behind-the-last-message",
        f"{SUBSCRIPTIONS}._apply",
        "InitialPosition.EARLIEST",
        "InitialPosition.LATEST",
        (f"{SUBSCRIPTION_TESTS}::test_g4_what_is_not_acknowledged_here_is_not_passed_there",),
        "G4",
    ),
    Edit(
        "an-answer-of-the-first-round-counts-in-the-second",
        f"{SUBSCRIPTIONS}._answered",
        "pending.request_id = self._new_id() + ECHO * pending.request_id.endswith(ECHO)",
        "pass",
        (
            f"{SUBSCRIPTION_TESTS}::"
            "test_g4_with_three_clusters_a_repeated_answer_does_not_end_the_second_round",
        ),
        "G4",
    ),
    Edit(
        "clients-write-markers",
        "engine/broker/topics/limits.py::MarkersRefused.admit",
        "if publish.producer.origin:",
        "if publish.producer:",
        (f"{SUBSCRIPTION_TESTS}::test_g4_a_client_cannot_write_a_marker_on_a_replicated_topic",),
        "G4",
    ),
    Edit(
        "an-update-moves-subscriptions-that-are-not-replicated",
        f"{SUBSCRIPTIONS}._apply",
        "(state := subscription.replication) is None",
        "(state := subscription.replication or ReplicatedPosition(1, max)) is None",
        (
            f"{SUBSCRIPTION_TESTS}::test_g4_another_clusters_subscription_of_the_same_name_is_not_moved",
        ),
        "G4",
    ),
    Edit(
        "consumers-leave-a-migrated-topic-before-it-is-drained",
        "engine/broker/topics/subscriptions/subscription.py::Subscription.notify_end",
        "if target is not None and not self.cursor.backlog_entries():",
        "if target is not None:",
        (f"{MIGRATION_TESTS}::test_g5_consumers_follow_once_their_subscription_is_drained",),
        "G5",
    ),
    Edit(
        "a-topic-is-migrated-without-its-subscriptions",
        "engine/broker/topics/lifecycle/topic_migration.py::TopicMigration.advance",
        "await remotes.prepare(target, host.name, missing)",
        "pass",
        (
            f"{MIGRATION_TESTS}::test_g5_nothing_ends_here_before_the_other_cluster_has_the_subscriptions",
        ),
        "G5",
    ),
    Edit(
        "clients-name-positions-of-another-cluster",
        "engine/broker/topics/geo/origin_claims.py::OriginClaims.admit",
        "fits = [not _claims(run, i) for i in range(run.count)]",
        "fits = [True] * run.count",
        (
            "unit/broker/topics/geo/test_origin_claims.py::test_g1_a_client_cannot_claim_a_position_of_another_cluster",
        ),
        "G1",
    ),
    Edit(
        "a-link-with-traffic-may-stand-still",
        f"{REPLICATOR}._send_all",
        "self._check_progress(producer)",
        "pass",
        (
            f"{REPLICATOR_TESTS}::test_g2_a_producer_without_receipts_is_replaced_although_entries_are_appended",
            f"{REPLICATOR_TESTS}::test_g2_a_replicator_that_reads_nothing_begins_again",
        ),
        "G2",
    ),
    Edit(
        "a-refused-entry-that-is-repeated-is-passed",
        "engine/client/replicating_producer.py::ReplicatingProducer._received",
        "if lost == position:",
        "if False:",
        (
            "unit/client/test_replicating_producer.py::test_g2_a_refused_entry_that_is_overtaken_and_then_repeated_is_not_stored",
        ),
        "G2",
    ),
    Edit(
        "an-entry-as-large-as-the-limit-stops-a-link",
        "engine/client/replicating_producer.py::ReplicatingProducer.send_from",
        "METADATA_BYTES_MAX)",
        "0)",
        (f"{REPLICATOR_TESTS}::test_an_entry_as_large_as_entries_may_be_is_sent",),
    ),
)
