"""Client of the workers of a cluster: the services of ``engine.functions.ports`` by calls of any worker.

The worker that leads is called for changes: another one names it, and it is remembered.
"""

import base64
from collections.abc import Callable
from copy import copy

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.base.errors import Conflict
from engine.base.names import NamespaceName
from engine.functions import worker_operations as api
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import encode, parse
from engine.functions.ports import Component, OnComponents, OnFunction, OnInstances, TrialCode
from engine.functions.registered_workers import registered_workers
from engine.metadata.store import MetadataStore
from engine.net.network import Network
from engine.net.tls import ContextSource
from engine.rpc.client import RpcClient
from engine.rpc.operation import A, Operation, R

Account = Callable[[str, dict[str, str]], None]
ACCOUNTED = ("component", "namespace", "name", "instance", "package", "key", "worker")
"""Fields of arguments that name what a change concerns."""
KEY = "functions"
"""The workers share one leader."""


class WorkerClient:
    """FunctionService and WorkerService, in TLS only with ``tls``.

    Raises Conflict with Apache's text where no worker is registered: functions are off then.
    """

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        token: str,
        *,
        timeout_s: float = 45.0,
        tls: ContextSource | None = None,
    ) -> None:
        self._store = store
        self._encrypted = tls is not None
        self._rpc = RpcClient(network, token, "worker", timeout_s=timeout_s, tls=tls)
        self._principal = ""
        self._account: Account = lambda operation, changed: None

    def acting_for(self, principal: str, account: Account) -> "WorkerClient":
        """Return a client that calls for a principal, over the same connections. ``account`` is called after each
        change that was answered as made, with the name of the operation and its function."""
        other = copy(self)
        other._principal, other._account = principal, account
        return other

    def close(self) -> None:
        """Close all connections; pending calls fail."""
        self._rpc.close()

    async def _call(self, operation: Operation[A, R], args: A) -> R:
        answer = await self._rpc.call(
            operation, args, key=KEY, servers=self._urls, principal=self._principal
        )
        if not operation.reads:
            # Details, state and payloads may hold secrets.
            shown = {name: getattr(args, name, None) for name in ACCOUNTED}
            self._account(
                operation.name, {name: str(v) for name, v in shown.items() if v is not None}
            )
        return answer

    async def _urls(self) -> list[str]:
        workers = await registered_workers(self._store)
        if not workers:
            raise Conflict(api.NO_WORKER)
        urls = (
            worker.rpc_url_tls if self._encrypted else worker.rpc_url for worker in workers.values()
        )
        return [url for url in urls if url]

    # --- FunctionService -------------------------------------------------------------------------

    async def stored_functions(self) -> list[JsonObject]:
        """Return everything deployed as it is stored, see ``ALL_FUNCTIONS``: for callers that parse what changed."""
        return await self._call(api.ALL_FUNCTIONS, NoArguments())

    async def everything(self) -> list[tuple[pb.FunctionMetaData, dict[int, str]]]:
        rows = await self.stored_functions()
        return [
            (
                parse(pb.FunctionMetaData, base64.b64decode(row["metadata"])),
                {int(instance): worker for instance, worker in row["workers"].items()},
            )
            for row in rows
        ]

    async def names(self, of: OnComponents) -> list[str]:
        return await self._call(api.FUNCTION_NAMES, OnComponents(of.component, of.namespace))

    async def metadata(self, function: OnFunction) -> pb.FunctionMetaData:
        answer = await self._call(api.FUNCTION_METADATA, OnFunction(*_names(function)))
        return parse(pb.FunctionMetaData, base64.b64decode(answer))

    async def create(
        self, function: OnFunction, details: pb.FunctionDetails, package: str, file_name: str = ""
    ) -> None:
        args = api.StoredFunction(*_names(function), _encoded(details), package, file_name)
        await self._call(api.CREATE_FUNCTION, args)

    async def update(
        self,
        function: OnFunction,
        details: pb.FunctionDetails,
        package: str,
        file_name: str = "",
        *,
        expected_version: int,
    ) -> None:
        args = api.UpdatedFunction(
            *_names(function), _encoded(details), package, expected_version, file_name
        )
        await self._call(api.UPDATE_FUNCTION, args)

    async def delete(self, function: OnFunction) -> None:
        await self._call(api.DELETE_FUNCTION, OnFunction(*_names(function)))

    async def store_metadata(
        self, function: OnFunction, metadata: bytes, *, delete: bool = False
    ) -> None:
        encoded = base64.b64encode(metadata).decode()
        args = api.StoredMetadata(*_names(function), encoded, delete)
        await self._call(api.STORE_METADATA, args)

    async def start(self, of: OnInstances) -> None:
        await self._call(api.START_FUNCTION, of)

    async def stop(self, of: OnInstances) -> None:
        await self._call(api.STOP_FUNCTION, of)

    async def restart(self, of: OnInstances) -> None:
        await self._call(api.RESTART_FUNCTION, of)

    async def status(self, of: OnInstances) -> JsonObject:
        return await self._call(api.FUNCTION_STATUS, of)

    async def stats(self, of: OnInstances) -> JsonObject:
        return await self._call(api.FUNCTION_STATS, of)

    async def trigger(self, function: OnFunction, topic: str, data: bytes) -> bytes:
        args = api.TriggeredFunction(*_names(function), topic, base64.b64encode(data).decode())
        output = await self._call(api.TRIGGER_FUNCTION, args)
        return base64.b64decode(output)

    async def try_on(
        self,
        function: OnFunction,
        details: pb.FunctionDetails,
        code: TrialCode,
        entries: list[JsonObject],
        messages: int,
    ) -> JsonObject:
        args = api.TriedFunction(
            *_names(function),
            _encoded(details),
            code.file_name,
            base64.b64encode(code.content).decode(),
            code.package,
            entries,
            messages,
        )
        return await self._call(api.TRY_FUNCTION, args)

    async def state(self, function: OnFunction, key: str) -> JsonObject:
        return await self._call(api.FUNCTION_STATE, api.OnStateKey(*_names(function), key))

    async def put_state(self, function: OnFunction, key: str, state: JsonObject) -> None:
        args = api.PutState(*_names(function), key, state)
        await self._call(api.PUT_FUNCTION_STATE, args)

    async def log_lines(self, of: OnInstances, lines: int) -> dict[str, str]:
        args = api.LogLines(*_names(of), of.instance, lines)
        return await self._call(api.FUNCTION_LOG, args)

    # --- WorkerService ---------------------------------------------------------------------------

    async def cluster(self) -> list[JsonObject]:
        return await self._call(api.WORKER_CLUSTER, NoArguments())

    async def leader(self) -> JsonObject | None:
        answer = await self._call(api.WORKER_LEADER, NoArguments())
        leader: JsonObject | None = answer["leader"]
        return leader

    async def leader_ready(self) -> bool:
        return bool((await self._call(api.WORKER_LEADER, NoArguments()))["ready"])

    async def assignments(self) -> dict[str, list[str]]:
        return await self._call(api.WORKER_ASSIGNMENTS, NoArguments())

    async def rebalance(self) -> None:
        await self._call(api.REBALANCE_WORKERS, NoArguments())

    async def drain(self, worker: str) -> None:
        await self._call(api.DRAIN_WORKER, api.OnWorker(worker))

    async def drain_status(self, worker: str) -> JsonObject:
        return await self._call(api.WORKER_DRAIN, api.OnWorker(worker))

    async def metrics(self) -> list[JsonObject]:
        return await self._call(api.WORKER_METRICS, NoArguments())

    async def function_metrics(self) -> list[JsonObject]:
        return await self._call(api.FUNCTION_METRICS, NoArguments())

    async def function_figures(self) -> JsonObject:
        return await self._call(api.FUNCTION_FIGURES, NoArguments())


def _names(of: OnFunction) -> tuple[Component, NamespaceName, str]:
    return of.component, of.namespace, of.name


def _encoded(details: pb.FunctionDetails) -> str:
    return base64.b64encode(encode(details)).decode()
