"""A run, live; and Spark made ready as soon as somebody looks at the console."""

import logging
from typing import Any

from channels.db import database_sync_to_async

from admin_ui.analyses import selectors
from admin_ui.feeds import Channel
from admin_ui.params import Params
from engine.base.errors import InvalidField
from gateway.jobs import services

log = logging.getLogger(__name__)


def _group(params: Params) -> str:
    """The channel-layer group to which whoever changes the run sends ``run.changed``. Raises InvalidField."""
    run_id = params["id"]
    if not run_id.isalnum() or not run_id.isascii() or len(run_id) > 64:
        raise InvalidField("params", "id must be a run's id")
    return f"run.{run_id}"


async def _run(params: Params) -> dict[str, Any]:
    body: dict[str, Any] = await database_sync_to_async(selectors.run)(params["id"])
    return body


RUN_CHANNEL = Channel("run", _run, required=("id",), group=_group)


def warm_spark() -> None:
    """Somebody looks at the console: have Spark ready before the first click. A failure shows at that click."""
    try:
        services.warm()
    except OSError as error:
        log.warning("could not ask for Spark: %s", error)
