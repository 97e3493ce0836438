"""The operations on functions, sources and sinks, as one worker performs them."""

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import (
    AlreadyExists,
    Conflict,
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
from engine.functions.worker.answering import instance_reports as reports
from engine.functions.worker.answering.instance_calls import InstanceCalls, instances_of, name_of
from engine.functions.worker.answering.leader_routing import LeaderRouting
from engine.functions.worker.answering.triggering import trigger
from engine.functions.worker.apaches.apache_members import ApacheWorker
from engine.functions.worker.apaches.apache_worker_client import ApacheWorkerClient
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.known_assignments import split_key
from engine.functions.worker.placing.leading import FunctionLeader
from engine.functions.worker.running.function_tokens import (
    role_after_update,
    role_for,
    role_given,
    with_role,
)
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.rpc.operation import Handlers, bind
from engine.rpc.server import CALLER

OUT_OF_DATE = "{} request ignored because it is out of date. Please try again."
"""Apache's text."""
INSTANCE_STATE = {True: pb.RUNNING, False: pb.STOPPED}


class FunctionOperations:
    """The operations of one worker.

    ``superusers``: roles that no function may have, besides the one of processes; None where authentication is off.
    ``worker``: the id of this worker.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        entropy: Entropy,
        client: PulsarClient,
        worker: str,
        followed: FollowedTopics,
        leader: FunctionLeader,
        routing: LeaderRouting,
        calls: InstanceCalls,
        apaches: ApacheWorkerClient,
        *,
        superusers: frozenset[str] | None,
        trigger_s: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._client = client
        self._worker = worker
        self._followed = followed
        self._leader = leader
        self._routing = routing
        self._calls = calls
        self._apaches = apaches
        self._superusers = superusers
        self._trigger_s = trigger_s

    @property
    def handlers(self) -> Handlers:
        return dict(
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
                bind(api.STORE_METADATA, self._store_metadata),
            ]
        )

    # --- what is known ---------------------------------------------------------------------------

    async def _current(self) -> Mapping[str, pb.FunctionMetaData]:
        """Return the functions, with every change that was answered before. Raises NotReady."""
        await self._routing.all_read()
        return self._followed.functions.functions

    async def _stored(self, of: OnFunction) -> pb.FunctionMetaData:
        """Return a function. Raises NotFound with Apache's text."""
        metadata = (await self._current()).get(name_of(of))
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

    async def _create(self, of: api.StoredFunction) -> None:
        leader = await self._routing.apaches_leader()
        if name_of(of) in await self._current():
            raise AlreadyExists(f"{of.component.capitalize()} {of.name} already exists")
        metadata = pb.FunctionMetaData(
            functionDetails=_details(of),
            packageLocation=_location(of.package, of.file_name),
            createTime=self._clock.wall_ms(),
        )
        await self._give_role(metadata, of.namespace.tenant)
        await self._write(leader, pb.ServiceRequest.UPDATE, metadata, None)

    async def _give_role(self, metadata: pb.FunctionMetaData, tenant: str) -> None:
        """Store the role that the function has, where roles are known."""
        if self._superusers is None:
            return
        caller = CALLER.get().principal or ""
        admins: list[str] = []
        with suppress(NoNodeError):
            value, _ = await self._store.get(paths.tenant(tenant))
            admins = list(decode_json(value, paths.tenant(tenant)).get("adminRoles") or ())
        with_role(metadata, role_for(tenant, caller, admins, self._superusers))

    async def _update(self, of: api.UpdatedFunction) -> None:
        leader = await self._routing.apaches_leader()
        stored = await self._stored(of)
        changed = pb.FunctionMetaData()
        changed.CopyFrom(stored)
        changed.functionDetails.CopyFrom(_details(of))
        if of.package:
            changed.packageLocation.CopyFrom(_location(of.package, of.file_name))
        if self._superusers is not None:
            role = role_given(stored)
            now = role_after_update(role, CALLER.get().principal or "", self._superusers)
            if now != role:
                with_role(changed, now)
        changed.version = of.expected_version + 1
        for instance in list(changed.instanceStates):
            if instance >= changed.functionDetails.parallelism:
                del changed.instanceStates[instance]
        await self._write(leader, pb.ServiceRequest.UPDATE, changed, of.expected_version)

    async def _delete(self, of: OnFunction) -> None:
        leader = await self._routing.apaches_leader()
        stored = await self._stored(of)
        deleted = pb.FunctionMetaData()
        deleted.CopyFrom(stored)
        deleted.version += 1
        await self._write(leader, pb.ServiceRequest.DELETE, deleted, stored.version)

    async def _start(self, of: OnInstances) -> None:
        await self._set_states(of, running=True)

    async def _stop(self, of: OnInstances) -> None:
        await self._set_states(of, running=False)

    async def _set_states(self, of: OnInstances, *, running: bool) -> None:
        leader = await self._routing.apaches_leader()
        stored = await self._stored(of)
        wanted, state = instances_of(stored, of), INSTANCE_STATE[running]
        if all(stored.instanceStates.get(instance, pb.RUNNING) == state for instance in wanted):
            return
        changed = pb.FunctionMetaData()
        changed.CopyFrom(stored)
        for instance in range(stored.functionDetails.parallelism):
            # Apache's workers change no instance that has no state where another one has.
            kept = stored.instanceStates.get(instance, pb.RUNNING)
            changed.instanceStates[instance] = state if instance in wanted else kept
        changed.version += 1
        await self._write(leader, pb.ServiceRequest.UPDATE, changed, stored.version)

    async def _store_metadata(self, of: api.StoredMetadata) -> None:
        """Store a change that one of Apache's workers has made, which does not lead."""
        leader = await self._routing.apaches_leader()
        metadata = _metadata_of(of)
        stored = (await self._current()).get(name_of(of))
        if stored is None and of.delete:
            raise NotFound(f"Function {of.name} doesn't exist")
        if stored is not None and metadata.version <= stored.version:
            raise InvalidRequest(OUT_OF_DATE.format("Delete" if of.delete else "Update"))
        kind = pb.ServiceRequest.DELETE if of.delete else pb.ServiceRequest.UPDATE
        await self._write(leader, kind, metadata, None if stored is None else stored.version)

    async def _write(
        self,
        leader: ApacheWorker | None,
        kind: "pb.ServiceRequest.ServiceRequestType",
        metadata: pb.FunctionMetaData,
        expected: int | None,
    ) -> None:
        """Store a change as the leader, or by a call of Apache's ``leader``. Raises Conflict unless the stored version
        is ``expected``, NotReady."""
        if leader is not None:
            name = str(FunctionName.of(metadata.functionDetails))
            stored = self._followed.functions.functions.get(name)
            if (None if stored is None else stored.version) != expected:
                raise Conflict(f"{name} was changed meanwhile; try again")
            await self._apaches.write(leader, metadata, delete=kind == pb.ServiceRequest.DELETE)
            return
        request = pb.ServiceRequest(
            serviceRequestType=kind,
            requestId=self._entropy.hex(16),
            functionMetaData=metadata,
            workerId=self._worker,
        )
        await self._leader.store(request, expected)

    # --- instances, wherever they run ------------------------------------------------------------

    async def _status(self, of: OnInstances) -> JsonObject:
        stored = await self._stored(of)
        wanted = instances_of(stored, of, "doesn't have instance with id")
        answers = await self._calls.each(of, stored, api.HELD_STATUS, of)
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
        wanted = instances_of(stored, of, "doesn't have instance with id")
        answers = await self._calls.each(of, stored, api.HELD_STATS, of)
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
        answers = await self._calls.each(of, await self._stored(of), api.HELD_LOG, of)
        if answers.silent:
            raise NotReady(f"Not all logs can be read: {answers.reasons}")
        return answers.by_instance

    async def _restart(self, of: OnInstances) -> None:
        """Restart instances. Raises NotReady that names those of which it is not known, or that run nowhere."""
        stored = await self._stored(of)
        if of.instance is not None and of.instance >= stored.functionDetails.parallelism:
            raise InvalidRequest(f"{name_of(of)}/{of.instance} doesn't exist")  # Apache's text
        wanted = [
            instance
            for instance in instances_of(stored, of)
            if stored.instanceStates.get(instance) != pb.STOPPED
        ]
        answers = await self._calls.each(of, stored, api.RESTART_HELD, of)
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
        stored = await self._stored(of)
        answer: JsonObject = await self._calls.of_any(of, stored, api.HELD_STATE)
        return answer

    async def _put_state(self, of: api.PutState) -> None:
        await self._calls.of_any(of, await self._stored(of), api.PUT_HELD_STATE)


def _metadata_of(of: api.StoredMetadata) -> pb.FunctionMetaData:
    """Return the metadata of a call. Raises InvalidRequest with Apache's text, InvalidField."""
    try:
        metadata = parse(pb.FunctionMetaData, base64.b64decode(of.metadata, validate=True))
    except (binascii.Error, FunctionRecordError) as error:
        raise InvalidRequest("Corrupt Function MetaData") from error
    if str(FunctionName.of(metadata.functionDetails)) != name_of(of):
        raise InvalidField("functionMetaData", f"must be that of {name_of(of)}")
    if metadata.functionDetails.parallelism < 1:
        raise InvalidField("parallelism", "must be 1 or more")
    return metadata


def _details(of: api.StoredFunction | api.UpdatedFunction) -> pb.FunctionDetails:
    """Return the details of a call. Raises InvalidField."""
    try:
        details = parse(pb.FunctionDetails, base64.b64decode(of.details, validate=True))
    except (binascii.Error, FunctionRecordError) as error:
        raise InvalidField("details", "must be FunctionDetails in base64") from error
    if str(FunctionName.of(details)) != name_of(of) or component_of(details) != of.component:
        raise InvalidField("details", f"must be those of the {of.component} {name_of(of)}")
    if details.parallelism < 1:
        raise InvalidField("parallelism", "must be 1 or more")
    return details


def _location(package: str, file_name: str) -> pb.PackageLocationMetaData:
    return pb.PackageLocationMetaData(packagePath=package, originalFileName=file_name)
