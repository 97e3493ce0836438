"""Instances of functions for tests: their records, and processes of them that are killed and started again."""

import uuid
from functools import partial
from pathlib import Path
from typing import Any

from engine.functions.definitions.functions_pb2 import (
    ConsumerSpec,
    FunctionDetails,
    FunctionMetaData,
)
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec, RunningInstance
from engine.functions.runtime.processes import InstanceProcess
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.support.waiting import until


def function_details(
    name: str, class_name: str, inputs: list[str], output: str = ""
) -> FunctionDetails:
    """Return the details of a function of ``public/default`` that reads from the first message on."""
    made = FunctionDetails(
        tenant="public",
        namespace="default",
        name=name,
        className=class_name,
        runtime=1,
        autoAck=True,
        parallelism=1,
    )
    for topic in inputs:
        made.source.inputSpecs[topic].CopyFrom(ConsumerSpec())
    made.source.subscriptionPosition = 1  # type: ignore[assignment]  # EARLIEST
    made.sink.topic = output
    made.resources.ram = 1 << 30
    return made


def unique(what: str) -> str:
    """Return the full name of a topic that no other test has."""
    return f"persistent://public/default/{what}-{uuid.uuid4().hex[:8]}"


async def is_settled(started: RunningInstance) -> bool:
    """Return whether an instance runs or has ended; one that starts may have no time to answer."""
    try:
        status = await started.status()
    except InstanceError:
        return False
    return status.running or bool(status.error)


class Function:
    """A function whose instances are started in ``folder``."""

    def __init__(self, url: str, folder: Path, details: FunctionDetails, code: str) -> None:
        self.details = details
        self._url = url
        self._folder = folder
        self._package = folder / "users_function.py"
        self._package.write_text(code)
        self._runtime = runtime_of("process", folder / "environments")

    def spec(self, number: int = 0, **more: Any) -> InstanceSpec:
        metadata = FunctionMetaData(functionDetails=self.details)
        return InstanceSpec(
            metadata, number, self._package, self._folder / f"instance-{number}", self._url, **more
        )

    async def begin(self, number: int = 0, **more: Any) -> InstanceProcess:
        """Start the process of an instance."""
        started = await self._runtime.start(self.spec(number, **more))
        assert isinstance(started, InstanceProcess)
        return started

    async def start(self, number: int = 0, **more: Any) -> InstanceProcess:
        """Start an instance, and wait until it runs or has ended."""
        started = await self.begin(number, **more)

        await until(partial(is_settled, started), "the instance", bound_s=120)
        return started
