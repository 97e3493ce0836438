"""The operations on the workers of the cluster, as one worker performs them."""

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.base.errors import InvalidRequest, NotFound
from engine.functions import worker_operations as api
from engine.functions.registered_workers import (
    drain_worker,
    draining_workers,
    leading_worker,
    registered_workers,
)
from engine.functions.worker.answering.instance_calls import InstanceCalls
from engine.functions.worker.answering.leader_routing import LeaderRouting
from engine.functions.worker.apaches.apache_link import ApacheLink
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.leading import FunctionLeader
from engine.metadata.store import MetadataStore
from engine.rpc.operation import Handlers, bind

FEW_WORKERS = "Too few workers (need at least 2)"
"""Apache's text."""


class ClusterOperations:
    """The operations of one worker."""

    def __init__(
        self,
        store: MetadataStore,
        followed: FollowedTopics,
        leader: FunctionLeader,
        routing: LeaderRouting,
        calls: InstanceCalls,
        apaches: ApacheLink,
    ) -> None:
        self._store = store
        self._followed = followed
        self._leader = leader
        self._routing = routing
        self._calls = calls
        self._apaches = apaches

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(api.WORKER_CLUSTER, self._cluster),
                bind(api.WORKER_LEADER, self._leading),
                bind(api.WORKER_ASSIGNMENTS, self._assignments),
                bind(api.REBALANCE_WORKERS, self._rebalance),
                bind(api.DRAIN_WORKER, self._drain),
                bind(api.WORKER_DRAIN, self._drain_status),
                bind(api.WORKER_METRICS, self._worker_metrics),
                bind(api.FUNCTION_METRICS, self._function_metrics),
                bind(api.FUNCTION_FIGURES, self._function_figures),
            ]
        )

    async def _cluster(self, _: NoArguments) -> list[JsonObject]:
        apaches = (await self._apaches.members.last_known()).workers
        ours = await registered_workers(self._store)
        infos = {worker.id: worker.info for worker in apaches.values()}
        infos |= {worker.id: worker.info for worker in ours.values()}
        return [info for _, info in sorted(infos.items())]

    async def _leading(self, _: NoArguments) -> JsonObject:
        name = await leading_worker(self._store)
        record = (await registered_workers(self._store)).get(name or "")
        if record is not None:
            return {"leader": record.info, "ready": True}
        leader = (await self._apaches.members.last_known()).leader
        if leader is None:
            return {"leader": None, "ready": False}
        return {"leader": leader.info, "ready": await self._apaches.client.is_ready(leader)}

    async def _assignments(self, _: NoArguments) -> dict[str, list[str]]:
        await self._routing.all_read()
        places: dict[str, list[str]] = {}
        for key, assignment in sorted(self._followed.assignments.assignments.items()):
            places.setdefault(assignment.workerId, []).append(key)
        return places

    async def _rebalance(self, _: NoArguments) -> None:
        leader = await self._routing.apaches_leader()
        if leader is not None:
            await self._apaches.client.rebalance(leader)
            return
        apaches = (await self._apaches.members.now()).workers
        if len(await registered_workers(self._store)) + len(apaches) < 2:
            raise InvalidRequest(FEW_WORKERS)
        await self._leader.rebalance()

    async def _drain(self, of: api.OnWorker) -> None:
        leader = await self._routing.apaches_leader()
        if leader is not None:
            await self._apaches.client.drain(leader, of.worker)
            return
        registered = await registered_workers(self._store)
        apaches = (await self._apaches.members.now()).workers
        if of.worker in apaches:
            # Its start would not end the drain, as that of ours does.
            raise InvalidRequest(f"Worker {of.worker} is one of Apache's: stop it instead")
        if of.worker not in registered:
            raise NotFound(f"Worker {of.worker} is not registered")
        if len(registered) + len(apaches) < 2:
            raise InvalidRequest(FEW_WORKERS)
        await drain_worker(self._store, of.worker)

    async def _drain_status(self, of: api.OnWorker) -> JsonObject:
        if of.worker not in await draining_workers(self._store):
            leader = (await self._apaches.members.last_known()).leader
            if leader is not None:
                return await self._apaches.client.drain_status(leader, of.worker)
            raise NotFound(f"Worker {of.worker} is not drained")
        await self._routing.all_read()
        left = self._followed.assignments.of_worker(of.worker)
        return {"status": "RUNNING" if left else "SUCCESS", "lastError": ""}

    async def _worker_metrics(self, _: NoArguments) -> list[JsonObject]:
        """Return the process's own figures in the form of Pulsar's, whose names are those of a Java process."""
        return [{"metrics": {"rounds": self._leader.rounds}, "dimensions": {"metric": "worker"}}]

    async def _function_metrics(self, of: NoArguments) -> list[JsonObject]:
        rows: list[JsonObject] = (await self._function_figures(of))["metrics"]
        return rows

    async def _function_figures(self, _: NoArguments) -> JsonObject:
        rows: list[JsonObject] = []
        silent: dict[str, str] = {}
        for record in (await registered_workers(self._store)).values():
            operation = api.HELD_METRICS
            answer, reason = await self._calls.ask(record.id, record, operation, NoArguments())
            rows += answer or []
            if reason:
                silent[record.id] = reason
        for worker in (await self._apaches.members.last_known()).workers:
            silent.setdefault(worker, "it is a worker of Apache, whose figures are not read")
        return {"metrics": rows, "silent": silent}
