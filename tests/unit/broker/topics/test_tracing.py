"""Tracing of single entries: times of an entry from its publish to its acknowledgements, only on request."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.ids import Position
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.topics.publish import Publish
from engine.broker.topics.tracing.entry_trace import DELIVERIES_MAX, trace_context
from engine.broker.topics.tracing.topic_tracing import FOLLOW_S, KEPT
from engine.wire import frames
from engine.wire.commands import command_bytes
from engine.wire.kernels import take_sends
from tests.support.broker_bench import Bench, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


def send(bench: Bench, traceparents: list[str]) -> None:
    """Publish one run of entries with these contexts; ``""``: without one."""
    data = b"".join(
        frames.payload_frame(
            command_bytes("send", {"producer_id": 1, "sequence_id": i}),
            entry_of(
                b"v",
                **({"properties": [{"key": "traceparent", "value": text}]} if text else {}),
            ),
        )
        for i, text in enumerate(traceparents)
    )
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, bench.producer).start()


def spans(trace: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [span for span in trace["spans"] if span["name"] == name]


async def test_a_trace_has_the_times_from_publish_to_acknowledgement(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED)
    bench.topic.tracing.begin(2, 60, sampled_only=False)
    await bench.publish(3)
    await until(lambda: len(client.received) == 3)
    (second, first) = bench.topic.tracing.documents()
    assert [first["position"][1], second["position"][1]] == [0, 1]
    assert bench.topic.tracing.left == 0
    assert not bench.topic.stages  # nothing is left on the path of entries
    (publish,) = spans(first, "publish")
    (append,) = spans(first, "append")
    (bookie,) = spans(first, "bookie")
    (dispatch,) = spans(first, "dispatch")
    (process,) = spans(first, "process")
    assert bookie["attributes"] == {"bookie": "b0"}
    assert append["parent"] == publish["id"]
    assert bookie["parent"] == append["id"]
    assert process["parent"] == dispatch["id"]
    assert dispatch["attributes"]["subscription"] == "s"
    assert 0 <= append["startUs"] <= bookie["endUs"] <= append["endUs"] == publish["endUs"]
    assert process["endUs"] is None
    assert len({span["id"] for span in first["spans"]}) == len(first["spans"])
    bench.subscription.acknowledge(consumer, [Position(*first["position"])])
    (_, first) = bench.topic.tracing.documents()
    assert spans(first, "process")[0]["endUs"] >= process["startUs"]


async def test_a_redelivery_is_a_span_of_its_own_and_the_last_one_is_acknowledged(
    bench: Bench,
) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED)
    bench.topic.tracing.begin(1, 60, sampled_only=False)
    await bench.publish(1)
    await until(lambda: len(client.received) == 1)
    bench.subscription.redeliver(consumer, None, None)
    await until(lambda: len(client.received) == 2)
    bench.subscription.acknowledge(consumer, [client.received[0]])
    (trace,) = bench.topic.tracing.documents()
    assert [span["attributes"]["redeliveries"] for span in spans(trace, "dispatch")] == [0, 1]
    assert [span["endUs"] is None for span in spans(trace, "process")] == [True, False]


async def test_only_entries_with_the_context_of_a_sampled_trace_are_selected(bench: Bench) -> None:
    bench.topic.tracing.begin(5, 60, sampled_only=True)
    sampled, other = f"00-{TRACE_ID}-{SPAN_ID}-01", f"00-{TRACE_ID}-{SPAN_ID}-00"
    send(bench, ["", other, sampled, "nonsense"])
    await until(lambda: bench.publisher.receipts == 4)
    (trace,) = bench.topic.tracing.documents()
    assert trace["traceId"] == TRACE_ID
    assert trace["parentSpanId"] == spans(trace, "publish")[0]["parent"] == SPAN_ID
    assert trace["position"][1] == 2
    assert bench.topic.tracing.left == 4


async def test_the_selection_and_the_observation_end_by_themselves(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED)
    bench.topic.tracing.begin(5, 10, sampled_only=False)
    assert consumer.observer is not None
    await asyncio.sleep(10)
    assert (bench.topic.tracing.left, bench.topic.stages) == (0, ())
    await bench.publish(1)
    await until(lambda: len(client.received) == 1)
    assert bench.topic.tracing.documents() == []
    await asyncio.sleep(FOLLOW_S)
    assert consumer.observer is None


async def test_a_consumer_that_attaches_later_is_observed(bench: Bench) -> None:
    bench.topic.tracing.begin(1, 60, sampled_only=False)
    await bench.publish(1)
    consumer, client = await bench.join(SubscriptionType.EXCLUSIVE)
    await until(lambda: len(client.received) == 1)
    bench.subscription.acknowledge_cumulative(consumer, client.received[0])
    (trace,) = bench.topic.tracing.documents()
    assert spans(trace, "process")[0]["endUs"] is not None


async def test_a_failed_append_is_shown_as_failed(bench: Bench) -> None:
    bench.topic.tracing.begin(1, 60, sampled_only=False)
    await bench.cluster.stop("b0")
    bench.send(1)
    await until(lambda: bench.publisher.errors)
    (trace,) = bench.topic.tracing.documents()
    assert trace["state"] == "failed"
    assert spans(trace, "publish")[0]["endUs"] is not None
    assert not bench.topic.stages


async def test_traces_and_their_deliveries_are_bounded(bench: Bench) -> None:
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=1_000_000)
    for _ in range(3):
        bench.topic.tracing.begin(KEPT, 60, sampled_only=False)
        await bench.publish(KEPT)
    assert len(bench.topic.tracing.documents()) == KEPT
    for _ in range(DELIVERIES_MAX + 5):
        count = len(client.received)
        bench.subscription.redeliver(consumer, None, None)
        await until(lambda count=count: len(client.received) > count)  # type: ignore[misc]
    await until(lambda: all(t["moreDeliveries"] for t in bench.topic.tracing.documents()))
    bench.topic.tracing.end()
    assert bench.topic.tracing.documents() == []
    assert consumer.observer is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n",
    ],
)
def test_a_malformed_context_is_none(text: str) -> None:
    assert trace_context({"traceparent": text}) is None


def test_a_later_version_of_the_context_is_read_as_far_as_it_is_known() -> None:
    context = trace_context({"traceparent": f"01-{TRACE_ID}-{SPAN_ID}-03-more"})
    assert context is not None
    assert (context.trace_id, context.span_id, context.sampled) == (TRACE_ID, SPAN_ID, True)
