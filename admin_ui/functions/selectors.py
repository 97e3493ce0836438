"""The functions, sources and sinks of a cluster in the shapes of the console API."""

import asyncio
from collections.abc import Container, Mapping
from contextlib import suppress
from typing import Any

from admin_ui.params import LIMIT_MAX, Params, choice, number, sort_of, window
from engine.auth.viewer import Viewer
from engine.base.errors import Conflict, NotFound, UnusableField
from engine.functions.connectors.built_in import ConnectorEnd
from engine.functions.connectors.catalogue import CATALOGUE, sink_end, source_end
from engine.functions.connectors.connector_settings import masked
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.configs import Kind, config_of
from engine.functions.definitions.records import component_of
from engine.functions.ports import OnFunction, OnInstances
from gateway.clusters.cluster import Cluster
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.functions.gathered_functions import GatheredFunctions
from gateway.services.functions.listed_functions import (
    FIELDS,
    Deployed,
    FunctionFilter,
    facts_of,
    failures_of,
    per_second,
    row_of,
    sums_of,
)
from gateway.services.functions.stored_code import stored_code
from gateway.services.source import Ability

Body = dict[str, Any]
KINDS: tuple[Kind, ...] = ("function", "source", "sink")
LOG_LINES = 200
LOG_LINES_MAX = 2000
CODE_BYTES_MAX = 500_000
"""Bytes of code that is shown in the editor."""
EXCEPTIONS = {
    "latestUserExceptions": "user",
    "latestSystemExceptions": "system",
    "latestSourceExceptions": "source",
    "latestSinkExceptions": "sink",
}
"""Fields of an instance's status that have exceptions, with where they come from."""


def gathered(cluster: Cluster) -> GatheredFunctions:
    """Return the functions of the cluster, which are one of its parts."""
    return GatheredFunctions()


def filter_of(params: Params) -> FunctionFilter:
    """Return the filter and order of a request. Raises InvalidField."""
    component = choice(params, "component", KINDS)
    sort = sort_of(params, FIELDS, "name")
    return FunctionFilter(params.get("q", ""), component, sort)


async def functions(
    viewer: Viewer, cluster: Cluster, params: Params, *, limit_max: int = LIMIT_MAX
) -> Body:
    """Return a window of the functions, sources and sinks that the viewer sees. Raises InvalidField, and Unsupported
    for a cluster of which they are not known."""
    cluster.require(Ability.FUNCTIONS)
    offset, limit = window(params, limit_max)
    chosen = filter_of(params)
    head: Body = {"offset": offset, "limit": limit}
    try:
        table = await cluster.link.arun(cluster.part(gathered).table)
    except Conflict:
        nothing: Body = {"at": now_ms(), "enabled": False, "workers": [], "total": 0}
        return {**nothing, **head, "rows": []}
    return {
        "at": table.at,
        "enabled": True,
        "workers": table.workers if viewer.everything else [],
        "total": table.count(viewer, chosen),
        **head,
        "rows": table.rows(viewer, chosen, offset, offset + limit),
    }


def row(
    metadata: pb.FunctionMetaData,
    workers: Mapping[int, str],
    figures: Mapping[str, Body],
    silent: Container[str] = (),
) -> Body:
    """Return one row: what is deployed, and the sums of the instances that answer. ``silent``: workers that give no
    answer, whose instances may run."""
    deployed = Deployed(facts_of(metadata), workers)
    return row_of(deployed, sums_of(deployed, figures, silent))


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
        "failures": failures_of([metrics]) if running else None,
        "received_rate": per_second([minute], "receivedTotal") if running else None,
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


async def code(engine: Engine, of: OnFunction) -> Body:
    """Return the code that is deployed, as text if it is one module. Raises NotFound for built-in code, Refusals."""
    stored = await stored_code(engine, of, CODE_BYTES_MAX)
    text = None
    if stored.content is not None and stored.file_name.lower().endswith(".py"):
        # Python files may have another encoding; those are not edited here.
        with suppress(UnicodeDecodeError):
            text = stored.content.decode()
    return {"at": now_ms(), "file_name": stored.file_name, "text": text}


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
