"""Edits of tiered storage."""

from tests.mutants.edit import Edit

MOVING = "unit/managed/writing/test_offloading.py"
REPORT = "unit/broker/administration/tiers/test_tier_report.py"
STORES = "unit/offload/stores/test_obstore_stores.py"
WRITING = "unit/offload/test_ledger_writing.py"
DIES = f"{MOVING}::test_a_broker_that_dies_at_any_request_loses_nothing_and_leaves_no_object_behind"

EDITS = (
    Edit(
        "moved-ledgers-deleted-at-once",
        "engine/managed/writing/offload_rules.py::releasable",
        "and abs(now_ms - offload.completed_ms) >= 1000 * lag_s",
        "and True",
        (f"{MOVING}::test_a_ledger_stays_on_bookies_until_the_deletion_lag_has_passed",),
        "U1",
    ),
    Edit(
        "copy-complete-without-being-read-back",
        "engine/offload/ledger_writing.py::write_ledger",
        "await reader.verify(VERIFIED_BYTES)",
        "pass",
        (f"{MOVING}::test_bytes_that_the_store_changed_are_never_taken_for_a_copy",),
        "U2",
    ),
    Edit(
        "checksums-of-blocks-not-compared",
        "engine/offload/reading/object_reader.py::ObjectReader._compared",
        "if crc32c(part) != self.index.checksums[i]:",
        "if False:",
        (f"{WRITING}::test_a_changed_byte_anywhere_is_damage_that_names_object_and_block",),
        "U2",
    ),
    Edit(
        "objects-of-an-earlier-attempt-forgotten",
        "engine/managed/writing/rolling.py::LedgerList.note_offload",
        "replaced = doomed_objects_of([span]) if before.attempt != after.attempt else []",
        "replaced: list[DoomedObjects] = []",
        (DIES,),
        "U3",
    ),
    Edit(
        "objects-of-trimmed-ledgers-forgotten",
        "engine/managed/writing/rolling.py::LedgerList.trim",
        "self._dropped_objects += doomed_objects_of(ledgers)",
        "pass",
        (
            f"{MOVING}::test_objects_that_cannot_be_deleted_are_deleted_by_the_next_owner",
            f"{MOVING}::test_objects_are_deleted_with_the_ledgers_that_are_trimmed",
        ),
        "U4",
    ),
    Edit(
        "orphans-of-records-read-too-early",
        "engine/offload/orphans.py::find_orphans",
        "if listed.modified_ms >= older_than_ms:",
        "if False:",
        (
            "unit/offload/test_orphans.py::test_an_object_that_may_be_written_now_is_too_young_for_a_verdict",
        ),
        "U5",
    ),
    Edit(
        "objects-of-other-clusters-are-orphans",
        "engine/offload/orphans.py::_is_of",
        "return {name.lower(): value for name, value in attributes.items()}.get(CLUSTER) == cluster",
        "return True",
        (
            "unit/offload/test_orphans.py::test_objects_that_no_record_names_are_deleted_and_no_others",
        ),
        "U5",
    ),
    Edit(
        "objects-to-be-deleted-are-not-named",
        "engine/managed/stored/object_references.py::NamedObjects.add",
        "for doomed in record.doomed_objects:",
        "for doomed in ():",
        (
            "unit/managed/stored/test_object_references.py::test_objects_of_attempts_copies_and_deletions_are_named",
        ),
        "U5",
    ),
    Edit(
        "blocks-under-way-are-requested-again",
        "engine/offload/reading/block_cache.py::BlockCache.blocks",
        "task = self._under_way.get(key)",
        "task = None",
        (
            "unit/offload/reading/test_block_cache.py::test_blocks_read_ahead_are_there_and_those_under_way_are_waited_for",
        ),
        "U2",
    ),
    Edit(
        "cancelled-upload-is-not-aborted",
        "engine/offload/stores/ending.py::unbroken",
        "end()",
        "pass",
        (f"{STORES}::test_an_upload_whose_caller_is_cancelled_leaves_no_object_and_no_parts",),
        "U3",
    ),
    Edit(
        "object-deleted-before-its-upload-ends",
        "engine/offload/stores/obstore_stores.py::ObstoreStore.delete",
        "if key in self._uploads:",
        "if False:",
        (f"{STORES}::test_an_object_that_an_upload_may_still_write_is_not_deleted",),
        "U3",
    ),
    Edit(
        "copy-not-looked-up-before-it-is-the-only-one",
        "engine/managed/writing/offloading.py::LedgerMover._check_copy",
        "await check_copy(tiered.stores, self._shared.ledgers, span)",
        "pass",
        (
            f"{MOVING}::test_a_copy_that_was_lost_after_it_was_complete_is_made_again_and_not_the_only_one",
            f"{MOVING}::test_a_ledger_stays_on_bookies_while_the_store_cannot_say_that_it_has_the_copy",
        ),
        "U1",
    ),
    Edit(
        "copy-without-checksums-is-trusted",
        "engine/managed/writing/copy_checks.py::check_copy",
        "if copy.index.checksums:",
        "if True:",
        (
            f"{MOVING}::test_a_copy_without_checksums_is_compared_with_the_bookies_before_it_is_the_only_one",
        ),
        "U1",
    ),
    Edit(
        "streamed-objects-count-as-a-copy",
        "engine/managed/stored/offloads.py::_offload",
        "context.complete and attempt is not None,",
        "context.complete,",
        (f"{MOVING}::test_a_ledger_in_a_streamed_object_is_copied_again_while_bookies_have_it",),
        "U1",
    ),
    Edit(
        "ledger-that-bookies-lack-is-moved-again",
        "engine/managed/writing/offload_rules.py::is_movable",
        "gone = offload.complete or offload.deleted_from_bookies",
        "gone = offload.complete",
        (
            f"{REPORT}::test_each_ledger_has_its_place_and_only_those_on_bookies_alone_would_be_moved",
        ),
        "U1",
    ),
    Edit(
        "failed-attempts-fill-the-record",
        "engine/managed/writing/offloading.py::LedgerMover._move",
        "self._list.check_deletions(policy.bucket)",
        "pass",
        (f"{MOVING}::test_attempts_that_fail_and_cannot_be_deleted_do_not_fill_the_record",),
        "U4",
    ),
    Edit(
        "bucket-that-is-away-holds-up-others",
        "engine/managed/writing/rolling.py::LedgerList._sweep_objects",
        "failed[doomed.bucket] = error",
        "return",
        (f"{MOVING}::test_a_bucket_that_is_away_holds_up_no_deletions_in_another",),
        "U4",
    ),
    Edit(
        "shadow-topics-move-their-sources-ledgers",
        "engine/managed/writing/offloading.py::LedgerMover.soon",
        "if not self._list.owns_ledgers:",
        "if False:",
        (
            "unit/managed/reading/test_shadow_ledger.py::test_the_ledgers_are_moved_by_the_source_alone",
        ),
        "U1",
    ),
)
