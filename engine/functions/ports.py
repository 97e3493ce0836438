"""Services of the workers for the interfaces: REST, commands and the console call these protocols. Pure.

The gateway's implementation is ``engine.functions.worker_client.WorkerClient``, which calls any worker; the worker that
leads performs changes. Every call raises a Refusal: NotFound for an unknown function, NotReady while no worker answers
or the worker has not read its topics yet.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from engine.admin.api.arguments import JsonObject
from engine.base.names import NamespaceName

Component = Literal["function", "source", "sink"]
"""Kind of a function: it reads and writes topics, or one of both ends is a connector."""


@dataclass(frozen=True, slots=True)
class OnComponents:
    """The functions, sources or sinks of a namespace."""

    component: Component
    namespace: NamespaceName


@dataclass(frozen=True, slots=True)
class OnFunction(OnComponents):
    """A function, source or sink."""

    name: str


@dataclass(frozen=True, slots=True)
class OnInstances(OnFunction):
    """The instances of a function; ``instance`` None: all of them."""

    instance: int | None = None


@dataclass(frozen=True, slots=True)
class TrialCode:
    """Code of a function to try: the content of a file, or the URL of a stored ``package``."""

    file_name: str
    content: bytes = b""
    package: str = ""


class FunctionService(Protocol):
    """Functions, sources and sinks of a cluster.

    ``details`` and ``metadata`` are the records FunctionDetails and FunctionMetaData of
    ``engine.functions.definitions``. JSON objects have the form of Pulsar's REST interface.
    """

    async def everything(self) -> list[tuple[Any, dict[int, str]]]:
        """Return the FunctionMetaData of everything that is deployed, by name, and the worker of each instance."""
        ...

    async def names(self, of: OnComponents) -> list[str]:
        """Return the names, sorted."""
        ...

    async def metadata(self, function: OnFunction) -> Any:
        """Return the stored FunctionMetaData."""
        ...

    async def create(
        self, function: OnFunction, details: Any, package: str, file_name: str = ""
    ) -> None:
        """Store a function, whose instances then start. Raises AlreadyExists with Apache's text.

        ``details`` are validated before. ``package`` is where the code is: ``function://tenant/namespace/name@version``
        (also ``source://`` and ``sink://``), ``builtin://name``, or a URL that the packages fetch. ``file_name`` is the
        uploaded file's, without a path.
        """
        ...

    async def update(
        self,
        function: OnFunction,
        details: Any,
        package: str,
        file_name: str = "",
        *,
        expected_version: int,
    ) -> None:
        """Replace a function; its instances restart. ``package`` empty: it keeps its code.

        Raises Conflict unless its version is still ``expected_version``, that of the metadata which was merged.
        """
        ...

    async def delete(self, function: OnFunction) -> None:
        """Delete a function. Its instances end; its subscriptions are deleted if it is to clean them up."""
        ...

    async def store_metadata(
        self, function: OnFunction, metadata: bytes, *, delete: bool = False
    ) -> None:
        """Store a change of a function, source or sink that one of Apache's workers has made: ``metadata`` is the
        FunctionMetaData with its new version. Raises InvalidRequest with Apache's text for an outdated version."""
        ...

    async def start(self, of: OnInstances) -> None:
        """Store that instances shall run: they start as soon as a worker can start them. Kept over restarts of
        workers."""
        ...

    async def stop(self, of: OnInstances) -> None:
        """Store that instances shall not run: they end as soon as their workers read it, or lose their leases. Kept
        over restarts of workers."""
        ...

    async def restart(self, of: OnInstances) -> None:
        """End instances, which then start again. Stopped ones remain stopped.

        Raises NotReady that names the instances whose worker did not answer: they may have restarted or not.
        """
        ...

    async def status(self, of: OnInstances) -> JsonObject:
        """Return FunctionStatus, SourceStatus or SinkStatus; of one instance its ``status`` alone."""
        ...

    async def stats(self, of: OnInstances) -> JsonObject:
        """Return FunctionStats; of one instance its ``metrics`` alone. Counts of instances that do not answer, and
        sums with them, are null."""
        ...

    async def trigger(self, function: OnFunction, topic: str, data: bytes) -> bytes:
        """Publish ``data`` to an input topic and return the payload that the function publishes for it; empty for a
        function without an output.

        ``topic`` may be empty where the function has one. Raises InvalidRequest, and NotReady when no output comes in
        time.
        """
        ...

    async def try_on(
        self,
        function: OnFunction,
        details: Any,
        code: TrialCode,
        entries: list[JsonObject],
        messages: int,
    ) -> JsonObject:
        """Run code on the last ``messages`` of stored entries of its inputs, and return what it did; nothing is
        published, stored or acknowledged. Raises InvalidRequest for code that does not load."""
        ...

    async def state(self, function: OnFunction, key: str) -> JsonObject:
        """Return the FunctionState of a key. Raises NotFound without it."""
        ...

    async def put_state(self, function: OnFunction, key: str, state: JsonObject) -> None:
        """Store the value in a FunctionState."""
        ...

    async def log_lines(self, of: OnInstances, lines: int) -> dict[str, str]:
        """Return the last lines of the log of each running instance, by its number. Raises NotReady when one of their
        workers does not answer."""
        ...


class WorkerService(Protocol):
    """The workers of a cluster."""

    async def cluster(self) -> list[JsonObject]:
        """Return WorkerInfo of each worker, sorted by id."""
        ...

    async def leader(self) -> JsonObject | None:
        """Return WorkerInfo of the leader; None without one."""
        ...

    async def leader_ready(self) -> bool:
        """Return whether the leader has read all topics and schedules."""
        ...

    async def assignments(self) -> dict[str, list[str]]:
        """Return the instances ``tenant/namespace/name:instance`` of each worker."""
        ...

    async def rebalance(self) -> None:
        """Distribute instances evenly. Raises InvalidRequest with fewer than two workers."""
        ...

    async def drain(self, worker: str) -> None:
        """Move all instances of a worker to others and give it no new ones, until it starts again."""
        ...

    async def drain_status(self, worker: str) -> JsonObject:
        """Return LongRunningProcessStatus of a drain. Raises NotFound for a worker that is not drained."""
        ...

    async def metrics(self) -> list[JsonObject]:
        """Return the worker's own metrics in Pulsar's form."""
        ...

    async def function_metrics(self) -> list[JsonObject]:
        """Return WorkerFunctionInstanceStats of each instance that answers, whose worker answers."""
        ...

    async def function_figures(self) -> JsonObject:
        """Return those as ``metrics``, and by ``silent`` worker why it gave no answer."""
        ...
