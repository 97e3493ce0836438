"""REST of copies. A copy reads and writes messages for the role that starts it, so that its rights are to consume from
the source and to produce to each target. They are checked when it starts, and by brokers while it works."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    TOPIC_PATH,
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    checked,
    in_thread,
    query,
)
from admin_ui.copies import services as previews
from admin_ui.copies import shapes
from admin_ui.lists.record_order import RecordOrder, by_keys, with_values
from admin_ui.params import window
from admin_ui.rights import CONSUME
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName
from engine.auth.rights import AUTHENTICATED
from engine.base.errors import Forbidden, InvalidNameError, NotFound
from engine.base.names import TopicName
from engine.metadata import account
from gateway.clusters.registry import clusters_for
from gateway.copies import services
from gateway.copies.models import CopyJob, CopyMode, CopyState
from gateway.http.auth.access import Need, authorize_needs
from gateway.http.auth.payloads import check_payloads
from gateway.http.bodies import json_answer
from gateway.jobs.targets import stored_name
from gateway.services.source import Ability

COPY_PATH = (Parameter("copy_id", place="path"),)
SORTS = ("created_at", "source", "target", "mode", "state", "finished_at", "created_by")
ORDER = RecordOrder(
    {name: name for name in SORTS},
    "-created_at",
    nullable=("finished_at",),
)
SCAN_TIMEOUT_S = 30.0


class _CopiesView(ClusterView):
    """Base of the views. A copy that the caller has no right to is answered as one that does not exist."""

    read_rights = AUTHENTICATED

    async def job(self, copy_id: str) -> CopyJob:
        """Return a copy that the caller may see. Raises NotFound."""
        job: CopyJob = await in_thread(services.get)(job_id=copy_id)
        if job.cluster != self.stored_cluster or not await self.may_see(job):
            raise services.no_copy(copy_id)
        return job

    @property
    def stored_cluster(self) -> str:
        """The cluster as copies store it."""
        return stored_name(self.cluster, clusters_for(self.request))

    async def may_see(self, job: CopyJob) -> bool:
        """Return whether the caller may consume from a copy's source."""
        try:
            need: Need = (Action.CONSUME, TopicName.parse(job.source))
            await authorize_needs([need], self.identity, self.cluster)
        except (Forbidden, NotFound, InvalidNameError):
            return False
        return True

    async def check_rights(
        self, consumed: Sequence[str], produced: Sequence[str], subscription: tuple[str, str] | None
    ) -> None:
        """Check the caller's rights to read and write these topics, and to acknowledge for a subscription. Raises
        AccessRefusedError, PayloadsHiddenError: a copy could be read where the source cannot."""
        needs: list[Need] = [(Action.CONSUME, TopicName.parse(topic)) for topic in consumed]
        needs += [(Action.PRODUCE, TopicName.parse(topic)) for topic in produced]
        if subscription is not None:
            topic, name = subscription
            needs.append((Action.CONSUME, SubscriptionName(TopicName.parse(topic), name)))
        await authorize_needs(needs, self.identity, self.cluster)
        topics = [TopicName.parse(topic) for topic in consumed]
        await check_payloads(clusters_for(self.request), self.identity, self.level, topics)

    async def check_job(self, job: CopyJob) -> None:
        consumed, produced = services.needed_topics(job)
        moved = (job.source, job.subscription) if job.subscription else None
        await self.check_rights(consumed, produced, moved)

    async def answer(self, job: CopyJob, status: int = 200) -> HttpResponse:
        (row,) = await in_thread(_rows)([job])
        return json_answer(row, status=status)

    def record(self, what: str, job: CopyJob) -> None:
        """Record the change for the audit log."""
        recorded = account.current()
        if recorded is not None:
            now = {"id": job.id, "mode": job.mode, "source": job.source, "target": job.target}
            recorded.add(what, None, now | {"state": job.state, "rate": job.rate})


def _rows(jobs: list[CopyJob]) -> list[previews.Json]:
    undone = CopyJob.objects.filter(undoes__in=[job.id for job in jobs if not job.undoes])
    undone_by = dict(undone.order_by("created_at", "id").values_list("undoes", "id"))
    return [previews.row(job, undone_by.get(job.id)) for job in jobs]


class TopicCopiesView(_CopiesView, PreviewedView):
    """Copy or move messages of a topic. A request is first a ``preview``, then starts exactly that by its ``token``."""

    write_rights = CONSUME
    for_operators = frozenset({"POST"})
    work_timeout_s = SCAN_TIMEOUT_S
    calls = {
        "post": Call(
            "copyMessages",
            (shapes.CopyPreview, shapes.CopyRow),
            TOPIC_PATH,
            body=shapes.CopyBody,
            errors=(400, 403, 404, 405, 409, 412, 422),
        )
    }

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, user = self.name(where), self.principal
        self.cluster.require(Ability.COPIES)
        body = checked(shapes.CopyBody, request)
        moved = (str(name), body["subscription"]) if body.get("subscription") else None
        if body["preview"]:
            target = [body["target"]] if body.get("target") else []
            await self.check_rights([str(name)], target, moved)
            seen = await self.work(lambda engine: previews.preview(engine, name, user, body))
            produced = [row["topic"] for row in seen["targets"] if row["problem"] is None]
            await self.check_rights([str(name)], produced, moved)
            return json_answer(seen)
        columns = previews.confirmed(self.cluster.name, name, user, body["token"])
        job = CopyJob(**columns)
        await self.check_job(job)
        made = await in_thread(services.create)(
            **columns, created_by=user, cluster=self.stored_cluster
        )
        self.record("copy started", made)
        return await self.answer(made)


class CopiesView(_CopiesView):
    """The copies of a cluster that the caller may see."""

    calls = {
        "get": Call(
            "listCopies",
            shapes.CopiesAnswer,
            (
                Parameter("source", "exact, full name of the topic"),
                Parameter("state", enum=tuple(CopyState.values)),
                Parameter("mode", enum=tuple(CopyMode.values)),
                ORDER.parameter,
                *WINDOW,
            ),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        (offset, limit), sort = window(params), ORDER.sort_of(params)
        jobs = CopyJob.objects.filter(cluster=self.stored_cluster)
        jobs = with_values(jobs, params, {"state": CopyState.values, "mode": CopyMode.values})
        if params.get("source"):
            jobs = jobs.filter(source=params["source"])
        verdicts: dict[str, bool] = {}
        shown: list[str] = []
        for copy_id, source in await in_thread(ORDER.window)(
            jobs.values_list("pk", "source"), sort
        ):
            if source not in verdicts:
                verdicts[source] = await self.may_see(CopyJob(source=source))
            if verdicts[source]:
                shown.append(copy_id)
        page = await by_keys(jobs, shown[offset : offset + limit])
        rows = await in_thread(_rows)(page)
        return json_answer({"total": len(shown), "offset": offset, "limit": limit, "rows": rows})


class CopyView(_CopiesView):
    calls = {"get": Call("getCopy", shapes.CopyRow, COPY_PATH, errors=(404,))}

    async def get(self, request: HttpRequest, copy_id: str) -> HttpResponse:
        """Answer a copy with its progress."""
        return await self.answer(await self.job(copy_id))


class StopCopyView(_CopiesView):
    write_rights = AUTHENTICATED
    for_operators = frozenset({"POST"})
    calls = {"post": Call("stopCopy", shapes.CopyRow, COPY_PATH, errors=(403, 404))}

    async def post(self, request: HttpRequest, copy_id: str) -> HttpResponse:
        """Stop a copy after what it is sending; one that is over stays as it is. The role that started it may, and one
        that may start it."""
        known = await self.job(copy_id)
        if known.created_by != self.principal:
            await self.check_job(known)
        job = await in_thread(services.stop)(job_id=copy_id)
        self.record("copy stopped", job)
        return await self.answer(job)


class ResumeCopyView(_CopiesView):
    write_rights = AUTHENTICATED
    for_operators = frozenset({"POST"})
    calls = {
        "post": Call(
            "resumeCopy",
            shapes.CopyRow,
            COPY_PATH,
            body=shapes.ResumeBody,
            errors=(400, 403, 404, 409),
        )
    }

    async def post(self, request: HttpRequest, copy_id: str) -> HttpResponse:
        """Continue a stopped or failed copy where it came to."""
        body = checked(shapes.ResumeBody, request)
        await self.check_job(await self.job(copy_id))
        job = await in_thread(services.resume)(job_id=copy_id, rate=body.get("rate"))
        self.record("copy resumed", job)
        return await self.answer(job)


class UndoCopyView(_CopiesView, PreviewedView):
    """Take back a copy: what no subscription of its targets has acknowledged yet is skipped there, message by message.
    A request is first a ``preview``, then starts that by its ``token``."""

    write_rights = AUTHENTICATED
    for_operators = frozenset({"POST"})
    work_timeout_s = SCAN_TIMEOUT_S
    calls = {
        "post": Call(
            "undoCopy",
            (shapes.UndoCopyPreview, shapes.CopyRow),
            COPY_PATH,
            body=shapes.UndoCopyBody,
            errors=(400, 403, 404, 409, 422),
        )
    }

    async def post(self, request: HttpRequest, copy_id: str) -> HttpResponse:
        job, user = await self.job(copy_id), self.principal
        body = checked(shapes.UndoCopyBody, request)
        if body["preview"]:
            previews.check_undoable(job)
            await self.check_rights(services.needed_topics(job)[1], [], None)
            return json_answer(
                await self.work(lambda engine: previews.undo_preview(engine, job, user))
            )
        columns = previews.undo_columns(self.cluster.name, job, user, body["token"])
        await self.check_job(CopyJob(**columns))
        made = await in_thread(services.create)(
            **columns, created_by=user, cluster=self.stored_cluster
        )
        self.record("copy undone", made)
        return await self.answer(made)
