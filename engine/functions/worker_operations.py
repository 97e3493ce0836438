"""Operations of workers on functions, sources and sinks, and on the workers themselves. Pure.

The worker that leads performs changes; another one names it. ``held_…`` are operations of the worker that runs the
instances, which the others call to answer for all of them.
"""

from dataclasses import dataclass
from types import NoneType
from typing import Any

from engine.admin.api.arguments import JsonObject, NoArguments, within
from engine.auth.actions import Action
from engine.auth.rights import SUPERUSER, Right
from engine.base.names import NamespaceName
from engine.functions.ports import Component, OnComponents, OnFunction, OnInstances
from engine.rpc.operation import Operation

LOG_LINES_MAX = 10_000
TRIED_MESSAGES_MAX = 50
NO_WORKER = "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
"""Apache's text."""


@dataclass(frozen=True, slots=True)
class StoredFunction(OnFunction):
    """A function to create. ``details``: FunctionDetails in base64. ``package`` and ``file_name``: as for
    ``FunctionService.create``."""

    details: str
    package: str
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class UpdatedFunction(OnFunction):
    """A function to replace, whose version is ``expected_version``."""

    details: str
    package: str
    expected_version: int
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class StoredMetadata(OnFunction):
    """A change of a function, source or sink that one of Apache's workers has made. ``metadata``: FunctionMetaData in
    base64, with the new version; the component does not matter."""

    metadata: str
    delete: bool = False


@dataclass(frozen=True, slots=True)
class TriggeredFunction(OnFunction):
    """A message for a function: its input topic, and the payload in base64."""

    topic: str
    data: str


@dataclass(frozen=True, slots=True)
class TriedFunction(OnFunction):
    """A function to try. ``details``: FunctionDetails in base64. ``code``: its file in base64, or empty with the URL of
    a stored ``package``. ``entries``: stored entries of its inputs, ``{"topic", "ledger", "entry", "stored"}`` each."""

    details: str
    file_name: str
    code: str
    package: str
    entries: list[JsonObject]
    messages: int

    def __post_init__(self) -> None:
        within("messages", self.messages, 1, TRIED_MESSAGES_MAX)


@dataclass(frozen=True, slots=True)
class OnStateKey(OnFunction):
    key: str


@dataclass(frozen=True, slots=True)
class PutState(OnStateKey):
    """``state``: FunctionState."""

    state: Any


@dataclass(frozen=True, slots=True)
class LogLines(OnInstances):
    """The last lines of the logs of instances."""

    lines: int = 100

    def __post_init__(self) -> None:
        within("lines", self.lines, 1, LOG_LINES_MAX)


@dataclass(frozen=True, slots=True)
class OnWorker:
    worker: str


def _of(component: Component, action: Action) -> Right[OnComponents]:
    def resources(args: OnComponents) -> NamespaceName | tuple[()]:
        return args.namespace if args.component == component else ()

    return Right(action, NamespaceName, resources)


COMPONENT = (
    _of("function", Action.FUNCTIONS),
    _of("source", Action.SOURCES),
    _of("sink", Action.SINKS),
)
"""The right to functions, sources or sinks of a namespace: whichever the call is about."""

ALL_FUNCTIONS = Operation("all_functions", NoArguments, list[JsonObject], SUPERUSER, reads=True)
"""Everything deployed: ``{"metadata": FunctionMetaData in base64, "workers": the worker of each instance}``."""
FUNCTION_NAMES = Operation("function_names", OnComponents, list[str], COMPONENT, reads=True)
FUNCTION_METADATA = Operation("function_metadata", OnFunction, str, COMPONENT, reads=True)
"""FunctionMetaData in base64."""
CREATE_FUNCTION = Operation(
    "create_function", StoredFunction, NoneType, COMPONENT, unlogged=("details",)
)
UPDATE_FUNCTION = Operation(
    "update_function", UpdatedFunction, NoneType, COMPONENT, unlogged=("details",)
)
DELETE_FUNCTION = Operation("delete_function", OnFunction, NoneType, COMPONENT)
STORE_METADATA = Operation(
    "store_metadata", StoredMetadata, NoneType, SUPERUSER, unlogged=("metadata",)
)
START_FUNCTION = Operation("start_function", OnInstances, NoneType, COMPONENT)
STOP_FUNCTION = Operation("stop_function", OnInstances, NoneType, COMPONENT)
RESTART_FUNCTION = Operation("restart_function", OnInstances, NoneType, COMPONENT)
FUNCTION_STATUS = Operation("function_status", OnInstances, JsonObject, COMPONENT, reads=True)
FUNCTION_STATS = Operation("function_stats", OnInstances, JsonObject, COMPONENT, reads=True)
TRIGGER_FUNCTION = Operation(
    "trigger_function", TriggeredFunction, str, COMPONENT, unlogged=("data",)
)
"""The output's payload in base64."""
TRY_FUNCTION = Operation(
    "try_function",
    TriedFunction,
    JsonObject,
    COMPONENT,
    reads=True,
    unlogged=("details", "code", "entries"),
)
"""A trial, which publishes, stores and acknowledges nothing: as of ``TrialRunner.run``."""
FUNCTION_STATE = Operation("function_state", OnStateKey, JsonObject, COMPONENT, reads=True)
PUT_FUNCTION_STATE = Operation(
    "put_function_state", PutState, NoneType, COMPONENT, unlogged=("state",)
)
FUNCTION_LOG = Operation("function_log", LogLines, dict[str, str], COMPONENT, reads=True)

HELD_STATUS = Operation("held_status", OnInstances, dict[str, JsonObject], SUPERUSER, reads=True)
"""Status of the instances here, by their numbers."""
HELD_STATS = Operation("held_stats", OnInstances, dict[str, JsonObject], SUPERUSER, reads=True)
"""Statistics of the instances here, without those that do not answer."""
HELD_LOG = Operation("held_log", LogLines, dict[str, str], SUPERUSER, reads=True)
RESTART_HELD = Operation("restart_held", OnInstances, dict[str, bool], SUPERUSER)
"""Restart the instances here; the answer has those that were here, by their numbers."""
HELD_STATE = Operation("held_state", OnStateKey, JsonObject, SUPERUSER, reads=True)
PUT_HELD_STATE = Operation("put_held_state", PutState, NoneType, SUPERUSER, unlogged=("state",))
HELD_METRICS = Operation("held_metrics", NoArguments, list[JsonObject], SUPERUSER, reads=True)

WORKER_CLUSTER = Operation("worker_cluster", NoArguments, list[JsonObject], SUPERUSER, reads=True)
WORKER_LEADER = Operation("worker_leader", NoArguments, JsonObject, SUPERUSER, reads=True)
"""``{"leader": WorkerInfo or null, "ready": whether it schedules}``."""
WORKER_ASSIGNMENTS = Operation(
    "worker_assignments", NoArguments, dict[str, list[str]], SUPERUSER, reads=True
)
REBALANCE_WORKERS = Operation("rebalance_workers", NoArguments, NoneType, SUPERUSER)
DRAIN_WORKER = Operation("drain_worker", OnWorker, NoneType, SUPERUSER)
WORKER_DRAIN = Operation("worker_drain", OnWorker, JsonObject, SUPERUSER, reads=True)
WORKER_METRICS = Operation("worker_metrics", NoArguments, list[JsonObject], SUPERUSER, reads=True)
FUNCTION_METRICS = Operation(
    "function_metrics", NoArguments, list[JsonObject], SUPERUSER, reads=True
)
FUNCTION_FIGURES = Operation("function_figures", NoArguments, JsonObject, SUPERUSER, reads=True)
"""``{"metrics": the answer of FUNCTION_METRICS, "silent": {worker: why it gave no answer}}``. What the instances of
silent workers do is not known."""
