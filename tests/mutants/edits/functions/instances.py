"""Edits of instances of functions."""

from tests.mutants.edit import Edit

LANES = "unit/functions/instance/test_lanes.py"
PROCESSING = "unit/functions/instance/user/test_processing.py"
REGISTERS = "unit/functions/instance/state/test_registers.py"
USER_THREAD = "engine/functions/instance/user/processing.py::UserThread"
STORE = "engine/functions/instance/state/registers.py::LocalStore"

EDITS: tuple[Edit, ...] = (
    Edit(
        "a-stored-result-is-sent-again",
        "engine/functions/instance/lanes.py::PartitionLane.send",
        "if sequence <= producer.stored_sequence_id:",
        "if False:",
        (f"{LANES}::test_a_result_that_is_stored_is_reported_and_not_sent_again",),
        "F5",
    ),
    Edit(
        "results-behind-a-gap-keep-counting",
        "engine/functions/instance/lanes.py::PartitionLane.send",
        "if sequence != self._next.get(producer):",
        "if producer not in self._next:",
        (f"{LANES}::test_each_result_is_sent_under_its_own_sequence_id",),
        "F5",
    ),
    Edit(
        "a-failed-message-is-overtaken",
        f"{USER_THREAD}._one",
        "if not part.failures[-1].retried or self._pause(attempts):",
        "if True:",
        (f"{PROCESSING}::test_an_ordered_function_repeats_a_message_before_those_behind_it",),
        "F6",
    ),
    Edit(
        "a-lost-partition-is-processed-on",
        f"{USER_THREAD}._process",
        "if self._stopping.is_set() or (tenure is not None and tenure.over):",
        "if self._stopping.is_set():",
        (f"{PROCESSING}::test_nothing_is_processed_of_a_partition_that_was_lost",),
        "F7",
    ),
    Edit(
        "the-change-that-is-read-last-stays",
        f"{STORE}.apply",
        "if before is not None and before.born >= born:",
        "if False:",
        (f"{REGISTERS}::test_a_later_change_counts_whatever_is_read_first",),
        "F8",
    ),
    Edit(
        "a-counter-forgets-what-an-instance-counted-before",
        f"{STORE}._add",
        "+ new - old",
        "+ new",
        (f"{REGISTERS}::test_a_counter_is_the_sum_of_all_who_count",),
        "F8",
    ),
)
