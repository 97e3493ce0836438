"""The log of slices: in the order of processing, after what the code published, before the results."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.consuming.incoming import Incoming
from engine.functions.instance.lanes import sequence_of
from engine.functions.instance.state.logged_inputs import NOTHING, LoggedPartition, LoggedSlice
from engine.functions.instance.state.slice_log import SliceLog, SupersededError
from engine.functions.instance.user.processing import PartitionTenure, WorkSlice
from engine.wire import pulsar_pb2 as pb

P = "persistent://t/n/in"
Q = "persistent://t/n/other"


class Source:
    def __init__(self, topic: str) -> None:
        self.topic = topic


class Topic:
    """A topic of the state that keeps what is written, and says nothing until ``answer``."""

    def __init__(self) -> None:
        self.written: list[LoggedSlice] = []
        self.sent: list[Mapping[bytes, bytes | None]] = []
        self.last: dict[str, int] = {}
        self._waiting: list[Callable[[bool], None]] = []

    def logged(self, partition: str) -> LoggedPartition:
        return LoggedPartition(self.last.get(partition, NOTHING))

    def log(self, part: LoggedSlice, on_read: Callable[[bool], None]) -> None:
        self.written.append(part)
        self._waiting.append(on_read)

    def send(
        self,
        changes: Mapping[bytes, bytes | None],
        on_stored: Callable[[MagnetarError | None], None],
    ) -> None:
        self.sent.append(changes)
        on_stored(None)

    def answer(self, *, counts: bool = True) -> None:
        self._waiting.pop(0)(counts)


class Running:
    def __init__(self) -> None:
        self.topic = Topic()
        self.logged: list[WorkSlice] = []
        self.errors: list[MagnetarError] = []
        self.log = SliceLog(self.topic, self.logged.append, self.errors.append)

    def add(self, tenure: PartitionTenure, entry: int, *, partition: str = P) -> WorkSlice:
        """Add a slice of one input, whose code has published nothing."""
        part = part_of(tenure, entry, partition)
        self.log.add(part)
        return part

    @property
    def lasts(self) -> list[int]:
        return [part.last for part in self.topic.written if not part.claim]


def message(entry: int, partition: str) -> Incoming:
    metadata = pb.MessageMetadata()
    return Incoming(Source(partition), Position(0, entry), 0, metadata, metadata, b"")


def part_of(tenure: PartitionTenure | None, entry: int, partition: str = P) -> WorkSlice:
    part = WorkSlice(tenure)
    part.source = Source(partition)
    if tenure is not None:
        part.done.append(message(entry, partition))
        part.results.append((part.done[0], b"r"))
    return part


def claimed() -> PartitionTenure:
    tenure = PartitionTenure()
    tenure.claimed = True
    return tenure


def sequence(entry: int) -> int:
    return sequence_of(message(entry, P))


def test_a_result_may_leave_when_its_slice_is_read_back() -> None:
    running, tenure = Running(), claimed()
    first = running.add(tenure, 1)
    assert running.logged == []
    assert running.topic.written[0].results == {sequence(1): b"r"}
    running.topic.answer()
    assert running.logged == [first]


def test_a_slice_waits_for_the_receipts_of_what_its_code_published_and_so_do_all_behind_it() -> (
    None
):
    running, tenure, other = Running(), claimed(), claimed()
    part = part_of(tenure, 1)
    part.pending += 1
    running.log.add(part)
    running.add(other, 9, partition=Q)
    assert running.topic.written == []
    part.pending -= 1
    running.log.pump()
    assert [written.partition for written in running.topic.written] == [P, Q]


def test_results_that_are_stored_are_named_by_the_slices_behind() -> None:
    running, tenure = Running(), claimed()
    parts = [running.add(tenure, entry) for entry in (1, 2)]
    for _ in parts:
        running.topic.answer()
    # The second is stored first: that says nothing of the first.
    for part, stored in ((parts[1], NOTHING), (parts[0], sequence(2))):
        part.pending = 0
        running.log.completed(part)
        running.add(tenure, 10 + len(running.topic.written))
        assert running.topic.written[-1].stored == stored


def test_results_from_before_the_first_use_of_the_state_are_stored_before_anything_is_logged() -> (
    None
):
    running, tenure = Running(), claimed()
    before = part_of(tenure, 1)
    running.log.begun_unlogged(before)
    running.add(tenure, 2)
    assert running.topic.written == []
    running.log.completed(before)
    assert running.lasts == [sequence(2)]


def test_a_partition_is_claimed_at_the_first_use_and_what_others_logged_meanwhile_ends_it() -> None:
    for theirs, ends in ((sequence(0), False), (sequence(1), True)):
        running, tenure = Running(), PartitionTenure()
        running.add(tenure, 1)
        assert [part.claim for part in running.topic.written] == [True]
        running.topic.last[P] = theirs
        running.topic.answer()
        assert [isinstance(error, SupersededError) for error in running.errors] == [True] * ends
        assert running.lasts == ([] if ends else [sequence(1)])


def test_nothing_leaves_behind_a_slice_that_does_not_count() -> None:
    running, tenure = Running(), claimed()
    for entry in (1, 2):
        running.add(tenure, entry)
    running.topic.answer(counts=False)
    running.topic.answer(counts=True)
    assert running.logged == []
    assert [type(error) for error in running.errors] == [SupersededError]
    running.add(tenure, 3)
    assert running.lasts == [sequence(1), sequence(2)]


def test_inputs_out_of_order_end_the_instance() -> None:
    running, tenure = Running(), claimed()
    for entry in (5, 4):
        running.add(tenure, entry)
    assert [str(error) for error in running.errors] == [f"{P}: inputs are out of order"]
    assert running.lasts == [sequence(5)]


def test_a_result_that_a_lost_partition_cannot_store_ends_the_instance() -> None:
    running, tenure = Running(), claimed()
    running.log.begun_unlogged(part_of(tenure, 1))
    tenure.over = True
    running.add(tenure, 2)
    assert [type(error) for error in running.errors] == [SupersededError]
    assert running.topic.written == []


def test_changes_of_a_trigger_keep_their_place() -> None:
    running, tenure = Running(), claimed()
    part = part_of(tenure, 1)
    part.pending += 1
    running.log.add(part)
    trigger = part_of(None, 0)
    trigger.changes[b"vk\x00"] = b"1"
    running.log.add(trigger)
    assert running.topic.sent == []
    part.pending -= 1
    running.log.pump()
    assert running.topic.sent == [{b"vk\x00": b"1"}]
    assert running.logged == [trigger]


@pytest.mark.parametrize("counts", [True, False])
async def test_a_partition_is_left_when_its_slices_are_read_back(counts: bool) -> None:
    running, tenure = Running(), claimed()
    running.add(tenure, 1)
    running.add(claimed(), 1, partition=Q)
    leaving = asyncio.get_running_loop().create_task(running.log.leave(P))
    await asyncio.sleep(0)
    assert not leaving.done()
    running.topic.answer(counts=counts)
    await asyncio.wait_for(leaving, 30)
