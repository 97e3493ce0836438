"""Previews of copies and of their undoing, and what they confirm."""

from typing import Any

from django.conf import settings

from admin_ui import confirming
from engine.base.errors import Conflict, InvalidField, Unprocessable
from engine.base.names import TopicName, check_subscription
from gateway.copies import services
from gateway.copies.models import CopyJob, CopyMode, CopyState
from gateway.jobs.models import new_run_id
from gateway.services.clock import now_ms
from gateway.services.copying.conditions import Conditions
from gateway.services.copying.copier import CopiedCounts, Task
from gateway.services.copying.plan import CopyPlan, planned_sources, written_since
from gateway.services.copying.preview import preview_copy, preview_undo
from gateway.services.engine_link import Engine

Json = dict[str, Any]
COPY, UNDO = "message-copy", "message-copy-undo"


async def preview(engine: Engine, source: TopicName, user: str, body: Json) -> Json:
    """Return what a copy would do, with the token that starts it. Raises InvalidField, NotFound, Unsupported."""
    given = {
        name: value for name, value in (body.get("conditions") or {}).items() if value or value == 0
    }
    conditions = Conditions.of(given)
    target = TopicName.parse(body["target"]).partitioned if body.get("target") else None
    subscription = body.get("subscription") or ""
    if subscription:
        check_subscription(subscription)
        if target is not None and target == source.partitioned:
            raise InvalidField("target", "messages cannot be moved to their own topic")
    plan = CopyPlan(await planned_sources(engine, source, conditions))
    seen = await preview_copy(engine, source, target, subscription, conditions, plan)
    content = {
        "id": new_run_id(),
        "source": str(source),
        "user": user,
        "mode": CopyMode.MOVE if subscription else CopyMode.COPY,
        "target": str(target) if target is not None else "",
        "subscription": subscription,
        "conditions": given,
        "rate": body["rate"],
        "plan": plan.as_json(),
    }
    token = confirming.sign(engine.cluster, COPY, content)
    if token is None:
        raise Unprocessable("The topic has too many ledgers for one copy: choose a partition")
    return seen | {"token": token, "at": now_ms(), "mode": content["mode"]}


def confirmed(cluster: str, source: TopicName, user: str, token: str) -> Json:
    """Return the columns of the previewed copy. Raises Conflict, InvalidField, Unprocessable without a target."""
    about = {"source": str(source), "user": user}
    content = confirming.read(cluster, COPY, token, about)
    del content["user"]
    if not content["plan"]["targets"]:
        raise Unprocessable("No message of the preview has a topic to go to")
    return content


async def undo_preview(engine: Engine, job: CopyJob, user: str) -> Json:
    """Return what taking back a copy would do, with the token that starts it. Raises Conflict for one that cannot be
    taken back."""
    plan = await _undo_plan(engine, job)
    task = services.task_of(job)
    seen = await preview_undo(
        engine,
        Task(task.source, "", "", task.rate, task.producer, Conditions(), plan),
    )
    content = {"id": new_run_id(), "copy": job.id, "user": user, "plan": plan.as_json()}
    token = confirming.sign(engine.cluster, UNDO, content | {"attempt": job.attempt})
    if token is None:
        raise Unprocessable("The targets have too many ledgers")
    return seen | {"token": token, "at": now_ms()}


async def _undo_plan(engine: Engine, job: CopyJob) -> CopyPlan:
    check_undoable(job)
    targets = CopyPlan.of(job.plan).targets.values()
    behind = [item for target in targets for item in sorted(target.behind.items())]
    return CopyPlan(await written_since(engine, behind))


def check_undoable(job: CopyJob) -> None:
    """Raise Conflict unless a copy can be taken back now."""
    if job.mode == CopyMode.UNDO:
        raise Conflict("An undo is not undone: start the copy again")
    if job.mode == CopyMode.MOVE:
        raise Conflict(
            "Moved messages were acknowledged where they were: taken back, no subscription would"
            " have them. Move them back from the target instead"
        )
    if job.state in services.UNFINISHED:
        raise Conflict("Stop the copy first")


def undo_columns(cluster: str, job: CopyJob, user: str, token: str) -> Json:
    """Return the columns of the previewed undo. Raises InvalidField, Conflict also for a copy that was resumed since:
    the preview lacks what it copied then."""
    check_undoable(job)
    content = confirming.read(cluster, UNDO, token, {"copy": job.id, "user": user})
    if content.get("attempt") != job.attempt:
        raise Conflict("The copy was resumed since the preview: request a new one")
    return {
        "id": content["id"],
        "mode": CopyMode.UNDO,
        "source": job.source,
        "target": job.target,
        "rate": job.rate,
        "plan": content["plan"],
        "undoes": job.id,
    }


def row(job: CopyJob, undone_by: str | None) -> Json:
    """Return a copy as JSON."""
    targets = job.plan["targets"]
    topics = services.needed_topics(job)[0] if job.mode == CopyMode.UNDO else sorted(targets)
    return {
        "id": job.id,
        "cluster": job.cluster or settings.CLUSTERS[0].name,
        "mode": job.mode,
        "topic": job.source,
        "target": job.target or None,
        "targets": topics,
        "subscription": job.subscription or None,
        "conditions": job.conditions,
        "rate": job.rate,
        "state": job.state,
        "stage": job.stage if job.state == CopyState.QUEUED else "",
        "problem": job.problem or None,
        "error": job.error or None,
        "entries": CopyPlan.of(job.plan).entries,
        "counts": CopiedCounts(**job.counts).as_json(),  # rows of before lack some
        "at_least_once": not all(target["deduplicated"] for target in targets.values()),
        "attempt": job.attempt,
        "created_at": job.created_at,
        "created_by": job.created_by,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "stopping": job.stop_requested and job.state == CopyState.RUNNING,
        "undoes": job.undoes or None,
        "undone_by": undone_by,
    }
