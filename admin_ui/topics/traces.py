"""Traces of single entries of a topic: the request, the traces, and the same as a file of OpenTelemetry's protocol."""

from typing import Any

from admin_ui.confirming import Json
from engine.admin.api.arguments import OnTopic
from engine.admin.api.traces import END_TRACING, TRACE_ENTRIES, TRACES, TraceEntries
from engine.admin.fan_out import on_each
from engine.base.names import TopicName
from gateway.services.admin import existence
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

SPAN_INTERNAL, SPAN_SERVER = 1, 2
STATUS_ERROR = 2
"""Numbers of OpenTelemetry's protocol."""


async def begin(engine: Engine, name: TopicName, entries: int, seconds: int, sampled: bool) -> Json:
    """Trace the next entries of the topic, of each partition as many. Raises Refusal."""
    parts = await existence.members(engine, name)
    answers = await on_each(
        parts,
        lambda part: engine.call(TRACE_ENTRIES, TraceEntries(part, entries, seconds, sampled)),
    )
    return {"at": now_ms(), "left": sum(answer["left"] for answer in answers), "traces": []}


async def listed(engine: Engine, name: TopicName) -> Json:
    """Return the traces of the topic and of its partitions, newest first. Raises Refusal."""
    parts = await existence.members(engine, name)
    answers = await on_each(parts, lambda part: engine.call(TRACES, OnTopic(part)))
    traces = [
        _trace(part, trace)
        for part, answer in zip(parts, answers, strict=True)
        for trace in answer["traces"]
    ]
    traces.sort(key=lambda trace: trace["received_ms"], reverse=True)
    return {"at": now_ms(), "left": sum(answer["left"] for answer in answers), "traces": traces}


async def end(engine: Engine, name: TopicName) -> Json:
    """End the tracing of the topic and delete its traces. Raises Refusal."""
    parts = await existence.members(engine, name)
    await on_each(parts, lambda part: engine.call(END_TRACING, OnTopic(part)))
    return {"at": now_ms(), "left": 0, "traces": []}


def _trace(topic: TopicName, trace: Json) -> Json:
    position = trace["position"]
    return {
        "topic": str(topic),
        "partition": topic.partition if topic.partition >= 0 else None,
        "trace_id": trace["traceId"],
        "parent_span_id": trace["parentSpanId"],
        "producer": trace["producer"],
        "position": None if position is None else f"{position[0]}:{position[1]}",
        "messages": trace["messages"],
        "bytes": trace["bytes"],
        "received_ms": trace["receivedMs"],
        "state": trace["state"],
        "more_deliveries": trace["moreDeliveries"],
        "spans": [
            {
                "id": span["id"],
                "parent_id": span["parent"],
                "name": span["name"],
                "start_us": span["startUs"],
                "end_us": span["endUs"],
                "detail": {key: str(value) for key, value in span["attributes"].items()},
            }
            for span in trace["spans"]
        ],
    }


def opentelemetry(cluster: str, answer: Json) -> Json:
    """Return the ended spans of ``listed`` as the body of a request to a collector's ``/v1/traces``.

    OTLP's JSON: ids in hexadecimal, times as text in nanoseconds since 1970.
    """
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [
                        _text("service.name", "magnetar"),
                        _text("service.namespace", cluster),
                    ]
                },
                "scopeSpans": [
                    {
                        "scope": {"name": "magnetar.broker"},
                        "spans": [
                            _span(trace, span)
                            for trace in answer["traces"]
                            for span in trace["spans"]
                            if span["end_us"] is not None
                        ],
                    }
                ],
            }
        ]
    }


def _span(trace: Json, span: Json) -> Json:
    received_ns = trace["received_ms"] * 1_000_000
    about: dict[str, Any] = {
        "traceId": trace["trace_id"],
        "spanId": span["id"],
        "name": f"{span['name']} {trace['topic']}",
        "kind": SPAN_SERVER if span["name"] == "publish" else SPAN_INTERNAL,
        "startTimeUnixNano": str(received_ns + span["start_us"] * 1000),
        "endTimeUnixNano": str(received_ns + span["end_us"] * 1000),
        "attributes": [
            _text("messaging.system", "pulsar"),
            _text("messaging.destination.name", trace["topic"]),
            *([_text("messaging.message.id", trace["position"])] if trace["position"] else []),
            *(_text(f"magnetar.{key}", value) for key, value in span["detail"].items()),
        ],
    }
    if span["parent_id"]:
        about["parentSpanId"] = span["parent_id"]
    if span["name"] == "publish" and trace["state"] == "failed":
        about["status"] = {"code": STATUS_ERROR, "message": "the message was not stored"}
    return about


def _text(key: str, value: str) -> Json:
    return {"key": key, "value": {"stringValue": value}}
