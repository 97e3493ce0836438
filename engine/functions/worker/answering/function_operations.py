"""The operations on functions, sources and sinks, and on the workers, as one worker performs them."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import (
    AlreadyExists,
    InvalidField,
    InvalidRequest,
    MagnetarError,
    NotFound,
    NotReady,
    Refusal,
)
from engine.client.client import PulsarClient
from engine.functions import worker_operations as api
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import (
    FunctionName,
    FunctionRecordError,
    component_of,
    encode,
    parse,
)
from engine.functions.ports import OnComponents, OnFunction, OnInstances
from engine.functions.registered_workers import (
    WorkerRecord,
    drain_worker,
    draining_workers,
    leading_worker,
    registered_workers,
)
from engine.functions.worker.answering import instance_reports as reports
from engine.functions.worker.answering.held_operations import HeldOperations
from engine.functions.worker.answering.triggering import trigger
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.known_assignments import instance_key, split_key
from engine.functions.worker.placing.leading import NOT_LEADER, FunctionLeader
from engine.functions.worker.running.function_tokens import role_for, with_role
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.rpc.client import RpcClient
from engine.rpc.operation import A, Handlers, Operation, R, bind
from engine.rpc.server import CALLER, MovedError

STARTING = "Function worker service is not done initializing. Please try again in a little while."
FEW_WORKERS = "Too few workers (need at least 2)"
NOT_PERMITTED = "Operation not permitted"
"""Apache's texts."""
INSTANCE_STATE = {True: pb.RUNNING, False: pb.STOPPED}


class FunctionOperations:
    """The operations of one worker. ``encrypted``: it calls others in TLS.

    ``superusers``: roles that no function may have, besides the one of processes; None where authentication is off.

    ``joined`` is true once it has read both topics; until then all are refused.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        entropy: Entropy,
        client: PulsarClient,
        record: WorkerRecord,
        followed: FollowedTopics,
        leader: FunctionLeader,
        held: HeldOperations,
        workers: RpcClient,
        *,
        superusers: frozenset[str] | None,
        encrypted: bool,
        trigger_s: float,
        joined: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._client = client
        self._record = record
        self._followed = followed
        self._leader = leader
        self._held = held
        self._workers = workers
        self._superusers = superusers
        self._encrypted = encrypted
        self._trigger_s = trigger_s
        self._joined = joined

    @property
    def handlers(self) -> Handlers:
        return self._held.handlers | dict(
            [
                bind(api.ALL_FUNCTIONS, self._all),
                bind(api.FUNCTION_NAMES, self._names),
                bind(api.FUNCTION_METADATA, self._metadata),
                bind(api.CREATE_FUNCTION, self._create),
                bind(api.UPDATE_FUNCTION, self._update),
                bind(api.DELETE_FUNCTION, self._delete),
                bind(api.START_FUNCTION, self._start),
                bind(api.STOP_FUNCTION, self._stop),
                bind(api.RESTART_FUNCTION, self._restart),
                bind(api.FUNCTION_STATUS, self._status),
                bind(api.FUNCTION_STATS, self._stats),
                bind(api.TRIGGER_FUNCTION, self._trigger),
                bind(api.FUNCTION_STATE, self._state),
                bind(api.PUT_FUNCTION_STATE, self._put_state),
                bind(api.FUNCTION_LOG, self._log),
                bind(api.WORKER_CLUSTER, self._cluster),
                bind(api.WORKER_LEADER, self._leading),
                bind(api.WORKER_ASSIGNMENTS, self._assignments),
                bind(api.REBALANCE_WORKERS, self._rebalance),
                bind(api.DRAIN_WORKER, self._drain),
                bind(api.WORKER_DRAIN, self._drain_status),
                bind(api.WORKER_METRICS, self._worker_metrics),
                bind(api.FUNCTION_METRICS, self._function_metrics),
            ]
        )

    # --- what is known ---------------------------------------------------------------------------

    async def _current(self) -> Mapping[str, pb.FunctionMetaData]:
        """Return the functions, with every change that was answered before. Raises NotReady."""
        if not self._joined():
            raise NotReady(STARTING)
        try:
            await self._followed.caught_up()
        except MagnetarError as error:
            raise NotReady(f"The functions cannot be read now: {error}") from error
        return self._followed.functions.functions

    async def _stored(self, of: OnFunction) -> pb.FunctionMetaData:
        """Return a function. Raises NotFound with Apache's text."""
        metadata = (await self._current()).get(_name(of))
        if metadata is None or component_of(metadata.functionDetails) != of.component:
            raise NotFound(f"{of.component.capitalize()} {of.name} doesn't exist")
        return metadata

    async def _all(self, _: NoArguments) -> list[JsonObject]:
        functions = await self._current()
        workers: dict[str, dict[str, str]] = {name: {} for name in functions}
        for key, assignment in self._followed.assignments.assignments.items():
            name, instance = split_key(key)
            if name in workers:
                workers[name][str(instance)] = assignment.workerId
        return [
            {"metadata": base64.b64encode(encode(metadata)).decode(), "workers": workers[name]}
            for name, metadata in sorted(functions.items())
        ]

    async def _names(self, of: OnComponents) -> list[str]:
        return sorted(
            metadata.functionDetails.name
            for metadata in (await self._current()).values()
            if component_of(metadata.functionDetails) == of.component
            and metadata.functionDetails.tenant == of.namespace.tenant
            and metadata.functionDetails.namespace == of.namespace.below_tenant
        )

    async def _metadata(self, of: OnFunction) -> str:
        return base64.b64encode(encode(await self._stored(of))).decode()

    # --- changes, which the leader writes --------------------------------------------------------

    async def _lead(self) -> None:
        """Return if this worker leads. Raises MovedError naming the one that does, NotReady without one."""
        if not self._joined():
            raise NotReady(STARTING)
        if self._leader.ready:
            return
        leader = await leading_worker(self._store)
        record = (await registered_workers(self._store)).get(leader or "")
        if record is None or record.id == self._record.id:
            raise NotReady(NOT_LEADER)
        raise MovedError(record.rpc_url, record.rpc_url_tls)

    async def _create(self, of: api.StoredFunction) -> None:
        await self._lead()
        if _name(of) in await self._current():
            raise AlreadyExists(f"{of.component.capitalize()} {of.name} already exists")
        metadata = pb.FunctionMetaData(
            functionDetails=_details(of),
            packageLocation=_location(of.package, of.file_name),
            createTime=self._clock.wall_ms(),
        )
        await self._give_role(metadata, of.namespace.tenant)
        await self._write(pb.ServiceRequest.UPDATE, metadata, None)

    async def _give_role(self, metadata: pb.FunctionMetaData, tenant: str) -> None:
        """Store the role that the function has, where roles are known."""
        if self._superusers is None:
            return
        identity = CALLER.get()
        caller = identity.original or identity.role or ""
        admins: list[str] = []
        with suppress(NoNodeError):
            value, _ = await self._store.get(paths.tenant(tenant))
            admins = list(decode_json(value, paths.tenant(tenant)).get("adminRoles") or ())
        with_role(metadata, role_for(tenant, caller, admins, self._superusers))

    async def _update(self, of: api.UpdatedFunction) -> None:
        await self._lead()
        stored = await self._stored(of)
        changed = pb.FunctionMetaData()
        changed.CopyFrom(stored)
        changed.functionDetails.CopyFrom(_details(of))
        if of.package:
            changed.packageLocation.CopyFrom(_location(of.package, of.file_name))
        changed.version = of.expected_version + 1
        for instance in list(changed.instanceStates):
            if instance >= changed.functionDetails.parallelism:
                del changed.instanceStates[instance]
        await self._write(pb.ServiceRequest.UPDATE, changed, of.expected_version)

    async def _delete(self, of: OnFunction) -> None:
        await self._lead()
        stored = await self._stored(of)
        deleted = pb.FunctionMetaData()
        deleted.CopyFrom(stored)
        deleted.version += 1
        await self._write(pb.ServiceRequest.DELETE, deleted, stored.version)

    async def _start(self, of: OnInstances) -> None:
        await self._set_states(of, running=True)

    async def _stop(self, of: OnInstances) -> None:
        await self._set_states(of, running=False)

    async def _set_states(self, of: OnInstances, *, running: bool) -> None:
        await self._lead()
        stored = await self._stored(of)
        changed = pb.FunctionMetaData()
        changed.CopyFrom(stored)
        for instance in _instances(stored, of):
            changed.instanceStates[instance] = INSTANCE_STATE[running]
        if changed == stored:
            return
        changed.version += 1
        await self._write(pb.ServiceRequest.UPDATE, changed, stored.version)

    async def _write(
        self, kind: "pb.ServiceRequest.ServiceRequestType", metadata: Any, expected: int | None
    ) -> None:
        request = pb.ServiceRequest(
            serviceRequestType=kind,
            requestId=self._entropy.hex(16),
            functionMetaData=metadata,
            workerId=self._record.id,
        )
        await self._leader.store(request, expected)

    # --- instances, wherever they run ------------------------------------------------------------

    async def _each(
        self, of: OnInstances, stored: pb.FunctionMetaData, operation: Operation[A, R], args: A
    ) -> "_Answers":
        """Return the answers of the workers about the instances, all asked at once."""
        places: dict[int, str] = {}
        for instance in _instances(stored, of):
            assignment = self._followed.assignments.assignments.get(
                instance_key(_name(of), instance)
            )
            if assignment is not None:
                places[instance] = assignment.workerId
        registered = await registered_workers(self._store)
        workers = sorted(set(places.values()))
        replies = await asyncio.gather(
            *(self._ask(worker, registered.get(worker), operation, args) for worker in workers)
        )
        silent: dict[str, str] = {}
        by_instance: dict[str, Any] = {}
        for worker, (reply, reason) in zip(workers, replies, strict=True):
            by_instance |= reply
            if reason:
                silent[worker] = reason
        return _Answers(by_instance, places, silent)

    async def _ask(
        self, worker: str, record: WorkerRecord | None, operation: Operation[A, R], args: A
    ) -> tuple[Any, str]:
        """Return a worker's answer, and why there is none; empty for an answer."""
        if record is None:
            return {}, f"worker {worker} is not registered"
        try:
            return await self._call(record, operation, args) or {}, ""
        except Refusal as error:
            if record.id == self._record.id:
                raise  # this worker's refusal is an answer
            return {}, f"worker {worker} does not answer: {error.reason}"

    async def _call(self, record: WorkerRecord, operation: Operation[A, R], args: A) -> Any:
        """Return the answer of a worker, which may be this one. Raises its refusal."""
        if record.id == self._record.id:
            _, handler = self._held.handlers[operation.name]
            return await handler(args)
        return await self._workers.call_on(self._url_of(record), record.id, operation, args)

    def _url_of(self, record: WorkerRecord) -> str:
        """Return the URL at which this worker calls another. Raises NotReady without one."""
        url = record.rpc_url_tls if self._encrypted else record.rpc_url
        if not url:
            raise NotReady(f"Worker {record.id} has no port with TLS (worker_port_tls)")
        return url

    async def _status(self, of: OnInstances) -> JsonObject:
        stored = await self._stored(of)
        wanted = _instances(stored, of, "doesn't have instance with id")
        answers = await self._each(of, stored, api.HELD_STATUS, of)
        rows = {}
        for instance in wanted:
            worker = answers.places.get(instance, "")
            answer = answers.by_instance.get(str(instance))
            if answer is None:
                stopped = stored.instanceStates.get(instance) == pb.STOPPED
                reason = f"worker {worker} does not answer" if worker else reports.NOT_SCHEDULED
                answer = reports.not_running(of.component, "" if stopped else reason, 0, worker)
            rows[instance] = answer
        return reports.status_of_all(rows) if of.instance is None else rows[of.instance]

    async def _stats(self, of: OnInstances) -> JsonObject:
        stored = await self._stored(of)
        wanted = _instances(stored, of, "doesn't have instance with id")
        answers = await self._each(of, stored, api.HELD_STATS, of)
        rows = {}
        for instance in wanted:
            ended = (
                instance not in answers.places or stored.instanceStates.get(instance) == pb.STOPPED
            )
            # Without an answer it is not known, which is not zero.
            without = reports.NO_STATS if ended else reports.UNKNOWN_STATS
            rows[instance] = answers.by_instance.get(str(instance), without)
        return reports.stats_of_all(rows) if of.instance is None else rows[of.instance]

    async def _log(self, of: api.LogLines) -> dict[str, str]:
        answers = await self._each(of, await self._stored(of), api.HELD_LOG, of)
        if answers.silent:
            raise NotReady(f"Not all logs can be read: {answers.reasons}")
        return answers.by_instance

    async def _restart(self, of: OnInstances) -> None:
        """Restart instances. Raises NotReady that names those of which it is not known, or that run nowhere."""
        stored = await self._stored(of)
        wanted = [
            instance
            for instance in _instances(stored, of)
            if stored.instanceStates.get(instance) != pb.STOPPED
        ]
        answers = await self._each(of, stored, api.RESTART_HELD, of)
        left = [instance for instance in wanted if str(instance) not in answers.by_instance]
        if not left:
            return
        numbers = ", ".join(map(str, left))
        reason = answers.reasons or "no worker runs them yet"
        raise NotReady(f"Instances of {of.name} may not have restarted ({numbers}): {reason}")

    async def _trigger(self, of: api.TriggeredFunction) -> str:
        stored = await self._stored(of)
        try:
            data = base64.b64decode(of.data, validate=True)
        except binascii.Error as error:
            raise InvalidField("data", "must be base64") from error
        try:
            output = await trigger(self._client, stored, of.topic, data, self._trigger_s)
        except Refusal:
            raise
        except MagnetarError as error:
            raise NotReady(f"The function cannot be triggered now: {error}") from error
        return base64.b64encode(output).decode()

    async def _state(self, of: api.OnStateKey) -> JsonObject:
        answer: JsonObject = await self._of_any_instance(of, api.HELD_STATE)
        return answer

    async def _put_state(self, of: api.PutState) -> None:
        await self._of_any_instance(of, api.PUT_HELD_STATE)

    async def _of_any_instance(self, of: api.OnStateKey, operation: "Operation[Any, Any]") -> Any:
        """Return the answer of the worker of the first running instance. Raises NotReady without one."""
        stored = await self._stored(of)
        registered = await registered_workers(self._store)
        for instance in range(stored.functionDetails.parallelism):
            assignment = self._followed.assignments.assignments.get(
                instance_key(_name(of), instance)
            )
            record = registered.get(assignment.workerId) if assignment is not None else None
            if record is None or stored.instanceStates.get(instance) == pb.STOPPED:
                continue
            return await self._call(record, operation, of)
        raise NotReady(f"No instance of {of.name} runs, which would know its state")

    # --- workers ---------------------------------------------------------------------------------

    async def _cluster(self, _: NoArguments) -> list[JsonObject]:
        return [record.info for record in (await registered_workers(self._store)).values()]

    async def _leading(self, _: NoArguments) -> JsonObject:
        leader = await leading_worker(self._store)
        record = (await registered_workers(self._store)).get(leader or "")
        return {"leader": None if record is None else record.info, "ready": record is not None}

    async def _assignments(self, _: NoArguments) -> dict[str, list[str]]:
        await self._current()
        places: dict[str, list[str]] = {}
        for key, assignment in sorted(self._followed.assignments.assignments.items()):
            places.setdefault(assignment.workerId, []).append(key)
        return places

    async def _rebalance(self, _: NoArguments) -> None:
        await self._lead()
        if len(await registered_workers(self._store)) < 2:
            raise InvalidRequest(FEW_WORKERS)
        await self._leader.rebalance()

    async def _drain(self, of: api.OnWorker) -> None:
        await self._lead()
        registered = await registered_workers(self._store)
        if of.worker not in registered:
            raise NotFound(f"Worker {of.worker} is not registered")
        if len(registered) < 2:
            raise InvalidRequest(FEW_WORKERS)
        await drain_worker(self._store, of.worker)

    async def _drain_status(self, of: api.OnWorker) -> JsonObject:
        if of.worker not in await draining_workers(self._store):
            raise NotFound(f"Worker {of.worker} is not drained")
        await self._current()
        left = self._followed.assignments.of_worker(of.worker)
        return {"status": "RUNNING" if left else "SUCCESS", "lastError": ""}

    async def _worker_metrics(self, _: NoArguments) -> list[JsonObject]:
        """Return the process's own figures in the form of Pulsar's, whose names are those of a Java process."""
        return [{"metrics": {"rounds": self._leader.rounds}, "dimensions": {"metric": "worker"}}]

    async def _function_metrics(self, _: NoArguments) -> list[JsonObject]:
        rows: list[JsonObject] = []
        for record in (await registered_workers(self._store)).values():
            answer = await self._ask(record.id, record, api.HELD_METRICS, NoArguments())
            rows += answer[0] or []
        return rows


class _Answers(NamedTuple):
    """Answers of workers. ``by_instance``: by the number of the instance as text; ``places``: the worker of each
    assigned instance; ``silent``: why a worker gave no answer."""

    by_instance: dict[str, Any]
    places: dict[int, str]
    silent: dict[str, str]

    @property
    def reasons(self) -> str:
        """Return why answers are missing; empty when all workers have answered."""
        return "; ".join(reason for _, reason in sorted(self.silent.items()))


def _name(of: OnFunction) -> str:
    return str(FunctionName(of.namespace.tenant, of.namespace.below_tenant, of.name))


def _instances(
    stored: pb.FunctionMetaData, of: OnInstances, refusal: str = ""
) -> range | tuple[int, ...]:
    """Return the numbers of the instances that a call is about. Raises InvalidRequest with Apache's text."""
    count = stored.functionDetails.parallelism
    if of.instance is None:
        return range(count)
    if not 0 <= of.instance < count:
        text = f"{of.component.capitalize()} {of.name} {refusal} {of.instance}"
        raise InvalidRequest(text if refusal else NOT_PERMITTED)
    return (of.instance,)


def _details(of: api.StoredFunction | api.UpdatedFunction) -> pb.FunctionDetails:
    """Return the details of a call. Raises InvalidField."""
    try:
        details = parse(pb.FunctionDetails, base64.b64decode(of.details, validate=True))
    except (binascii.Error, FunctionRecordError) as error:
        raise InvalidField("details", "must be FunctionDetails in base64") from error
    if str(FunctionName.of(details)) != _name(of) or component_of(details) != of.component:
        raise InvalidField("details", f"must be those of the {of.component} {_name(of)}")
    if details.parallelism < 1:
        raise InvalidField("parallelism", "must be 1 or more")
    return details


def _location(package: str, file_name: str) -> pb.PackageLocationMetaData:
    return pb.PackageLocationMetaData(packagePath=package, originalFileName=file_name)
