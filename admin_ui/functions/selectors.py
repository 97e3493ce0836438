"""The functions, sources and sinks of a cluster in the shapes of the console API."""

import asyncio
from collections.abc import Container, Mapping
from typing import Any

from admin_ui.params import Params, number, window
from engine.auth.viewer import Viewer
from engine.base.errors import Conflict, InvalidField, NotFound, UnusableField
from engine.functions.connectors.built_in import ConnectorEnd
from engine.functions.connectors.catalogue import CATALOGUE, sink_end, source_end
from engine.functions.connectors.connector_settings import masked
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.configs import Kind, config_of
from engine.functions.definitions.records import component_of
from engine.functions.ports import OnInstances
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

Body = dict[str, Any]
KINDS: tuple[Kind, ...] = ("function", "source", "sink")
LOG_LINES = 200
LOG_LINES_MAX = 2000
EXCEPTIONS = {
    "latestUserExceptions": "user",
    "latestSystemExceptions": "system",
    "latestSourceExceptions": "source",
    "latestSinkExceptions": "sink",
}
"""Fields of an instance's status that have exceptions, with where they come from."""


async def functions(viewer: Viewer, engine: Engine, params: Params) -> Body:
    """Return a window of the functions, sources and sinks that the viewer sees, by name. Raises InvalidField."""
    offset, limit = window(params)
    wanted = params.get("component", "")
    if wanted and wanted not in KINDS:
        raise InvalidField("component", f"must be one of {', '.join(KINDS)}")
    words = params.get("q", "").lower().split()
    if engine.workers is None:
        return _answer(None, [], offset, limit)
    try:
        # As the gateway itself: the viewer judges each row.
        stored, figures = await asyncio.gather(
            engine.workers.everything(), engine.workers.function_figures()
        )
    except Conflict:
        return _answer(None, [], offset, limit)
    by_instance = {row["name"]: row["metrics"] for row in figures["metrics"]}
    rows = [
        row(metadata, workers, by_instance, figures["silent"])
        for metadata, workers in stored
        if viewer.sees(f"{metadata.functionDetails.tenant}/{metadata.functionDetails.namespace}")
    ]
    workers_seen = sorted({worker for _, places in stored for worker in places.values()})
    chosen = [
        shown
        for shown in rows
        if wanted in ("", shown["component"]) and all(word in _text(shown) for word in words)
    ]
    return _answer(workers_seen if viewer.everything else [], chosen, offset, limit)


def _answer(workers: list[str] | None, rows: list[Body], offset: int, limit: int) -> Body:
    return {
        "at": now_ms(),
        "enabled": workers is not None,
        "workers": workers or [],
        "total": len(rows),
        "offset": offset,
        "limit": limit,
        "rows": rows[offset : offset + limit],
    }


def row(
    metadata: pb.FunctionMetaData,
    workers: Mapping[int, str],
    figures: Mapping[str, Body],
    silent: Container[str] = (),
) -> Body:
    """Return one row: what is deployed, and the sums of the instances that answer. ``silent``: workers that give no
    answer, whose instances may run."""
    details = metadata.functionDetails
    name = f"{details.tenant}/{details.namespace}/{details.name}"
    instances = range(details.parallelism)
    known = [figures[key] for n in instances if (key := f"{name}:{n}") in figures]
    stopped = sum(metadata.instanceStates.get(n) == pb.STOPPED for n in instances)
    unknown = sum(
        workers.get(n, "") in silent
        and f"{name}:{n}" not in figures
        and metadata.instanceStates.get(n) != pb.STOPPED
        for n in instances
    )
    minutes = [metrics["1min"] for metrics in known]
    latencies = [m["avgProcessLatency"] for m in minutes if m["avgProcessLatency"] is not None]
    return {
        "component": component_of(details),
        "tenant": details.tenant,
        "namespace": details.namespace,
        "name": details.name,
        "connector": details.builtin or details.source.builtin or details.sink.builtin,
        "class_name": details.className,
        "state": "not known" if unknown else _state(details.parallelism, len(known), stopped),
        "instances": details.parallelism,
        "running": len(known),
        "unknown": unknown,
        "stopped": stopped,
        "workers": sorted(set(workers.values())),
        "inputs": sorted({*details.source.inputSpecs, *details.source.topicsToSerDeClassName}),
        "output": details.sink.topic or None,
        "version": metadata.version,
        "created_at": metadata.createTime,
        "received_rate": _per_second(minutes, "receivedTotal"),
        "processed_rate": _per_second(minutes, "processedSuccessfullyTotal"),
        "failures": _failures(minutes),
        "failures_total": _failures(known),
        "latency_ms": sum(latencies) / len(latencies) if latencies else None,
    }


def _state(instances: int, running: int, stopped: int) -> str:
    if stopped == instances:
        return "stopped"
    if running == instances - stopped:
        return "running"
    return "starting" if not running else "partly running"


def _per_second(minutes: list[Body], field: str) -> float | None:
    if not minutes or any(minute[field] is None for minute in minutes):
        return None
    return sum(int(minute[field]) for minute in minutes) / 60


def _failures(rows: list[Body]) -> int | None:
    if not rows or any(metrics["userExceptionsTotal"] is None for metrics in rows):
        return None
    return sum(
        int(metrics["systemExceptionsTotal"]) + int(metrics["userExceptionsTotal"])
        for metrics in rows
    )


def _text(shown: Body) -> str:
    name = f"{shown['tenant']}/{shown['namespace']}/{shown['name']}"
    return "\n".join(
        [name, shown["connector"], shown["class_name"], *shown["inputs"], shown["output"] or ""]
    ).lower()


async def function(engine: Engine, of: OnInstances) -> Body:
    """Return a function, source or sink with its config and instances. Raises Refusals."""
    metadata, status, stats = await asyncio.gather(
        engine.functions.metadata(of), engine.functions.status(of), engine.functions.stats(of)
    )
    rows = [
        _instance(answer, stats["instances"][position]["metrics"], metadata)
        for position, answer in enumerate(status["instances"])
    ]
    shown = row(
        metadata,
        {item["instance"]: item["worker"] for item in rows if item["worker"]},
        {
            f"{of.namespace}/{of.name}:{item['instance']}": stats["instances"][position]["metrics"]
            for position, item in enumerate(rows)
            if item["running"]
        },
        {item["worker"] for item in rows if _is_silent(item)},
    )
    return {
        "at": now_ms(),
        "function": shown,
        "config": shown_config(metadata.functionDetails),
        "package": metadata.packageLocation.packagePath,
        "instances": rows,
        "guarantee": promised(metadata.functionDetails),
    }


def _instance(answer: Body, metrics: Body, metadata: pb.FunctionMetaData) -> Body:
    status, number = answer["status"], answer["instanceId"]
    running, minute = bool(status["running"]), metrics["1min"]
    exceptions = [
        {"kind": kind, "text": item["exceptionString"], "at": item["timestampMs"]}
        for field, kind in EXCEPTIONS.items()
        for item in status.get(field, ())
    ]
    exceptions.sort(key=lambda item: item["at"], reverse=True)
    stopped = metadata.instanceStates.get(number) == pb.STOPPED
    return {
        "instance": number,
        "running": running,
        "stopped": stopped,
        "error": status["error"],
        "restarts": status["numRestarts"],
        "worker": status.get("workerId", ""),
        "received": metrics["receivedTotal"] if running else None,
        "processed": metrics["processedSuccessfullyTotal"] if running else None,
        "failures": _failures([metrics]) if running else None,
        "received_rate": _per_second([minute], "receivedTotal") if running else None,
        "latency_ms": metrics["avgProcessLatency"],
        "latency_buckets": [
            {"up_to_ms": bound, "count": count}
            for bound, count in metrics.get("latencyBuckets", {}).items()
        ],
        "last_at": metrics["lastInvocation"],
        "exceptions": exceptions,
    }


def _is_silent(item: Body) -> bool:
    """Return whether an instance's row has the reason of its worker's silence in place of its state."""
    return not item["running"] and item["error"].startswith(f"worker {item['worker']} ")


def end_of(details: pb.FunctionDetails) -> ConnectorEnd[Any] | None:
    """Return the built-in connector of a source or sink; None for code of its own, and one of another version."""
    name, kind = details.builtin, component_of(details)
    if not name or kind == "function":
        return None
    try:
        return source_end(name) if kind == "source" else sink_end(name)
    except UnusableField:
        return None


def shown_config(details: pb.FunctionDetails) -> Body:
    """Return the config as Pulsar's tools take it, with masks in place of secrets."""
    config: Body = config_of(details)
    end = end_of(details)
    if end is not None and "configs" in config:
        config = config | {"configs": masked(end.settings, config["configs"])}
    return config


def promised(details: pb.FunctionDetails) -> Body | None:
    """Return what the built-in connector guarantees, None for code of its own."""
    end = end_of(details)
    return None if end is None else {"promise": end.promise, "condition": end.condition}


async def log(engine: Engine, of: OnInstances, params: Params) -> Body:
    """Return the last lines of the logs of the instances that run. Raises InvalidField, Refusals."""
    lines = number(params, "lines", LOG_LINES, 1, LOG_LINES_MAX)
    texts = await engine.functions.log_lines(of, lines)
    return {
        "at": now_ms(),
        "logs": [
            {"instance": instance, "text": texts[str(instance)]}
            for instance in sorted(map(int, texts))
        ],
    }


def connectors() -> Body:
    """Return the built-in connectors with the JSON Schemas of their settings."""
    return {
        "connectors": [
            {
                "name": known.name,
                "description": known.description,
                "as_source": _end_shown(known.source),
                "as_sink": _end_shown(known.sink),
            }
            for known in CATALOGUE.values()
        ]
    }


def _end_shown(end: ConnectorEnd[Any] | None) -> Body | None:
    if end is None:
        return None
    return {
        "settings": end.settings,
        "promise": end.promise,
        "condition": end.condition,
        "several": end.several,
    }


def component_named(component: str) -> Kind:
    """Return the component of a path. Raises NotFound."""
    for kind in KINDS:
        if component == kind:
            return kind
    raise NotFound(f"There is no component {component!r}: {', '.join(KINDS)}")
