"""Edits of tiered storage."""

from tests.mutants.edit import Edit

MOVING = "unit/managed/writing/test_offloading.py"
WRITING = "unit/offload/test_ledger_writing.py"
DIES = f"{MOVING}::test_a_broker_that_dies_at_any_request_loses_nothing_and_leaves_no_object_behind"

EDITS = (
    Edit(
        "moved-ledgers-deleted-at-once",
        "engine/managed/writing/offload_rules.py::releasable",
        "and now_ms - offload.completed_ms >= 1000 * lag_s",
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
        "engine/offload/object_reader.py::ObjectReader._verified",
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
)
