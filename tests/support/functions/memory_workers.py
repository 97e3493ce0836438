"""Functions workers without instances: functions are stored, and asked for, as WorkerClient does it."""

import time
from typing import Any

from engine.admin.api.arguments import JsonObject
from engine.base.errors import AlreadyExists, Conflict, InvalidRequest, NotFound, Refusal
from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData
from engine.functions.definitions.records import component_of, parse
from engine.functions.ports import OnComponents, OnFunction, OnInstances
from engine.functions.worker_operations import NO_WORKER


class MemoryWorkers:
    """A FunctionService. ``failing``: refusals by the name of the method. ``calls``: names, what they are about, and
    the principal."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str, str], FunctionMetaData] = {}
        self.states: dict[str, JsonObject] = {}
        self.failing: dict[str, Refusal] = {}
        self.calls: list[tuple[str, OnComponents, str]] = []
        self.is_off = False
        self._principal = ""

    def acting_for(self, principal: str, account: Any) -> "MemoryWorkers":
        self._principal = principal
        return self

    def close(self) -> None:
        return None

    def _note(self, name: str, of: OnComponents) -> None:
        self.calls.append((name, of, self._principal))
        if self.is_off:
            raise Conflict(NO_WORKER)
        if name in self.failing:
            raise self.failing[name]

    async def everything(self) -> list[tuple[FunctionMetaData, dict[int, str]]]:
        return [(metadata, {}) for _, metadata in sorted(self.functions.items())]

    async def names(self, of: OnComponents) -> list[str]:
        self._note("names", of)
        place = (of.component, str(of.namespace))
        return sorted(name for *at, name in self.functions if tuple(at) == place)

    async def metadata(self, function: OnFunction) -> FunctionMetaData:
        self._note("metadata", function)
        return parse(FunctionMetaData, self._stored(function).SerializeToString())

    def _stored(self, function: OnFunction) -> FunctionMetaData:
        stored = self.functions.get((function.component, str(function.namespace), function.name))
        if stored is None:
            raise NotFound(f"{function.component.capitalize()} {function.name} doesn't exist")
        return stored

    async def create(
        self, function: OnFunction, details: FunctionDetails, package: str, file_name: str = ""
    ) -> None:
        self._note("create", function)
        key = (function.component, str(function.namespace), function.name)
        if key in self.functions:
            raise AlreadyExists("exists")
        made = FunctionMetaData(functionDetails=details, createTime=int(time.time() * 1000))
        made.packageLocation.packagePath = package
        made.packageLocation.originalFileName = file_name
        self.functions[key] = made

    async def update(
        self,
        function: OnFunction,
        details: FunctionDetails,
        package: str,
        file_name: str = "",
        *,
        expected_version: int,
    ) -> None:
        self._note("update", function)
        stored = self._stored(function)
        if stored.version != expected_version:
            raise Conflict("it was changed meanwhile")
        stored.functionDetails.CopyFrom(details)
        stored.version += 1
        if package:
            stored.packageLocation.packagePath = package
            stored.packageLocation.originalFileName = file_name

    async def delete(self, function: OnFunction) -> None:
        self._note("delete", function)
        self._stored(function)
        del self.functions[function.component, str(function.namespace), function.name]

    async def store_metadata(
        self, function: OnFunction, metadata: bytes, *, delete: bool = False
    ) -> None:
        self._note("store_metadata", function)
        stored = parse(FunctionMetaData, metadata)
        key = (component_of(stored.functionDetails), str(function.namespace), function.name)
        if delete:
            del self.functions[key]
        else:
            self.functions[key] = stored

    async def start(self, of: OnInstances) -> None:
        self._act("start", of)

    async def stop(self, of: OnInstances) -> None:
        self._act("stop", of)

    async def restart(self, of: OnInstances) -> None:
        self._act("restart", of)

    def _act(self, name: str, of: OnInstances) -> None:
        self._note(name, of)
        stored = self._stored(of)
        if of.instance is not None and of.instance >= stored.functionDetails.parallelism:
            raise InvalidRequest("Operation not permitted")

    async def status(self, of: OnInstances) -> JsonObject:
        self._act("status", of)
        return {"numInstances": 1} if of.instance is None else {"running": True}

    async def stats(self, of: OnInstances) -> JsonObject:
        self._act("stats", of)
        return {"receivedTotal": 0, "avgProcessLatency": None}

    async def trigger(self, function: OnFunction, topic: str, data: bytes) -> bytes:
        self._note("trigger", function)
        self._stored(function)
        return data + b"!"

    async def state(self, function: OnFunction, key: str) -> JsonObject:
        self._note("state", function)
        self._stored(function)
        if key not in self.states:
            raise NotFound(f"'{key}' is not found")
        return self.states[key]

    async def put_state(self, function: OnFunction, key: str, state: JsonObject) -> None:
        self._note("put_state", function)
        self._stored(function)
        self.states[key] = state
