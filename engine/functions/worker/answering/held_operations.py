"""The operations on the instances that run on this worker, which the other workers call."""

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.base.errors import InvalidField, NotFound, NotReady
from engine.functions import worker_operations as api
from engine.functions.definitions.records import FunctionName
from engine.functions.ports import OnFunction, OnInstances
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import RunningInstance
from engine.functions.worker.answering import instance_reports as reports
from engine.functions.worker.placing.known_assignments import split_key
from engine.functions.worker.running.instance_keeper import InstanceKeeper
from engine.functions.worker.running.instances import WorkerInstances
from engine.rpc.operation import Handlers, bind

LONG_MAX = (1 << 63) - 1


class HeldOperations:
    """Operations on this worker's instances."""

    def __init__(self, instances: WorkerInstances, worker: str) -> None:
        self._instances = instances
        self._worker = worker

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(api.HELD_STATUS, self._status),
                bind(api.HELD_STATS, self._stats),
                bind(api.HELD_LOG, self._log),
                bind(api.RESTART_HELD, self._restart),
                bind(api.HELD_STATE, self._state),
                bind(api.PUT_HELD_STATE, self._put_state),
                bind(api.HELD_METRICS, self._metrics),
            ]
        )

    def _of(self, of: OnInstances) -> Iterator[tuple[int, InstanceKeeper]]:
        for instance, keeper in self._of_function(of):
            if of.instance in (None, instance):
                yield instance, keeper

    def _of_function(self, of: OnFunction) -> Iterator[tuple[int, InstanceKeeper]]:
        wanted = str(FunctionName(of.namespace.tenant, of.namespace.below_tenant, of.name))
        for key, keeper in self._instances.keepers.items():
            name, instance = split_key(key)
            if name == wanted and keeper.wanted is not None:
                yield instance, keeper

    async def _status(self, of: OnInstances) -> dict[str, JsonObject]:
        rows = {}
        for instance, keeper in list(self._of(of)):
            running = keeper.running
            try:
                if running is None:
                    row = self._not_running(of, keeper, keeper.error)
                else:
                    status = await running.status()
                    row = reports.status_of(of.component, status, keeper.restarts, self._worker)
            except InstanceError as error:
                row = self._not_running(of, keeper, str(error))
            rows[str(instance)] = row
        return rows

    def _not_running(self, of: OnInstances, keeper: InstanceKeeper, error: str) -> JsonObject:
        return reports.not_running(of.component, error, keeper.restarts, self._worker)

    async def _stats(self, of: OnInstances) -> dict[str, JsonObject]:
        rows = {}
        for instance, keeper in list(self._of(of)):
            if keeper.running is None:
                rows[str(instance)] = reports.NO_STATS
                continue
            try:
                rows[str(instance)] = reports.stats_of(await keeper.running.stats())
            except InstanceError:
                continue  # it is suspended, or ends: nothing is known of it
        return rows

    async def _log(self, of: api.LogLines) -> dict[str, str]:
        rows = {}
        for instance, keeper in list(self._of(of)):
            if keeper.running is not None:
                rows[str(instance)] = await _asked(keeper.running.log_tail, of.lines)
        return rows

    async def _restart(self, of: OnInstances) -> dict[str, bool]:
        """Restart the instances here; return those that were here by their numbers."""
        restarted = {}
        for instance, keeper in self._of(of):
            keeper.restart()
            restarted[str(instance)] = True
        return restarted

    async def _state(self, of: api.OnStateKey) -> JsonObject:
        stored = await _asked(self._running(of).state_get, of.key)
        if stored is None:
            raise NotFound(f"'{of.key}' is not found")
        return _function_state(of.key, stored)

    async def _put_state(self, of: api.PutState) -> None:
        value, number = _state_value(of.key, of.state)
        await _asked(self._running(of).state_put, of.key, value, number)

    def _running(self, of: OnFunction) -> RunningInstance:
        """Return a running instance. Raises NotReady without one."""
        for _, keeper in self._of_function(of):
            if keeper.running is not None:
                return keeper.running
        raise NotReady(f"No instance of {of.name} runs, which would know its state")

    async def _metrics(self, _: NoArguments) -> list[JsonObject]:
        rows = []
        for key, keeper in list(self._instances.keepers.items()):
            if keeper.running is not None:
                try:
                    metrics = reports.stats_of(await keeper.running.stats())
                except InstanceError:
                    continue
                rows.append({"name": key, "metrics": metrics})
        return rows


async def _asked(question: Callable[..., Any], *args: Any) -> Any:
    """Return an instance's answer. Raises NotReady."""
    try:
        return await question(*args)
    except InstanceError as error:
        raise NotReady(str(error)) from error


def _function_state(key: str, stored: Any) -> JsonObject:
    """Return Pulsar's FunctionState, without the fields that are null."""
    value, number = stored["value"], stored["number"]
    state: JsonObject = {"key": key}
    if value is not None:
        try:
            state["stringValue"] = value.decode()
        except UnicodeDecodeError:
            state["byteValue"] = base64.b64encode(value).decode()
    if number is not None:
        state["numberValue"] = number
    return {**state, "version": stored["version"]}


def _state_value(key: str, state: Any) -> tuple[bytes | None, int | None]:
    """Return the value and number of a FunctionState. Raises InvalidField."""
    if not isinstance(state, dict):
        raise InvalidField("state", "must be a JSON object")
    if state.get("key", key) != key:
        raise InvalidField("state", "Path key doesn't match key in json")
    text, data, number = (state.get(name) for name in ("stringValue", "byteValue", "numberValue"))
    if isinstance(text, str):
        return text.encode(), None
    if isinstance(data, str):
        try:
            return base64.b64decode(data, validate=True), None
        except binascii.Error as error:
            raise InvalidField("byteValue", "must be base64") from error
    if isinstance(number, int) and not isinstance(number, bool) and abs(number) <= LONG_MAX:
        return None, number
    raise InvalidField("state", "must have stringValue, byteValue or numberValue")
