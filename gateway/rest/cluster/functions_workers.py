"""``/admin/v2/worker`` and ``/admin/v2/worker-stats``: the workers of functions, sources and sinks."""

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.base.errors import InvalidField, NotReady
from engine.functions.connectors.catalogue import definitions
from gateway.http.bodies import json_answer, json_list, no_content
from gateway.rest.base import AdminResource

NO_LEADER = "Leader cannot be determined"


class _WorkersResource(AdminResource):
    # Without a worker each call is answered 409, as by Apache's broker with functions switched off.
    quiet = True
    read_rights = write_rights = SUPERUSER


class WorkersResource(_WorkersResource):
    """The workers, sorted by id."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await json_list(await self.work(lambda engine: engine.functions.cluster()))


class WorkerLeaderResource(_WorkersResource):
    """The worker that places instances."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        leader = await self.work(lambda engine: engine.functions.leader())
        if leader is None:
            raise NotReady(NO_LEADER)
        return json_answer(leader)


class WorkerLeaderReadyResource(_WorkersResource):
    """The readiness of the leader."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        if not await self.work(lambda engine: engine.functions.leader_ready()):
            raise NotReady("Leader not yet ready. Please retry again")
        return json_answer(True)


class WorkerAssignmentsResource(_WorkersResource):
    """The instances of each worker."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(lambda engine: engine.functions.assignments()))


class WorkerConnectorsResource(_WorkersResource):
    """The built-in connectors."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(lambda engine: engine.functions.leader_ready())
        return await json_list(definitions())


class RebalanceResource(_WorkersResource):
    """An even distribution of the instances."""

    async def put(self, request: HttpRequest) -> HttpResponse:
        await self.work(lambda engine: engine.functions.rebalance())
        return no_content()


class WorkerDrainResource(_WorkersResource):
    """The drain of the worker that the query names."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        worker = _worker_of(request)
        return json_answer(await self.work(lambda engine: engine.functions.drain_status(worker)))

    async def put(self, request: HttpRequest) -> HttpResponse:
        worker = _worker_of(request)
        await self.work(lambda engine: engine.functions.drain(worker))
        return no_content()


class WorkerMetricsResource(_WorkersResource):
    """The figures of a worker."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(lambda engine: engine.functions.metrics()))


class FunctionMetricsResource(_WorkersResource):
    """The metrics of all instances."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return await json_list(await self.work(lambda engine: engine.functions.function_metrics()))


def _worker_of(request: HttpRequest) -> str:
    """Return the worker that the query names. Raises InvalidField: a gateway is none itself."""
    worker = request.GET.get("workerId", "")
    if not worker:
        raise InvalidField("workerId", "must name a worker of /admin/v2/worker/cluster")
    return worker


ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v2/worker/cluster", WorkersResource),
    ("/admin/v2/worker/cluster/leader", WorkerLeaderResource),
    ("/admin/v2/worker/cluster/leader/ready", WorkerLeaderReadyResource),
    ("/admin/v2/worker/assignments", WorkerAssignmentsResource),
    ("/admin/v2/worker/connectors", WorkerConnectorsResource),
    ("/admin/v2/worker/rebalance", RebalanceResource),
    ("/admin/v2/worker/drain", WorkerDrainResource),
    ("/admin/v2/worker/leader/drain", WorkerDrainResource),
    ("/admin/v2/worker-stats/metrics", WorkerMetricsResource),
    ("/admin/v2/worker-stats/functionsmetrics", FunctionMetricsResource),
]
