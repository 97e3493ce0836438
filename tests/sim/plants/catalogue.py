"""The switchboard: known mistakes, planted into the shipped code for a run. The campaigns must find every one."""

import contextlib
from collections.abc import Iterator

from tests.sim.plants import (
    bookie,
    dispatch,
    found,
    ledger,
    managed,
    publishing,
    registry,
)
from tests.sim.plants.planting import Plant, applied

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
    "managed": (managed.lost_race_for_the_list_taken_for_won,),
    "keys": (dispatch.moved_keys_wait_for_nobody,),
    "passing": (dispatch.dropped_entries_come_later,),
    "publishing": (publishing.newest_is_sent_again_first,),
    "schemas": (
        registry.version_listed_over_another,
        registry.version_of_a_lost_answer_loses_its_ledger,
        registry.version_told_before_it_is_listed,
        registry.only_the_newest_version_is_known,
        registry.deleted_versions_are_unknown,
    ),
    "topics": (
        *(managed.session_never_lapses, managed.list_not_recovered),
        *(managed.ack_confirmed_before_persisted, managed.mark_delete_before_acks),
        *(managed.trimmed_by_the_unpersisted_mark, managed.unconfirmed_entries_delivered),
        managed.reset_answered_before_durable,
        *(managed.unordered_confirmation, managed.producer_goes_on_after_failure),
        found.failed_ledger_used_for_ever,
        *(found.ownership_check_dies_of_silence, found.session_timer_spins),
        *(found.trimmed_before_cursors_are_known, found.first_dead_consumer_keeps_the_others),
        *(found.unload_forgets_a_lost_answer, found.refused_consumer_is_stranded),
        *(found.partitions_grow_without_subscriptions, found.deletion_in_doubt_leaves_a_shell),
        found.full_set_of_delayed_entries_stops_dispatch,
        *(found.delayed_without_room_are_forgotten, found.partial_acknowledgements_wake_nobody),
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
    "lost-race-taken-for-won": Plant("ledger", ledger.lost_race_taken_for_won),
    "cookie-missed-by-a-server-that-is-behind": Plant(
        "topics", found.cookie_missed_by_a_server_that_is_behind
    ),
    "recovered-entries-wake-nobody": Plant("topics", found.recovered_entries_wake_nobody),
}
"""Mistakes that no campaign has found yet: the steps that they need hardly ever meet."""
CONTROLS: dict[str, Plant] = {"lease-off": Plant("topics", managed.lease_off)}
"""Not mistakes: with these a campaign must find nothing."""


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run the block with the mistake, or control, ``name`` in place."""
    patches = {**PLANTS, **UNSEEN, **CONTROLS}[name].make() if name else []
    with applied(patches):
        yield
