"""Functions that are deployed, without workers: what the console's calls ask of them, and what they changed."""

import base64
from typing import Any

from engine.base.errors import NotFound
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.configs import Kind, details_of
from engine.functions.definitions.records import component_of, encode
from engine.functions.ports import OnComponents, OnFunction, OnInstances, TrialCode
from engine.functions.runtime.ports import (
    InstanceStats,
    InstanceStatus,
    InstanceTrouble,
    IntervalStats,
)
from engine.functions.worker.answering.instance_reports import (
    NO_STATS,
    not_running,
    stats_of,
    stats_of_all,
    status_of,
    status_of_all,
)

WORKER = "worker-1"
TROUBLE = InstanceTrouble('Traceback (most recent call last):\n  File "f.py"\nValueError: no', 5)
STATUS = InstanceStatus(
    running=True,
    received=60,
    processed=58,
    user_exceptions=2,
    latest_user_exceptions=[TROUBLE],
    average_latency_ms=2.5,
)
MINUTE = IntervalStats(60, 58, 2, 0, 1.5)
STATS = InstanceStats(
    MINUTE, MINUTE, last_invocation_ms=7, latency_buckets={"1": 20, "5": 55, "+Inf": 58}
)


class DeployedFunctions:
    """A stand-in for the client of the workers. Every instance that was not stopped runs."""

    def __init__(self) -> None:
        self.stored: dict[str, pb.FunctionMetaData] = {}
        self.calls: list[tuple[str, OnInstances]] = []
        self.silent: dict[str, str] = {}

    def acting_for(self, principal: str, account: Any) -> "DeployedFunctions":
        return self

    def close(self) -> None:
        pass

    def add(self, kind: Kind, **config: Any) -> pb.FunctionMetaData:
        """Deploy a function, source or sink of public/default, which its config names."""
        full = {"tenant": "public", "namespace": "default", **config}
        metadata = pb.FunctionMetaData(functionDetails=details_of(kind, full), createTime=3)
        self.stored[f"{full['tenant']}/{full['namespace']}/{full['name']}"] = metadata
        return metadata

    async def metadata(self, function: OnFunction) -> pb.FunctionMetaData:
        metadata = self.stored.get(f"{function.namespace}/{function.name}")
        if metadata is None or component_of(metadata.functionDetails) != function.component:
            raise NotFound(f"{function.component.capitalize()} {function.name} doesn't exist")
        return metadata

    async def names(self, of: OnComponents) -> list[str]:
        return [
            metadata.functionDetails.name
            for metadata in self.stored.values()
            if component_of(metadata.functionDetails) == of.component
        ]

    async def create(
        self, function: OnFunction, details: pb.FunctionDetails, package: str, file_name: str = ""
    ) -> None:
        metadata = pb.FunctionMetaData(functionDetails=details)
        metadata.packageLocation.packagePath = package
        self.stored[f"{function.namespace}/{function.name}"] = metadata

    async def update(
        self,
        function: OnFunction,
        details: pb.FunctionDetails,
        package: str,
        file_name: str = "",
        *,
        expected_version: int,
    ) -> None:
        metadata = await self.metadata(function)
        assert metadata.version == expected_version
        metadata.functionDetails.CopyFrom(details)
        metadata.version += 1

    async def everything(self) -> list[tuple[pb.FunctionMetaData, dict[int, str]]]:
        return [
            (metadata, dict.fromkeys(range(metadata.functionDetails.parallelism), WORKER))
            for _, metadata in sorted(self.stored.items())
        ]

    async def stored_functions(self) -> list[dict[str, Any]]:
        return [
            {
                "metadata": base64.b64encode(encode(metadata)).decode(),
                "workers": {str(number): worker for number, worker in workers.items()},
            }
            for metadata, workers in await self.everything()
        ]

    async def function_metrics(self) -> list[dict[str, Any]]:
        return [
            {"name": f"{name}:{instance}", "metrics": stats_of(STATS)}
            for name, metadata in self.stored.items()
            for instance in range(metadata.functionDetails.parallelism)
            if metadata.instanceStates.get(instance) != pb.STOPPED
        ]

    async def function_figures(self) -> dict[str, Any]:
        metrics = await self.function_metrics()
        kept = [row for row in metrics if WORKER not in self.silent]
        return {"metrics": kept, "silent": self.silent}

    async def status(self, of: OnInstances) -> dict[str, Any]:
        rows = {
            instance: not_running(of.component, "", 0, WORKER)
            if is_stopped
            else status_of(of.component, STATUS, 1, WORKER)
            for instance, is_stopped in (await self._instances(of)).items()
        }
        return status_of_all(rows) if of.instance is None else rows[of.instance]

    async def stats(self, of: OnInstances) -> dict[str, Any]:
        instances = await self._instances(of)
        return stats_of_all(
            {
                number: NO_STATS if stopped else stats_of(STATS)
                for number, stopped in instances.items()
            }
        )

    async def _instances(self, of: OnInstances) -> dict[int, bool]:
        """Return whether each instance is stopped. Raises NotFound."""
        metadata = await self.metadata(of)
        numbers = range(metadata.functionDetails.parallelism)
        if of.instance is not None and of.instance not in numbers:
            raise NotFound(f"there is no instance {of.instance}")
        return {n: metadata.instanceStates.get(n) == pb.STOPPED for n in numbers}

    async def try_on(
        self,
        function: OnFunction,
        details: Any,
        code: TrialCode,
        entries: list[Any],
        messages: int,
    ) -> Any:
        self.calls.append(("try_on", function))
        self.tried = (details, code, entries, messages)
        return {"messages": [], "ended": "", "network": False, "unreadable": 0, "secrets": []}

    async def log_lines(self, of: OnInstances, lines: int) -> dict[str, str]:
        instances = await self._instances(of)
        return {
            str(n): f"the last {lines} lines of {n}"
            for n, stopped in instances.items()
            if not stopped
        }

    async def start(self, of: OnInstances) -> None:
        await self._set(of, "start", pb.RUNNING)

    async def stop(self, of: OnInstances) -> None:
        await self._set(of, "stop", pb.STOPPED)

    async def restart(self, of: OnInstances) -> None:
        self.calls.append(("restart", of))

    async def _set(self, of: OnInstances, call: str, state: Any) -> None:
        self.calls.append((call, of))
        metadata = await self.metadata(of)
        numbers = (
            range(metadata.functionDetails.parallelism) if of.instance is None else [of.instance]
        )
        for number in numbers:
            metadata.instanceStates[number] = state
        metadata.version += 1

    async def delete(self, function: OnFunction) -> None:
        await self.metadata(function)
        del self.stored[f"{function.namespace}/{function.name}"]
