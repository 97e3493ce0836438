"""The switchboard of known mistakes, planted into the shipped code for a run. The campaigns must find all of them."""

import contextlib
from collections.abc import Iterator

from tests.sim.migrating import mistakes as migrating
from tests.sim.moving import mistakes
from tests.sim.plants import (
    compacting,
    delays,
    dispatch,
    found,
    geo,
    placing,
    publishing,
    rates,
    regions,
    registry,
    rights,
    rivals,
    transfer,
    vacant,
)
from tests.sim.plants.bundles import balance, splits, transfers
from tests.sim.plants.planting import Plant, applied
from tests.sim.plants.storage import (
    auto_recovery,
    bookie,
    ledger,
    managed,
    metadata,
    offloading,
    repair,
)

_MISTAKES = {
    "ledger": (
        *(bookie.ack_before_fsync, bookie.entry_log_not_synced, bookie.mark_before_flush),
        *(bookie.fence_not_durable, bookie.entries_unseen_during_a_flush),
        *(bookie.replay_drops_the_last_record, bookie.torn_tail_accepted),
        *(bookie.silence_proves_deletion, bookie.no_entry_on_a_corrupt_read),
        bookie.copies_indexed_before_durable,
        ledger.recovery_without_fence,
        *(ledger.recovery_believes_one_bookie, ledger.recovery_write_back_skipped),
        *(ledger.fenced_writer_continues, ledger.receipt_after_one_bookie),
        *(ledger.answers_of_the_replaced_count, ledger.confirmed_during_an_ensemble_change),
        *(ledger.ensemble_change_at_the_wrong_entry, ledger.last_confirmed_too_high),
        ledger.set_without_compare,
        *(found.failed_member_sits_twice, found.collected_log_is_missed),
    ),
    "repair": (
        repair.ledger_that_cannot_be_repaired_is_deleted,
        *(repair.named_before_it_is_copied, repair.named_before_the_copy_is_durable),
        *(repair.copy_ends_before_the_last_entry, repair.copy_begins_behind_the_first_entry),
        repair.unreadable_entries_are_left_out,
        repair.stripes_of_another_position_are_copied,
        repair.mark_is_removed_without_a_second_look,
        *(repair.bookies_away_are_not_asked_about, repair.only_the_first_segment_is_repaired),
        *(repair.open_ledger_is_left_to_its_writer, repair.recovered_ledger_counts_as_whole),
        repair.open_segment_is_repaired_without_recovery,
        *(repair.members_are_set_without_compare, repair.copies_go_to_any_rack),
        repair.lock_outlives_its_worker,
        *(repair.worker_waits_for_the_watch_alone, repair.absence_begins_anew_at_each_look),
        repair.copies_are_adds_of_a_writer,
        repair.every_segment_may_begin_elsewhere,
        auto_recovery.every_candidate_is_the_auditor,
        auto_recovery.auditor_outlives_its_session,
        auto_recovery.auditor_ignores_the_switch,
        auto_recovery.worker_ignores_the_switch,
        auto_recovery.mark_is_removed_whatever_its_version,
        auto_recovery.lock_is_not_taken,
        auto_recovery.open_ledger_is_recovered_at_once,
        auto_recovery.silence_is_a_loss,
        auto_recovery.one_failure_is_final,
        auto_recovery.copies_bear_another_key,
        auto_recovery.scrubber_passes_over_damage,
        auto_recovery.drained_copies_count,
        auto_recovery.open_ledgers_are_not_counted_in_a_drain,
        auto_recovery.ledgers_are_counted_by_their_last_segment,
        *(auto_recovery.copies_may_go_to_a_member, auto_recovery.silence_is_whole),
        *(auto_recovery.deleted_ledgers_are_stored_again, auto_recovery.votes_are_known_by_name),
        auto_recovery.entries_of_a_failed_disk_are_listed,
        auto_recovery.lock_is_released_before_the_work,
        auto_recovery.cookie_goes_while_its_bookie_serves,
        auto_recovery.last_entry_is_not_asked_for,
        auto_recovery.members_should_hold_every_entry,
    ),
    "managed": (
        managed.lost_race_for_the_list_taken_for_won,
        managed.cursors_are_those_read_first,
        managed.cursor_read_early_is_believed,
    ),
    "offloading": (
        offloading.copy_counts_before_it_is_read_back,
        offloading.upload_without_an_answer_counts_as_a_copy,
        offloading.earlier_attempts_are_forgotten,
        offloading.objects_of_trimmed_ledgers_are_forgotten,
        offloading.attempts_are_named_when_they_are_complete,
        offloading.objects_go_before_the_record_does,
        offloading.damage_is_returned,
        offloading.fewer_entries_are_the_rest,
        offloading.reads_begin_at_their_block,
        offloading.blocks_of_all_objects_are_one,
        offloading.records_are_read_before_the_bucket,
    ),
    "regions": (
        regions.one_region_confirms,
        regions.ensembles_are_chosen_by_name_alone,
        regions.all_regions_are_needed,
        regions.bookies_that_failed_once_stay_out,
        regions.quarantine_outranks_regions,
    ),
    "delays": (
        delays.full_set_of_delayed_entries_stops_dispatch,
        delays.delayed_without_room_are_forgotten,
        delays.stored_delays_are_read_again,
        delays.stored_delays_are_lost_with_their_owner,
        delays.merged_delays_begin_anew,
        delays.finished_delays_leave_their_ledgers,
        delays.seconds_are_taken_for_early_enough,
        found.empty_change_is_confirmed_at_once,
    ),
    "compacting": (
        compacting.compacted_ledger_counts_before_it_is_stored,
        compacting.what_only_the_last_compaction_kept_is_forgotten,
        compacting.compacted_ledger_deleted_by_the_next_owner,
        compacting.old_compacted_ledger_deleted_first,
        compacting.cut_off_compactions_leave_their_ledgers,
        compacting.an_empty_message_takes_its_batch_along,
        compacting.readers_go_on_in_the_topic_whatever_left_it,
    ),
    "keys": (
        *(dispatch.moved_keys_wait_for_nobody, dispatch.keys_drain_for_ever),
        dispatch.who_comes_takes_keys_at_once,
    ),
    "passing": (dispatch.dropped_entries_come_later,),
    "transfer": (
        transfer.markers_precede_the_decision,
        transfer.time_out_races_the_commit,
        transfer.low_water_mark_is_the_newest,
        transfer.ids_begin_anew_with_each_owner,
        transfer.decided_ends_are_not_continued,
        transfer.failed_request_counts_as_an_end,
        transfer.open_transactions_are_read,
        transfer.aborted_messages_are_delivered,
        transfer.snapshots_have_no_aborted_transactions,
        transfer.snapshot_is_ahead_of_what_may_be_read,
        transfer.readers_do_not_wait_for_the_transactions,
        transfer.pending_acknowledgements_end_with_their_owner,
        transfer.commits_acknowledge_nothing,
        transfer.aborted_acknowledgements_stay,
        transfer.commits_are_not_in_the_log_of_acknowledgements,
        transfer.records_go_before_the_cursor_is_stored,
    ),
    "vacant": (
        vacant.backlogs_do_not_count,
        vacant.decided_before_it_is_done,
        vacant.caught_up_for_all,
    ),
    "publishing": (
        publishing.newest_is_sent_again_first,
        publishing.sent_counts_as_stored,
        publishing.entries_behind_the_snapshot_are_not_read,
        publishing.producers_come_before_it_is_known_what_is_stored,
    ),
    "geo": (
        *(geo.passed_when_sent, geo.replicator_continues_behind_what_it_sent),
        *(geo.replicator_rewinds_while_it_reads, geo.entries_of_other_clusters_are_stored_again),
        *(geo.what_follows_a_refused_entry_is_stored, geo.refused_entry_counts_as_stored),
        *(geo.one_receipt_is_for_all_that_was_sent, geo.lost_entries_keep_their_room),
        *(geo.stuck_producer_is_kept, geo.producer_outlives_a_failure_at_its_start),
        *(geo.origin_is_not_named, geo.entries_of_others_are_sent_on),
        *(geo.chosen_clusters_do_not_count, geo.schemas_are_not_registered_there),
        *(geo.position_is_deleted_with_its_owner, geo.clusters_are_those_of_the_load),
        *(geo.producers_come_before_positions, geo.unsent_counts_as_expired),
        *(geo.backlog_is_hidden_while_disconnected, geo.reason_is_forgotten),
        *(geo.one_blocked_topic_blocks_its_cluster, geo.rest_of_a_reading_is_left_out),
        geo.partitions_are_not_compared,
    ),
    "moving": (
        mistakes.snapshots_count_before_they_are_passed,
        mistakes.copied_subscription_begins_at_the_end,
        mistakes.snapshot_is_where_it_was_requested,
        mistakes.missing_subscription_stays_missing,
        mistakes.snapshots_of_others_change_nothing,
    ),
    "migrating": (
        migrating.consumers_follow_before_all_is_acknowledged,
        migrating.migrated_subscriptions_are_not_made_there,
    ),
    "placing": (
        *(placing.lease_of_an_instance_is_not_taken, placing.lease_goes_before_the_instance),
        placing.instance_outlasts_its_lease,
        *(placing.deleted_functions_stay_assigned, placing.assignments_keep_the_old_function),
        *(placing.stopped_instances_are_started, placing.changed_function_is_not_restarted),
        *(placing.dead_instance_stays_down, placing.change_is_confirmed_before_it_is_stored),
    ),
    "rivals": (
        *(rivals.epoch_is_told_and_not_stored, rivals.fenced_producer_publishes_on),
        *(rivals.older_epoch_may_come_back, rivals.next_in_line_does_not_wait),
    ),
    "rights": (
        rights.changes_of_records_are_not_reported,
        rights.lost_rights_are_taken_away_later,
        rights.revoked_producer_is_not_notified,
        rights.changes_of_tenants_concern_nothing,
        rights.verdicts_are_kept,
        rights.consumers_are_judged_by_the_topic_alone,
        rights.only_the_first_client_is_judged_again,
        rights.refusal_by_old_records_is_final,
        rights.unknown_right_is_a_refusal,
        rights.revoked_tokens_are_refused_to_new_connections_alone,
        rights.revoked_tokens_are_read_at_the_start_alone,
    ),
    "rates": (
        rates.stopped_dispatch_is_in_no_line,
        rates.line_is_served_once,
        rates.what_fits_overtakes_what_waits,
        rates.removed_rate_serves_nobody,
        rates.rest_of_a_run_is_left_out,
    ),
    "splits": (
        splits.parts_are_taken_by_nobody,
        splits.bundle_is_let_go_before_it_is_split,
        splits.boundaries_of_others_are_left_out,
    ),
    "transfers": (
        transfers.name_in_a_node_is_taken_as_a_right,
        transfers.bundle_is_taken_before_it_is_released,
        transfers.late_removal_takes_the_node_of_the_next_owner,
        transfers.clients_to_be_notified_are_forgotten,
        transfers.drain_is_tried_once,
        transfers.drain_leaves_clients_behind,
        transfers.last_broker_may_be_drained,
    ),
    "apart": (
        metadata.end_of_another_session_is_taken_for_the_own,
        metadata.session_counts_only_with_all_stores,
        metadata.store_that_is_away_is_reported_as_there,
    ),
    "metadata": (
        *(metadata.answer_before_its_sync, metadata.event_before_its_sync),
        *(metadata.read_shows_what_is_not_synced, metadata.frames_overtake_each_other),
        *(metadata.watch_is_lost_at_a_reconnect, metadata.watch_fires_again),
        *(metadata.ephemeral_outlives_its_session, metadata.sessions_are_not_in_snapshots),
        *(metadata.restart_takes_a_session_for_old, metadata.sequence_is_used_again),
        *(metadata.version_is_skipped_by_a_replay, metadata.zxids_are_used_again),
        *(metadata.torn_group_is_taken, metadata.failed_sync_is_tried_again),
        metadata.snapshot_is_captured_before_its_segment_begins,
        metadata.last_group_is_believed_at_a_start,
    ),
    "balance": (
        *(balance.former_leader_moves_bundles, balance.moves_are_unknown_to_the_next_leader),
        *(balance.quiet_time_is_forgotten, balance.quiet_time_of_bundles_is_forgotten),
        *(balance.busiest_and_idlest_are_swapped, balance.a_moment_is_an_imbalance),
        *(balance.old_reports_are_believed, balance.clocks_of_others_are_believed),
        *(balance.any_number_is_a_load, balance.unknown_load_is_none),
        *(balance.ended_brokers_are_remembered, balance.isolation_does_not_count_for_moves),
        *(balance.anti_affinity_does_not_count, balance.the_whole_difference_moves),
        *(balance.every_broker_gives_at_once, balance.nothing_is_said_about_what_stays),
        *(balance.crowded_brokers_are_not_asked_last, balance.unknown_load_is_crowded),
        *(balance.leader_stops_at_a_failure, balance.loads_of_idle_brokers_do_not_count),
        balance.drained_brokers_receive_bundles,
        balance.drained_broker_is_taken_for_an_idle_one,
        balance.marks_leave_bundles_without_a_place,
        *(balance.failed_moves_are_repeated_at_once, balance.empty_broker_is_filled_without_end),
    ),
    "schemas": (
        registry.version_listed_over_another,
        registry.version_of_a_lost_answer_loses_its_ledger,
        registry.version_told_before_it_is_listed,
        registry.only_the_newest_version_is_known,
        registry.deleted_versions_are_unknown,
    ),
    "topics": (
        *(dispatch.newcomer_is_not_told, dispatch.old_active_is_not_told),
        *(dispatch.partition_does_not_count, dispatch.priority_does_not_count),
        dispatch.handover_is_not_waited_for,
        *(managed.session_never_lapses, managed.list_not_recovered),
        managed.session_given_up_late,
        *(managed.ack_confirmed_before_persisted, managed.mark_delete_before_acks),
        *(managed.trimmed_by_the_unpersisted_mark, managed.unconfirmed_entries_delivered),
        managed.reset_answered_before_durable,
        *(managed.unordered_confirmation, managed.producer_goes_on_after_failure),
        found.failed_ledger_used_for_ever,
        *(found.ownership_check_dies_of_silence, found.session_timer_spins),
        *(found.trimmed_before_cursors_are_known, found.first_dead_consumer_keeps_the_others),
        found.refused_consumer_is_stranded,
        *(found.partitions_grow_without_subscriptions, found.deletion_in_doubt_leaves_a_shell),
        found.partial_acknowledgements_wake_nobody,
        *(found.deleted_topic_leaks_its_ledgers, found.closed_subscription_is_given_out),
        found.handover_outlives_its_consumer,
    ),
}

PLANTS: dict[str, Plant] = {
    make.__name__.replace("_", "-"): Plant(workload, make)
    for workload, mistakes in _MISTAKES.items()
    for make in mistakes
}
UNSEEN: dict[str, Plant] = {
    "orphans-of-any-age-are-removed": Plant(
        "offloading", offloading.orphans_of_any_age_are_removed
    ),
    "copy-in-doubt-is-deleted": Plant("offloading", offloading.copy_in_doubt_is_deleted),
    "lost-race-taken-for-won": Plant("ledger", ledger.lost_race_taken_for_won),
    "cookie-missed-by-a-server-that-is-behind": Plant(
        "topics", found.cookie_missed_by_a_server_that_is_behind
    ),
    "unload-forgets-a-lost-answer": Plant("topics", found.unload_forgets_a_lost_answer),
    "recovered-entries-wake-nobody": Plant("topics", found.recovered_entries_wake_nobody),
}
"""Mistakes that no campaign finds: the steps that they need hardly ever coincide."""
CONTROLS: dict[str, Plant] = {"lease-off": Plant("topics", managed.lease_off)}
"""Changes that are not mistakes: with these a campaign must find nothing."""


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run the block with the mistake, or control, ``name`` in place."""
    patches = {**PLANTS, **UNSEEN, **CONTROLS}[name].make() if name else []
    with applied(patches):
        yield
