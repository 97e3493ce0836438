"""The functions, sources and sinks of a cluster: those that pass a filter in an order, and rows of them. Pure.

What is deployed is parsed once for each stored record. Sums over instances are made where they are shown or sorted by.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

from engine.auth.viewer import Viewer
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.configs import Kind
from engine.functions.definitions.records import component_of
from gateway.services.index.kept_selections import KeptResults
from gateway.services.index.selection import with_words, words_of

Body = dict[str, Any]


class FunctionFacts(NamedTuple):
    """A deployed function. ``stopped``: the numbers of the instances that were stopped."""

    component: str
    tenant: str
    namespace: str
    name: str
    connector: str
    class_name: str
    instances: int
    stopped: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str | None
    version: int
    created_at: int

    @property
    def scope(self) -> str:
        """Full name of its namespace."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def full_name(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.name}"

    @property
    def text(self) -> str:
        """Text in which words of a filter are searched."""
        parts = (self.full_name, self.connector, self.class_name, *self.inputs, self.output or "")
        return "\n".join(parts)


class FunctionSums(NamedTuple):
    """Sums over the instances that answer; rates and ``failures`` of the last whole minute, None where unknown.
    ``unknown``: instances of workers that do not answer, which may run."""

    running: int
    unknown: int
    received_rate: float | None
    processed_rate: float | None
    failures: int | None
    failures_total: int | None
    latency_ms: float | None


class FunctionFilter(NamedTuple):
    """Filter and order of a list: ``q`` words in name, class, connector and topics, ``component`` exact; empty: all."""

    q: str = ""
    component: str = ""
    sort: str = "name"


class Deployed(NamedTuple):
    """A function with the worker of each instance."""

    facts: FunctionFacts
    workers: Mapping[int, str]


def facts_of(metadata: pb.FunctionMetaData) -> FunctionFacts:
    """Return what is deployed by a stored record."""
    details = metadata.functionDetails
    component: Kind = component_of(details)
    states = metadata.instanceStates
    return FunctionFacts(
        component=component,
        tenant=details.tenant,
        namespace=details.namespace,
        name=details.name,
        connector=details.builtin or details.source.builtin or details.sink.builtin,
        class_name=details.className,
        instances=details.parallelism,
        stopped=tuple(n for n in range(details.parallelism) if states.get(n) == pb.STOPPED),
        inputs=tuple(sorted({*details.source.inputSpecs, *details.source.topicsToSerDeClassName})),
        output=details.sink.topic or None,
        version=metadata.version,
        created_at=metadata.createTime,
    )


def sums_of(
    deployed: Deployed, figures: Mapping[str, Body], silent: Container[str]
) -> FunctionSums:
    """Return the sums of the instances that answer. ``figures``: metrics by ``tenant/namespace/name:instance``;
    ``silent``: workers that give no answer."""
    facts, name = deployed.facts, deployed.facts.full_name
    known: list[Body] = []
    unknown = 0
    for number in range(facts.instances):
        metrics = figures.get(f"{name}:{number}")
        if metrics is not None:
            known.append(metrics)
        elif deployed.workers.get(number, "") in silent and number not in facts.stopped:
            unknown += 1
    minutes = [metrics["1min"] for metrics in known]
    latencies = [m["avgProcessLatency"] for m in minutes if m["avgProcessLatency"] is not None]
    return FunctionSums(
        running=len(known),
        unknown=unknown,
        received_rate=per_second(minutes, "receivedTotal"),
        processed_rate=per_second(minutes, "processedSuccessfullyTotal"),
        failures=failures_of(minutes),
        failures_total=failures_of(known),
        latency_ms=sum(latencies) / len(latencies) if latencies else None,
    )


def per_second(minutes: list[Body], field: str) -> float | None:
    """Return the rate of a count of the last whole minute."""
    total = 0
    for minute in minutes:
        if minute[field] is None:
            return None
        total += int(minute[field])
    return total / 60 if minutes else None


def failures_of(rows: list[Body]) -> int | None:
    """Return the number of exceptions."""
    total = 0
    for metrics in rows:
        of_user = metrics["userExceptionsTotal"]
        if of_user is None:
            return None
        total += int(metrics["systemExceptionsTotal"]) + int(of_user)
    return total if rows else None


def row_of(deployed: Deployed, sums: FunctionSums) -> Body:
    """Return one row of the console's list."""
    facts = deployed.facts
    return {
        **facts._asdict(),
        **sums._asdict(),
        "state": _state(facts, sums),
        "stopped": len(facts.stopped),
        "workers": sorted(set(deployed.workers.values())),
    }


def _state(facts: FunctionFacts, sums: FunctionSums) -> str:
    if sums.unknown:
        return "not known"
    if len(facts.stopped) == facts.instances:
        return "stopped"
    if sums.running == facts.instances - len(facts.stopped):
        return "running"
    return "starting" if not sums.running else "partly running"


class FunctionTable:
    """Everything deployed as of ``at``, the metrics of its instances by name and number, and the workers that gave
    none. Immutable, but for the results that it keeps."""

    def __init__(
        self,
        at: int,
        deployed: Sequence[Deployed],
        figures: Mapping[str, Body],
        silent: Container[str] = (),
    ) -> None:
        self.at = at
        self._all = sorted(deployed, key=lambda item: _rank_by_name(item.facts))
        self._figures = figures
        self._silent = silent
        self._sums: dict[str, FunctionSums] = {}
        self._kept = KeptResults[tuple[Viewer, FunctionFilter], list[Deployed]]()

    @cached_property
    def workers(self) -> list[str]:
        """The workers that have instances, sorted."""
        return sorted({worker for item in self._all for worker in item.workers.values()})

    @cached_property
    def _texts(self) -> list[str]:
        return [item.facts.text.lower() for item in self._all]

    def count(self, viewer: Viewer, chosen: FunctionFilter) -> int:
        """Return the number of functions that are seen and pass the filter."""
        return len(self._selected(viewer, chosen))

    def rows(self, viewer: Viewer, chosen: FunctionFilter, start: int, stop: int) -> list[Body]:
        """Return the rows from ``start`` to ``stop`` of those that are seen and pass the filter, in its order."""
        return [
            row_of(item, self._sums_of(item)) for item in self._selected(viewer, chosen)[start:stop]
        ]

    def _selected(self, viewer: Viewer, chosen: FunctionFilter) -> list[Deployed]:
        return self._kept.get_or_make(
            (viewer, chosen),
            lambda: self._sorted(self._filtered(viewer, chosen), chosen.sort),
        )

    def _filtered(self, viewer: Viewer, chosen: FunctionFilter) -> list[Deployed]:
        items: list[Deployed] = self._all
        if words := words_of(chosen.q):
            items = with_words(items, self._texts, words)
        if not viewer.everything:
            items = [item for item in items if viewer.sees(item.facts.scope)]
        if chosen.component:
            items = [item for item in items if item.facts.component == chosen.component]
        return items

    def _sorted(self, items: list[Deployed], sort: str) -> list[Deployed]:
        """Return the functions, which are by name, in an order: equals by name, unknown figures last."""
        field, falls = sort.removeprefix("-"), sort.startswith("-")
        if field == "name":
            return items[::-1] if falls else items
        number = _NUMBERS.get(field)
        if number is None:
            text = _TEXTS[field]
            return sorted(
                items, key=lambda item: text(item.facts, self._sums_of(item)), reverse=falls
            )
        sign = -1 if falls else 1

        def rank(item: Deployed) -> float:
            value = number(item.facts, self._sums_of(item))
            return inf if value is None else sign * value

        return sorted(items, key=rank)

    def _sums_of(self, item: Deployed) -> FunctionSums:
        name = item.facts.full_name
        sums = self._sums.get(name)
        if sums is None:
            sums = self._sums[name] = sums_of(item, self._figures, self._silent)
        return sums


def _rank_by_name(facts: FunctionFacts) -> tuple[str, ...]:
    return facts.tenant, facts.namespace, facts.name


_NUMBERS: dict[str, Callable[[FunctionFacts, FunctionSums], float | None]] = {
    "instances": lambda facts, sums: facts.instances,
    "running": lambda facts, sums: sums.running,
    "received_rate": lambda facts, sums: sums.received_rate,
    "processed_rate": lambda facts, sums: sums.processed_rate,
    "failures": lambda facts, sums: sums.failures,
    "failures_total": lambda facts, sums: sums.failures_total,
    "latency_ms": lambda facts, sums: sums.latency_ms,
    "version": lambda facts, sums: facts.version,
    "created_at": lambda facts, sums: facts.created_at,
}
_TEXTS: dict[str, Callable[[FunctionFacts, FunctionSums], str]] = {
    "component": lambda facts, sums: facts.component,
    "connector": lambda facts, sums: facts.connector,
    "class_name": lambda facts, sums: facts.class_name,
    "state": _state,
    "output": lambda facts, sums: facts.output or "",
}
FIELDS = ("name", *_TEXTS, *_NUMBERS)
"""Fields that rows can be sorted by; ``name`` with tenant and namespace in front."""
