"""Edits of instances of functions."""

from tests.mutants.edit import Edit

LANES = "unit/functions/instance/test_lanes.py"
LOST = "unit/functions/instance/test_lost_partitions.py"
PROCESSING = "unit/functions/instance/user/test_processing.py"
REGISTERS = "unit/functions/instance/state/test_registers.py"
USER_THREAD = "engine/functions/instance/user/processing.py::UserThread"
LOGGED = "unit/functions/instance/state/test_logged_inputs.py"
SLICE_LOG = "unit/functions/instance/state/test_slice_log.py"
LOGGED_INPUTS = "engine/functions/instance/state/logged_inputs.py::LoggedInputs"
STORE = "engine/functions/instance/state/registers.py::LocalStore"
CLIENT = "unit/functions/instance/test_instance_client.py"
THREADS = "unit/functions/runtime/test_threads.py"

EDITS: tuple[Edit, ...] = (
    Edit(
        "an-instance-keeps-the-brokers-of-its-start",
        "engine/functions/instance/instance_client.py::PresentBrokers.__call__",
        "if self._ask is not None:",
        "if False:",
        (f"{CLIENT}::test_each_lookup_has_the_brokers_that_there_are_then",),
        "F3",
    ),
    Edit(
        "an-instance-forgets-all-brokers-while-none-are-known",
        "engine/functions/instance/instance_client.py::PresentBrokers.__call__",
        "self._urls = each_url(await self._ask()) or self._urls",
        "self._urls = each_url(await self._ask())",
        (f"{CLIENT}::test_the_last_known_brokers_stay_while_no_others_are_known",),
        "F3",
    ),
    Edit(
        "a-start-on-a-thread-is-waited-for",
        "engine/functions/runtime/threads.py::ThreadRuntime.start",
        "instance.begin()",
        "await instance._start()",
        (
            f"{THREADS}::test_an_instance_that_is_stopped_while_it_starts_leaves_no_connection_"
            "thread_or_folder",
        ),
        "F3",
    ),
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
        "if tenure is not None and tenure.over:",
        "if False:",
        (f"{PROCESSING}::test_nothing_is_processed_of_a_partition_that_was_lost",),
        "F7",
    ),
    Edit(
        "dropped-messages-keep-their-room",
        f"{USER_THREAD}._process",
        "self.slice.taken += len(run.messages) - index",
        "pass",
        (f"{LOST}::test_a_lost_partition_takes_no_room_in_the_queue[unload-no-output-no-state]",),
        "F11",
    ),
    Edit(
        "messages-that-waited-for-a-lost-lane-keep-their-room",
        "engine/functions/instance/lanes.py::PartitionLanes.lost",
        "return sum(len(run.messages) for run in waiting)",
        "return 0",
        (f"{LANES}::test_messages_that_wait_for_a_lane_are_counted_when_it_is_lost",),
        "F11",
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
    Edit(
        "every-writer-of-an-input-counts",
        f"{LOGGED_INPUTS}.judge",
        "if part.writer != known.owner:",
        "if False:",
        (f"{LOGGED}::test_slices_of_the_last_who_claimed_a_partition_count",),
        "F9",
    ),
    Edit(
        "what-depends-on-a-refused-slice-counts",
        f"{LOGGED_INPUTS}.judge",
        "self._note(part.writer, REFUSED)",
        "self._note(part.writer, part.number)",
        (f"{LOGGED}::test_nothing_of_a_writer_counts_after_a_slice_that_did_not",),
        "F9",
    ),
    Edit(
        "an-older-start-of-an-instance-counts-on",
        f"{LOGGED_INPUTS}._claim",
        "self._writers[writer] = REFUSED",
        "pass",
        (
            f"{LOGGED}::test_an_instance_that_starts_again_ends_what_is_left_of_it",
            f"{LOGGED}::test_every_input_counts_once_whatever_late_writers_write",
        ),
        "F9",
    ),
    Edit(
        "an-input-is-logged-before-its-publications-are-stored",
        "engine/functions/instance/state/slice_log.py::SliceLog.pump",
        "if part.pending > 1 or self._claiming:",
        "if self._claiming:",
        (
            f"{SLICE_LOG}::test_a_slice_waits_for_the_receipts_of_what_its_code_published_"
            "and_so_do_all_behind_it",
        ),
        "F9",
    ),
)
