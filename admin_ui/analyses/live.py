"""The channel of a run."""

from typing import Any

from channels.db import database_sync_to_async

from admin_ui.analyses import selectors
from admin_ui.feeds import Channel
from admin_ui.params import Params
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.jobs import services
from gateway.jobs.models import JobRun
from gateway.jobs.rights import Target, TargetKind, rights_to


def _group(params: Params) -> str:
    """Return the channel-layer group in which ``run.changed`` is sent at each change of the run. Raises
    InvalidField."""
    run_id = params["id"]
    if not run_id.isalnum() or not run_id.isascii() or len(run_id) > 64:
        raise InvalidField("params", "id must be a run's id")
    return f"run.{run_id}"


def _target(params: Params) -> Target:
    """Return what the run reads, as the client states it; ``_run`` checks that. Raises InvalidField."""
    kind = params.get("kind", TargetKind.CLUSTER)
    if kind not in set(TargetKind):
        raise InvalidField("params", f"kind must be one of {', '.join(TargetKind)}")
    return TargetKind(kind), params.get("target", "")


async def _run(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    """Return a run of the target that was judged for the socket. Raises NotFound for another one, and for one that
    reads more: the feed is that of all sockets with these parameters, whose right is to this target alone (A23)."""
    run: JobRun = await database_sync_to_async(services.get)(run_id=params["id"])
    body = selectors.row(run)
    kind, target = _target(params)
    # Who may see the cluster may see all runs of it. What else a run reads is not judged for the socket.
    is_of_target = kind is TargetKind.CLUSTER or (run.kind, run.target) == (kind, target)
    judged = is_of_target and not run.also_reads
    if not judged or body["cluster"] != cluster.name:
        raise services.no_run(params["id"])
    return body


RUN_CHANNEL = Channel(
    "run",
    _run,
    rights_to(_target),
    required=("id",),
    optional=("kind", "target", "cluster"),
    group=_group,
)
