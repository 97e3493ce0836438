"""The ``/metrics`` page of a worker: its own families, and those of its instances, each family once."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from engine.base.metrics import described, labels_of
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import RunningInstance
from engine.functions.worker.running.instances import WorkerInstances

INSTANCE_S = 2.0
"""Time in which an instance must answer; the page is without its metrics otherwise."""


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Figures of a worker."""

    cluster: str
    worker: str
    leads: bool
    workers: int
    functions: int
    assigned: int
    rounds: int


async def metrics_page(
    figures: WorkerFigures, instances: WorkerInstances, process: str
) -> AsyncIterator[bytes]:
    """Yield the page. ``process``: families of the process."""
    labels = labels_of(cluster=figures.cluster, worker_id=figures.worker)
    keepers = list(instances.keepers.values())
    for name, kind, text, value in (
        ("is_leader", "gauge", "1 for the worker that leads.", int(figures.leads)),
        ("workers", "gauge", "Registered workers.", figures.workers),
        ("function_count", "gauge", "Functions, sources and sinks.", figures.functions),
        ("assigned_instances", "gauge", "Instances assigned to this worker.", figures.assigned),
        (
            "running_instances",
            "gauge",
            "Instances that run on this worker.",
            sum(keeper.running is not None for keeper in keepers),
        ),
        (
            "instance_restarts_total",
            "counter",
            "Ends of instances here that were not requested, of those assigned now.",
            sum(keeper.restarts for keeper in keepers),
        ),
        ("schedule_rounds_total", "counter", "Rounds of scheduling as leader.", figures.rounds),
    ):
        metric = f"pulsar_function_worker_{name}"
        yield described(metric, kind, text, [(labels, value)]).encode()
    yield process.encode()
    texts = await asyncio.gather(
        *(_of(keeper.running) for keeper in keepers if keeper.running is not None)
    )
    yield merged(texts).encode()


async def _of(running: RunningInstance) -> str:
    try:
        async with asyncio.timeout(INSTANCE_S):
            return await running.metrics()
    except (InstanceError, TimeoutError):
        return ""


def merged(texts: Iterable[str]) -> str:
    """Return pages of metrics as one, with the samples of each family together behind its description."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for text in texts:
        family = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if line not in head and not any(line[:7] == other[:7] for other in head):
                    head.append(line)
            elif line and not line.startswith("#"):
                name = line.partition("{")[0].partition(" ")[0]
                owner = family if family and name.startswith(family) else name
                samples.setdefault(owner, []).append(line)
    out: list[str] = []
    for family in dict.fromkeys([*heads, *samples]):
        if family in samples:
            out += [*heads.get(family, ()), *samples[family]]
    return "\n".join([*out, ""]) if out else ""
