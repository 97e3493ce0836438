"""REST of analyses and runs."""

import asyncio
from contextlib import suppress
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from rest_framework.serializers import Serializer

from admin_ui.analyses import selectors, shapes
from admin_ui.calls import (
    OF_CLUSTER,
    WINDOW,
    Body,
    Call,
    ConsoleView,
    InstanceView,
    Parameter,
    checked,
    in_thread,
    query,
)
from admin_ui.lists.record_order import RecordOrder, by_keys
from admin_ui.params import choice, window
from engine.auth.resource_names import Resource, SubscriptionName, TenantName
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from engine.auth.viewer import Viewer
from engine.base.errors import (
    Forbidden,
    InvalidNameError,
    MagnetarError,
    NotFound,
    UnusableField,
)
from engine.base.names import NamespaceName, TopicName
from gateway.clusters.registry import clusters_for
from gateway.http.auth.access import Declared, authorize_needs, viewer_of
from gateway.http.bodies import json_answer
from gateway.http.security import is_of_another_site
from gateway.http.view import CHANGING_METHODS
from gateway.jobs import estimates, installation, services, targets
from gateway.jobs.models import JobRun, RunState, Schedule
from gateway.jobs.rights import Target, TargetKind, need_of, needs_of_run, rights_to

RUN_PATH = (Parameter("run_id", place="path"),)
ORDER = RecordOrder(
    {name: name for name in ("created_at", "title", "target", "state", "finished_at")}
    | {"owner": "created_by"},
    "-created_at",
    nullable=("finished_at",),
)


def launched(view: Any) -> Target:
    """Return what the analysis reads that a call launches: by its body, or for a call that is not made by its place.

    Raises InvalidField, UnusableField, NotFound.
    """
    place = getattr(view, "asked_place", None)
    if place is not None:
        return target_at(place)
    known: Target | None = getattr(view, "launched", None)
    if known is None:
        body = checked(view.body, view.request)
        name = view.kwargs.get("analysis")
        if name is None:
            name = body["analysis"]
        elif name not in {analysis.name for analysis in services.analyses()}:
            raise NotFound(f"there is no analysis {name!r}")
        parameters = services.check_parameters(analysis=name, parameters=body["parameters"])
        known = view.launched = services.declared(analysis=name).target_of(parameters)
        try:
            need_of(known)
        except InvalidNameError as error:
            raise UnusableField(f"parameters.{known[0]}", str(error)) from error
    return known


def target_at(place: Resource) -> Target:
    """Return a place as what an analysis reads; of a subscription its topic."""
    match place:
        case SubscriptionName():
            return TargetKind.TOPIC, place.topic.full
        case TopicName():
            return TargetKind.TOPIC, place.full
        case NamespaceName():
            return TargetKind.NAMESPACE, str(place)
        case TenantName():
            return TargetKind.TENANT, place.name
    return TargetKind.CLUSTER, ""


class JobsView(ConsoleView):
    """Base of the views of runs. A run reads messages from bookies, without a broker's check, so that its right is that
    to the messages. A run that the caller has no right to is answered as one that does not exist (A23)."""

    read_rights: ClassVar[Declared] = AUTHENTICATED
    for_operators = CHANGING_METHODS
    for_viewer = False

    async def run(self, run_id: str) -> JobRun:
        """Return a run that the caller may see. Raises NotFound."""
        run: JobRun = await in_thread(services.get)(run_id=run_id)
        if not await self.may_see(run):
            raise services.no_run(run_id)
        return run

    async def may_see(self, run: JobRun | Schedule) -> bool:
        """Return whether the caller has the right to what a run or schedule reads. Raises the errors of the judge."""
        try:
            for name, needs in needs_of_run(run).items():
                cluster = clusters_for(self.request).named(name)
                await authorize_needs(needs, self.identity, cluster)
        except (Forbidden, NotFound, InvalidNameError):
            return False
        return True


class AnalysesView(JobsView):
    calls = {"get": Call("listAnalyses", shapes.AnalysisShape(many=True))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer the analyses that can be launched, and let Spark start, which takes longer than filling in a form.

        It is started for callers who may see some topic: others can launch none.
        """
        if not is_of_another_site(request) and await self._sees_anything():
            clusters_for(request).part(services.Warming).request()
        return json_answer(selectors.analyses())

    async def _sees_anything(self) -> bool:
        # The catalogue is answered while the metadata store is not.
        with suppress(MagnetarError, TimeoutError):
            return await viewer_of(self.identity, self.cluster) != Viewer()
        return False


class SparkView(ConsoleView):
    """The installation of Spark, which the first analysis needs: a program of the machine, so that only a superuser
    begins it."""

    read_rights, write_rights = AUTHENTICATED, SUPERUSER
    for_viewer = False
    calls = {
        "get": Call("getSpark", shapes.SparkShape),
        "post": Call("installSpark", shapes.SparkShape, success=202, errors=(412,)),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer whether Spark is installed, the progress of its installation, and what analyses lack."""
        return json_answer(await asyncio.to_thread(installation.state))

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Begin the installation. It goes on where one was interrupted; one that runs is not begun again."""
        return json_answer(await asyncio.to_thread(installation.install), status=202)


class LaunchingView(JobsView, InstanceView):
    """Base of the views of what is launched on a cluster."""

    body: type[Serializer[object]]
    """The shape of the body with the ``parameters``, and with the ``analysis`` unless the path names it."""

    @property
    def stored_cluster(self) -> str:
        """The cluster as runs store it."""
        return targets.stored_name(self.cluster, clusters_for(self.request))

    async def completed(self, analysis: str, parameters: Body) -> Body:
        """Return the parameters with defaults and full names, and what they also read, as ``services.create`` takes
        them. Raises UnusableField, AccessRefusedError."""
        parameters = services.check_parameters(analysis=analysis, parameters=parameters)
        known = services.declared(analysis=analysis)
        kind, _ = known.target_of(parameters)
        parameters = await self.work(lambda engine: targets.completed(engine, kind, parameters))
        parameters, also_reads = await targets.also_read(
            known, parameters, clusters_for(self.request), self.cluster, self.identity
        )
        return {"analysis": analysis, "parameters": parameters, "also_reads": also_reads}


class EstimateView(LaunchingView):
    """Amounts that a run would read, for those who may launch it."""

    body = shapes.EstimateRequest
    reading_methods = frozenset({"POST"})
    read_rights = rights_to(launched)
    calls = {
        "post": Call(
            "estimateRun",
            shapes.EstimateShape,
            (Parameter("analysis", "its name", place="path"), OF_CLUSTER),
            body=shapes.EstimateRequest,
            errors=(400, 404, 422),
        )
    }

    async def post(self, request: HttpRequest, analysis: str) -> HttpResponse:
        """Answer the amounts that a run would read, from the metadata of ledgers, and its time by earlier runs."""
        given = checked(shapes.EstimateRequest, request)["parameters"]
        launch = await self.completed(analysis, given)
        kind, target = services.declared(analysis=analysis).target_of(launch["parameters"])
        last = int(launch["parameters"].get("last_entries", 0))
        amount = await self.work(lambda engine: estimates.estimate(engine, kind, target, last))
        earlier = await in_thread(estimates.from_earlier_runs)(
            analysis=analysis, cluster=self.stored_cluster, target=target, amount=amount
        )
        return json_answer({**amount, **earlier})


class RunsView(LaunchingView):
    """The runs of a cluster."""

    body = shapes.RunRequest
    write_rights = rights_to(launched)
    calls = {
        "get": Call(
            "listRuns",
            shapes.RunPage,
            (
                OF_CLUSTER,
                Parameter("target", "exact"),
                Parameter("analysis", "exact"),
                Parameter("state", enum=tuple(RunState.values)),
                Parameter("pinned", "true: only those that are pinned", enum=("true", "false")),
                ORDER.parameter,
                *WINDOW,
            ),
            errors=(400, 404),
        ),
        "post": Call(
            "startRun",
            shapes.RunShape,
            (OF_CLUSTER,),
            body=shapes.RunRequest,
            success=201,
            errors=(400, 404, 412, 422),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer the runs that the caller may see, without their results."""
        params = query(request)
        (offset, limit), sort = window(params), ORDER.sort_of(params)
        runs = services.history(
            cluster=self.stored_cluster,
            target=params.get("target", ""),
            analysis=params.get("analysis", ""),
            state=choice(params, "state", RunState.values),
            pinned=params.get("pinned") == "true",
        )
        if await self.is_superuser():
            page = await in_thread(ORDER.window)(runs, sort, offset, limit)
            total = await runs.acount()
        else:
            shown = await self._shown(runs, sort)
            page, total = await by_keys(runs, shown[offset : offset + limit]), len(shown)
        rows = [selectors.row(run, with_result=False) for run in page]
        return json_answer({"total": total, "offset": offset, "limit": limit, "rows": rows})

    async def _shown(self, runs: QuerySet[JobRun], sort: str) -> list[str]:
        """Return the ids of the runs that the caller may see, in an order; those of one target are judged once. At most
        ``runs_max`` are stored."""
        verdicts: dict[tuple[str, str, str], bool] = {}
        shown = []
        columns = ("pk", "kind", "target", "also_reads")
        stored = await in_thread(ORDER.window)(runs.values_list(*columns), sort)
        for run_id, kind, target, also_reads in stored:
            asked = (kind, target, str(also_reads))
            if asked not in verdicts:
                reads = {"kind": kind, "target": target, "also_reads": also_reads}
                verdicts[asked] = await self.may_see(JobRun(cluster=self.stored_cluster, **reads))
            if verdicts[asked]:
                shown.append(run_id)
        return shown

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Queue a run of an analysis."""
        body = checked(shapes.RunRequest, request)
        await asyncio.to_thread(installation.check_installed)
        launch = await self.completed(body["analysis"], body["parameters"])
        rerun_of = body.get("rerun_of", "")
        if rerun_of and (await self.run(rerun_of)).analysis != body["analysis"]:
            raise UnusableField("rerun_of", f"{rerun_of} is a run of another analysis")
        run = await in_thread(services.create)(
            **launch, user=self.principal, cluster=self.stored_cluster, rerun_of=rerun_of
        )
        return json_answer(selectors.row(run), status=201)


class RunView(JobsView):
    calls = {"get": Call("getRun", shapes.RunShape, RUN_PATH, errors=(404,))}

    async def get(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Answer a run with its progress and, when it is over, its result."""
        return json_answer(selectors.row(await self.run(run_id)))


class CancelRunView(JobsView):
    write_rights = AUTHENTICATED
    calls = {"post": Call("cancelRun", shapes.RunShape, RUN_PATH, errors=(404,))}

    async def post(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Cancel a run; a run that is over stays as it is."""
        await self.run(run_id)
        return json_answer(selectors.row(await in_thread(services.cancel)(run_id=run_id)))


class PinView(JobsView):
    """The pin of a run to what it reads, which keeps it."""

    write_rights = AUTHENTICATED
    calls = {
        "put": Call("pinRun", shapes.RunShape, RUN_PATH, errors=(404,)),
        "delete": Call("unpinRun", shapes.RunShape, RUN_PATH, errors=(404,)),
    }

    async def put(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Pin a run."""
        return await self._pin(run_id, True)

    async def delete(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Unpin a run."""
        return await self._pin(run_id, False)

    async def _pin(self, run_id: str, pinned: bool) -> HttpResponse:
        await self.run(run_id)
        run = await in_thread(services.pin)(run_id=run_id, pinned=pinned)
        return json_answer(selectors.row(run))
