"""The channel of a run."""

from typing import Any

from channels.db import database_sync_to_async

from admin_ui.analyses import selectors
from admin_ui.feeds import Channel
from admin_ui.params import Params
from engine.auth.rights import SUPERUSER
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster


def _group(params: Params) -> str:
    """Return the channel-layer group in which ``run.changed`` is sent at each change of the run. Raises
    InvalidField."""
    run_id = params["id"]
    if not run_id.isalnum() or not run_id.isascii() or len(run_id) > 64:
        raise InvalidField("params", "id must be a run's id")
    return f"run.{run_id}"


async def _run(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    viewer.require_everything("Runs")
    body: dict[str, Any] = await database_sync_to_async(selectors.run)(params["id"])
    return body


RUN_CHANNEL = Channel("run", _run, SUPERUSER, required=("id",), group=_group)
