"""Traces of a topic as the console and collectors of OpenTelemetry receive them."""

import pytest

from admin_ui.topics import traces
from admin_ui.topics.shapes import TracesAnswer
from engine.base.names import TopicName
from engine.broker.topics.publish import Producer, Publish
from engine.wire import frames
from engine.wire.commands import command_bytes
from engine.wire.kernels import take_sends
from gateway.services.admin import partitioned_topics
from tests.support.admin.bench import AdminBench
from tests.support.admin.bench import bench as bench
from tests.support.broker_bench import Client, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def publish(bench: AdminBench, name: TopicName) -> None:
    client = Client()
    producer = Producer(client, 1, "p", await bench.loaded(name), now_ms=0)
    context = {"key": "traceparent", "value": f"00-{TRACE_ID}-{SPAN_ID}-01"}
    data = frames.payload_frame(
        command_bytes("send", {"producer_id": 1, "sequence_id": 0}),
        entry_of(b"v", properties=[context]),
    )
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, producer).start()
    await until(lambda: client.receipts)


async def test_the_traces_of_all_partitions_are_listed(bench: AdminBench) -> None:
    await partitioned_topics.create(bench.engine, TOPIC, 2, {})
    assert (await traces.begin(bench.engine, TOPIC, 1, 60, sampled=True))["left"] == 2
    for number in range(2):
        await publish(bench, TOPIC.partition_at(number))
    answer = await traces.listed(bench.engine, TOPIC)
    assert TracesAnswer(data=answer).is_valid(raise_exception=True)
    assert answer["left"] == 0
    assert {trace["partition"] for trace in answer["traces"]} == {0, 1}
    assert {trace["state"] for trace in answer["traces"]} == {"stored"}
    assert {span["name"] for span in answer["traces"][0]["spans"]} == {
        "publish",
        "append",
        "bookie",
    }
    assert (await traces.end(bench.engine, TOPIC))["traces"] == []
    assert (await traces.listed(bench.engine, TOPIC))["traces"] == []


async def test_a_collector_receives_ended_spans_in_the_publishers_trace(bench: AdminBench) -> None:
    await partitioned_topics.create(bench.engine, TOPIC, 1, {})
    await traces.begin(bench.engine, TOPIC, 1, 60, sampled=False)
    await publish(bench, TOPIC.partition_at(0))
    answer = await traces.listed(bench.engine, TOPIC)
    answer["traces"][0]["spans"][-1]["end_us"] = None
    resource = traces.opentelemetry("standalone", answer)["resourceSpans"][0]
    spans = resource["scopeSpans"][0]["spans"]
    assert len(spans) == len(answer["traces"][0]["spans"]) - 1
    publish_span, append_span = spans[0], spans[1]
    assert {span["traceId"] for span in spans} == {TRACE_ID}
    assert publish_span["parentSpanId"] == SPAN_ID
    assert append_span["parentSpanId"] == publish_span["spanId"]
    received_ns = answer["traces"][0]["received_ms"] * 1_000_000
    assert (
        received_ns
        == int(publish_span["startTimeUnixNano"])
        <= int(publish_span["endTimeUnixNano"])
    )
    assert {"key": "messaging.system", "value": {"stringValue": "pulsar"}} in publish_span[
        "attributes"
    ]
