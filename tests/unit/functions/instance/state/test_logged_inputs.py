"""Slices of inputs in the topic of the state: each input counts once, also with late and repeated writers."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from engine.functions.instance.state.logged_inputs import (
    NOTHING,
    LoggedInputs,
    LoggedPartition,
    LoggedSlice,
    SliceFormatError,
    SliceVerdict,
)
from engine.functions.instance.state.registers import Born

P = "persistent://t/n/in"
Q = "persistent://t/n/other"


def part(
    writer: str,
    number: int,
    last: int,
    *,
    partition: str = P,
    stored: int = NOTHING,
    results: dict[int, bytes] | None = None,
) -> LoggedSlice:
    changes: dict[bytes, bytes | None] = {b"vk\x00": b"1", b"vgone\x00": None}
    return LoggedSlice(writer, number, partition, last, stored, changes, results or {})


def claim(writer: str, number: int, partition: str = P) -> LoggedSlice:
    return LoggedSlice(writer, number, partition, claim=True)


def test_slices_of_the_last_who_claimed_a_partition_count() -> None:
    inputs = LoggedInputs()
    assert inputs.judge(part("0-x", 0, 4)) is SliceVerdict.REFUSED
    inputs.judge(claim("0-a", 0))
    assert inputs.judge(part("0-a", 1, 4)) is SliceVerdict.COUNTS
    inputs.judge(claim("1-b", 0))
    assert inputs.judge(part("0-a", 2, 5)) is SliceVerdict.REFUSED
    assert inputs.judge(part("1-b", 1, 9)) is SliceVerdict.COUNTS
    assert inputs.partition(P).last == 9


def test_nothing_of_a_writer_counts_after_a_slice_that_did_not() -> None:
    inputs = LoggedInputs()
    for written in (claim("0-a", 0), claim("0-a", 1, Q), claim("1-b", 0)):
        inputs.judge(written)
    assert inputs.judge(part("0-a", 2, 4)) is SliceVerdict.REFUSED
    assert inputs.judge(part("0-a", 3, 7, partition=Q)) is SliceVerdict.REFUSED
    assert inputs.judge(claim("0-a", 4)) is SliceVerdict.REFUSED
    assert inputs.partition(Q).last == NOTHING


def test_an_instance_that_starts_again_ends_what_is_left_of_it() -> None:
    inputs = LoggedInputs()
    for written in (claim("0-a", 0, ""), claim("0-a", 1), claim("1-c", 0, ""), claim("1-c", 1, Q)):
        inputs.judge(written)
    inputs.judge(claim("0-b", 0, ""))
    assert inputs.judge(part("0-a", 2, 4)) is SliceVerdict.REFUSED
    assert inputs.judge(part("1-c", 2, 4, partition=Q)) is SliceVerdict.COUNTS


def test_a_slice_that_was_sent_twice_counts_once_and_harms_nothing() -> None:
    inputs = LoggedInputs()
    inputs.judge(claim("0-a", 0))
    first = part("0-a", 1, 4)
    assert inputs.judge(first) is SliceVerdict.COUNTS
    assert inputs.judge(part("0-a", 2, 5)) is SliceVerdict.COUNTS
    assert inputs.judge(first) is SliceVerdict.REPEATED
    assert inputs.judge(part("0-a", 3, 6)) is SliceVerdict.COUNTS


def test_results_are_kept_until_they_are_stored_in_the_output() -> None:
    inputs = LoggedInputs()
    inputs.judge(claim("0-a", 0))
    inputs.judge(part("0-a", 1, 3, results={1: b"one", 3: b"three"}))
    inputs.judge(part("0-a", 2, 5, stored=1, results={5: b"five"}))
    assert inputs.partition(P) == LoggedPartition(5, 1, "0-a", {3: b"three", 5: b"five"})


def test_bytes_of_slices_and_copies_are_read_back() -> None:
    whole = part("0-w", 7, 1 << 62, stored=5, results={1 << 62: b"", 3: b"\x00x"})
    assert LoggedSlice.from_bytes(whole.to_bytes()) == whole
    inputs = LoggedInputs()
    for written in (claim("0-w", 0), whole, claim("1-x", 0, Q), part("1-x", 1, 3, partition=Q)):
        inputs.judge(written)
    again = LoggedInputs.from_bytes(inputs.to_bytes(Born(3, 4, 5)))
    assert again.until == Born(3, 4, 5)
    for name in (P, Q, "unknown"):
        assert again.partition(name) == inputs.partition(name)
    assert again.judge(whole) is SliceVerdict.REPEATED
    assert again.judge(whole._replace(number=8)) is SliceVerdict.COUNTS


@given(some.binary(max_size=80))
def test_bytes_that_are_no_slice_are_refused(data: bytes) -> None:
    for read in (LoggedSlice.from_bytes, LoggedInputs.from_bytes):
        try:
            read(data)
        except SliceFormatError:
            continue


def test_a_slice_that_was_cut_off_is_refused() -> None:
    data = part("w", 0, 3, results={3: b"three"}).to_bytes()
    for end in range(len(data)):
        with pytest.raises(SliceFormatError):
            LoggedSlice.from_bytes(data[:end])


@dataclass
class Follower:
    """One who reads the topic: ``sum`` stands for a value that the code reads and writes again for each input."""

    inputs: LoggedInputs = field(default_factory=LoggedInputs)
    sums: dict[str, int] = field(default_factory=dict)

    def read(self, at: int, written: LoggedSlice) -> SliceVerdict | None:
        if Born(1, at, 0) <= self.inputs.until:
            return None
        verdict = self.inputs.judge(written)
        if verdict is SliceVerdict.COUNTS:
            for name, value in written.changes.items():
                assert value is not None
                self.sums[name.decode()] = int(value)
        return verdict


@dataclass
class Writer:
    """An instance: its view with what it has not read back, and slices that the topic does not have yet."""

    name: str
    sums: dict[str, int]
    last: dict[str, int]
    number: int = 0
    queue: list[LoggedSlice] = field(default_factory=list)

    def process(self, partition: str, count: int) -> None:
        for key in (partition, "all"):
            self.sums[key] = self.sums.get(key, 0) + count
        changes: dict[bytes, bytes | None] = {
            key.encode(): b"%d" % self.sums[key] for key in (partition, "all")
        }
        self.last[partition] += count
        last = self.last[partition]
        self.queue.append(LoggedSlice(self.name, self.number, partition, last, changes=changes))
        self.number += 1


STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("start")),
        some.tuples(some.just("process"), some.sampled_from([P, Q]), some.integers(1, 3)),
        some.tuples(some.just("write"), some.integers(0, 3), some.booleans()),
        some.tuples(some.just("copy")),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_every_input_counts_once_whatever_late_writers_write(
    steps: list[tuple[str, int, bool]],
) -> None:
    topic: list[LoggedSlice] = []
    follower = Follower()
    cut: tuple[int, bytes, dict[str, int]] | None = None
    writers: list[Writer] = []

    def started() -> None:
        name = f"0-{len(writers)}"
        for number, partition in enumerate(("", P, Q)):
            follower.read(len(topic), claim(name, number, partition))
            topic.append(claim(name, number, partition))
        last = {partition: follower.inputs.partition(partition).last for partition in (P, Q)}
        writers.append(Writer(name, dict(follower.sums), last, number=3))

    started()
    for kind, *values in steps:
        if kind == "start":
            started()
        elif kind == "process":
            writers[-1].process(str(values[0]), int(values[1]))
        elif kind == "copy":
            at = len(topic) - 1
            cut = at, follower.inputs.to_bytes(Born(1, at, 0)), dict(follower.sums)
        else:
            writer = writers[-1 - int(values[0]) % len(writers)]
            if not writer.queue:
                continue
            # A slice whose receipt was lost is sent again.
            for written in [writer.queue.pop(0)] * (2 if values[1] else 1):
                verdict = follower.read(len(topic), written)
                topic.append(written)
                if verdict is SliceVerdict.REFUSED and writer is writers[-1]:
                    started()
    counted = {name: follower.inputs.partition(name).last + 1 for name in (P, Q)}
    assert {name: follower.sums.get(name, 0) for name in (P, Q)} == counted
    assert follower.sums.get("all", 0) == sum(counted.values())
    if cut is not None:
        at, copy, sums = cut
        late = Follower(LoggedInputs.from_bytes(copy), sums)
        for place, written in enumerate(topic):
            late.read(place, written)
        assert late.sums == follower.sums
        assert late.inputs.partition(P) == follower.inputs.partition(P)
