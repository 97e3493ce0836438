"""Calls about the instances of a function, wherever they run: here, on other workers of ours, or on Apache's."""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from engine.base.errors import InvalidRequest, NotReady, Refusal
from engine.functions import worker_operations as api
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionName
from engine.functions.ports import OnFunction, OnInstances
from engine.functions.registered_workers import WorkerRecord, registered_workers
from engine.functions.worker.answering import instance_reports as reports
from engine.functions.worker.answering.held_operations import HeldOperations
from engine.functions.worker.apaches.apache_link import ApacheLink
from engine.functions.worker.apaches.apache_members import ApacheWorker
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.known_assignments import instance_key
from engine.metadata.store import MetadataStore
from engine.rpc.client import RpcClient
from engine.rpc.operation import A, Operation, R

NOT_PERMITTED = "Operation not permitted"
"""Apache's text."""


class Answers(NamedTuple):
    """Answers of workers. ``by_instance``: by the number of the instance as text; ``places``: the worker of each
    assigned instance; ``silent``: why a worker gave no answer."""

    by_instance: dict[str, Any]
    places: dict[int, str]
    silent: dict[str, str]

    @property
    def reasons(self) -> str:
        """Return why answers are missing; empty when all workers have answered."""
        return "; ".join(reason for _, reason in sorted(self.silent.items()))


class InstanceCalls:
    """The calls of one worker. ``encrypted``: it calls others in TLS."""

    def __init__(
        self,
        store: MetadataStore,
        record: WorkerRecord,
        followed: FollowedTopics,
        held: HeldOperations,
        workers: RpcClient,
        apaches: ApacheLink,
        *,
        encrypted: bool,
    ) -> None:
        self._store = store
        self._record = record
        self._followed = followed
        self._held = held
        self._workers = workers
        self._apaches = apaches
        self._encrypted = encrypted

    def _place(self, of: OnFunction, instance: int) -> str:
        """Return the worker of an instance; empty for one that is not assigned."""
        key = instance_key(name_of(of), instance)
        assignment = self._followed.assignments.assignments.get(key)
        return assignment.workerId if assignment is not None else ""

    async def each(
        self, of: OnInstances, stored: pb.FunctionMetaData, operation: Operation[A, R], args: A
    ) -> Answers:
        """Return the answers of the workers about the instances, all asked at once."""
        places = {
            instance: place
            for instance in instances_of(stored, of)
            if (place := self._place(of, instance))
        }
        registered = await registered_workers(self._store)
        workers = sorted(set(places.values()))
        apaches: dict[str, ApacheWorker] = {}
        if any(worker not in registered for worker in workers):
            apaches = dict((await self._apaches.members.last_known()).workers)
        held = {w: [i for i, place in places.items() if place == w] for w in workers}
        replies = await asyncio.gather(
            *(
                self._ask_apaches(apaches[worker], of, held[worker], operation)
                if worker in apaches
                else self.ask(worker, registered.get(worker), operation, args)
                for worker in workers
            )
        )
        silent: dict[str, str] = {}
        by_instance: dict[str, Any] = {}
        for worker, (reply, reason) in zip(workers, replies, strict=True):
            by_instance |= reply
            if reason:
                silent[worker] = reason
        return Answers(by_instance, places, silent)

    async def ask(
        self, worker: str, record: WorkerRecord | None, operation: Operation[A, R], args: A
    ) -> tuple[Any, str]:
        """Return the answer of a worker of ours, and why there is none; empty for an answer."""
        if record is None:
            return {}, f"worker {worker} is not registered"
        try:
            return await self._call(record, operation, args) or {}, ""
        except Refusal as error:
            if record.id == self._record.id:
                raise  # this worker's refusal is an answer
            return {}, f"worker {worker} does not answer: {error.reason}"

    async def _ask_apaches(
        self,
        worker: ApacheWorker,
        of: OnInstances,
        instances: Iterable[int],
        operation: Operation[Any, Any],
    ) -> tuple[dict[str, Any], str]:
        """Return the answers of one of Apache's workers about its instances, and why some are missing."""
        name = FunctionName(of.namespace.tenant, of.namespace.below_tenant, of.name)
        client, answers, reason = self._apaches.client, dict[str, Any](), ""
        for instance in instances:
            place = (worker, of.component, name, instance)
            try:
                if operation is api.HELD_STATUS:
                    answers[str(instance)] = await client.status(*place)
                elif operation is api.HELD_STATS and of.component == "function":
                    answers[str(instance)] = await client.stats(*place)
                elif operation is api.RESTART_HELD:
                    await client.restart(*place)
                    answers[str(instance)] = True
                else:
                    return {}, f"worker {worker.id} is one of Apache's, which does not say it"
            except Refusal as error:
                reason = f"worker {worker.id}: {error.reason}"
                if operation is api.HELD_STATUS:
                    status = reports.not_running(of.component, error.reason, 0, worker.id)
                    answers[str(instance)] = status
        return answers, reason

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

    async def of_any(
        self, of: OnFunction, stored: pb.FunctionMetaData, operation: Operation[Any, Any]
    ) -> Any:
        """Return the answer of the worker of the first running instance. Raises NotReady without one."""
        registered = await registered_workers(self._store)
        for instance in range(stored.functionDetails.parallelism):
            record = registered.get(self._place(of, instance))
            if record is None or stored.instanceStates.get(instance) == pb.STOPPED:
                continue
            return await self._call(record, operation, of)
        raise NotReady(f"No instance of {of.name} runs here, which would know its state")


def name_of(of: OnFunction) -> str:
    """Return ``tenant/namespace/name``."""
    return str(FunctionName(of.namespace.tenant, of.namespace.below_tenant, of.name))


def instances_of(
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
