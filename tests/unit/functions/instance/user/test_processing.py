"""The thread of the user's code: what a slice holds, and how failures of each kind of function are handled."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from engine.base.clock import SystemClock
from engine.base.ids import Position
from engine.client.consuming.incoming import Incoming
from engine.functions.instance.instance_plan import InstancePlan, ProcessingGuarantee, WindowPlan
from engine.functions.instance.user.function_context import FunctionContext
from engine.functions.instance.user.processing import (
    MessageRun,
    PartitionTenure,
    UserThread,
    WorkSlice,
)
from engine.functions.instance.user.value_codecs import codec_of
from engine.wire import pulsar_pb2 as pb
from tests.support.waiting import BOUND_S, until_blocking

CODEC = codec_of("", "", {})


class ContextDouble:
    message: Incoming | None = None
    window: Any = ()


def message(number: int, content: bytes | None = None, redelivered: int = 0) -> Incoming:
    metadata = pb.MessageMetadata()
    data = b"%d" % number if content is None else content
    return Incoming("source", Position(1, number), redelivered, metadata, metadata, data)


class Running:
    """A thread with what it handed back."""

    def __init__(self, call: Callable[[Any, Any], Any], **plan: Any) -> None:
        self.slices: list[WorkSlice] = []
        self.ended: list[BaseException] = []
        context = cast("FunctionContext", ContextDouble())
        self.thread = UserThread(
            InstancePlan("t", "n", "f", "m.C", **plan),
            call,
            context,
            CODEC,
            SystemClock(),
            self.slices.append,
            self.ended.append,
        )
        self.thread.start()

    def process(
        self, *messages: Incoming, tenure: PartitionTenure | None = None
    ) -> list[WorkSlice]:
        """Return the slices of a run when it is through."""
        through = threading.Event()
        self.thread.give(MessageRun(CODEC, messages, tenure))
        self.thread.between(through.set)
        assert through.wait(BOUND_S), self.ended
        return self.slices

    def close(self) -> None:
        self.thread.stop()
        assert self.thread.join(BOUND_S)
        assert self.ended == []


def all_done(slices: list[WorkSlice]) -> list[int]:
    return [message.position.entry_id for part in slices for message in part.done]


def results(slices: list[WorkSlice]) -> list[bytes]:
    return [data for part in slices for _, data in part.results]


def test_results_and_messages_are_handed_back_in_order() -> None:
    running = Running(lambda value, context: None if value == 2 else value * 10)
    slices = running.process(*(message(number) for number in range(5)))
    assert results(slices) == [b"0", b"10", b"30", b"40"]
    assert all_done(slices) == [0, 1, 2, 3, 4]
    assert sum(part.taken for part in slices) == 5
    assert sum(len(part.latencies_s) for part in slices) == 5
    running.close()


def fails_at(number: int, times: int = 1 << 30) -> Callable[[Any, Any], Any]:
    left = [times]

    def call(value: Any, context: Any) -> Any:
        if value == number and left[0]:
            left[0] -= 1
            raise ValueError("no good")
        return value

    return call


def test_a_failure_names_the_message_and_whose_fault_it_is() -> None:
    running = Running(fails_at(1))
    slices = running.process(message(0), message(1), message(2))
    (failure,) = [failure for part in slices for failure in part.failures]
    assert [failed.position.entry_id for failed in failure.messages] == [1]
    assert (failure.kind, failure.given_up, failure.retried) == ("user", False, False)
    assert failure.text.rstrip().endswith("ValueError: no good")
    assert all_done(slices) == [0, 2]
    running.close()


def test_a_result_that_cannot_be_encoded_is_a_system_failure() -> None:
    running = Running(lambda value, context: [value])
    (failure,) = [failure for part in running.process(message(0)) for failure in part.failures]
    assert failure.kind == "system"
    assert "IdentitySerDe cannot serialize list" in failure.text
    running.close()


@pytest.mark.parametrize(("redelivered", "given_up"), [(0, False), (1, False), (2, True)])
def test_a_message_is_given_up_after_its_redeliveries(redelivered: int, given_up: bool) -> None:
    running = Running(fails_at(1), retries=2)
    slices = running.process(message(1, redelivered=redelivered))
    assert [failure.given_up for part in slices for failure in part.failures] == [given_up]
    running.close()


def test_an_ordered_function_repeats_a_message_before_those_behind_it() -> None:
    running = Running(fails_at(1, times=2), retain_ordering=True)
    slices = running.process(message(0), message(1), message(2))
    assert results(slices) == [b"0", b"1", b"2"]
    failures = [failure for part in slices for failure in part.failures]
    assert [failure.retried for failure in failures] == [True, True]
    assert sum(part.taken for part in slices) == 3
    running.close()


def test_an_ordered_function_gives_up_after_its_retries() -> None:
    running = Running(fails_at(1), retain_ordering=True, retries=1)
    slices = running.process(message(1), message(2))
    failures = [failure for part in slices for failure in part.failures]
    assert [(failure.retried, failure.given_up) for failure in failures] == [
        (True, False),
        (False, True),
    ]
    assert all_done(slices) == [2]
    running.close()


def test_effectively_once_does_not_repeat_in_place() -> None:
    running = Running(fails_at(1), guarantee=ProcessingGuarantee.EFFECTIVELY_ONCE)
    slices = running.process(message(1), tenure=PartitionTenure())
    assert [failure.retried for part in slices for failure in part.failures] == [False]
    running.close()


def test_nothing_is_processed_of_a_partition_that_was_lost() -> None:
    seen: list[int] = []
    tenure = PartitionTenure()

    def call(value: Any, context: Any) -> None:
        seen.append(value)
        tenure.over = value == 1

    running = Running(call, guarantee=ProcessingGuarantee.EFFECTIVELY_ONCE)
    running.process(*(message(number) for number in range(4)), tenure=tenure)
    slices = running.process(message(9), tenure=tenure)
    assert seen == [0, 1]
    assert sum(part.taken for part in slices) == 5, "dropped ones leave their room"
    running.close()


def test_a_slow_call_does_not_hold_back_the_results_before_it() -> None:
    going_on = threading.Event()

    def call(value: Any, context: Any) -> Any:
        if value == 2:
            going_on.wait(BOUND_S)
        elif value == 1:
            threading.Event().wait(0.005)  # time: longer than a slice
        return value

    running = Running(call)
    running.thread.give(MessageRun(CODEC, [message(number) for number in range(3)]))
    until_blocking(lambda: results(running.slices) == [b"0", b"1"], "the first results")
    going_on.set()
    until_blocking(lambda: results(running.slices) == [b"0", b"1", b"2"], "the last result")
    running.close()


def test_a_window_is_called_with_values_and_acknowledges_what_leaves() -> None:
    running = Running(
        lambda values, context: sum(values), window=WindowPlan(count=3, slide_count=2)
    )
    slices = running.process(*(message(number) for number in range(1, 5)))
    assert results(slices) == [b"3", b"9"]
    assert all_done(slices) == [1, 2, 3]
    running.close()


def test_a_window_by_time_is_called_without_further_messages() -> None:
    running = Running(lambda values, context: sum(values), window=WindowPlan(length_ms=50))
    running.process(message(4), message(5))
    until_blocking(lambda: results(running.slices) == [b"9"], "the window")
    assert sorted(all_done(running.slices)) == [4, 5]
    running.close()
