"""Past numbers. They are read from the history alone, so that they are answered while brokers and the metadata store
are unavailable."""

from typing import Any

from admin_ui.params import Params, number
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from gateway.clusters.cluster import Cluster
from gateway.services.history.readings import DAY_MINUTES, HOUR_MINUTES
from gateway.services.history.slots import COLUMNS, RATES


async def history(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    """Return the points in the shape of the console API.

    Totals are recorded over all tenants together. Raises Forbidden for a viewer who does not see everything and names
    no topic, InvalidField, InvalidNameError.
    """
    topic, subscription = params.get("topic", ""), params.get("subscription", "")
    if subscription and not topic:
        raise InvalidField("subscription", "needs topic, whose subscription it is")
    if not topic:
        viewer.require_everything("Recorded totals")
    name = str(TopicName.parse(topic)) if topic else ""
    limit = HOUR_MINUTES if topic else DAY_MINUTES
    minutes = number(params, "minutes", HOUR_MINUTES, 1, limit)
    past = await cluster.history.reading(name, subscription, minutes)
    points = [
        [
            at,
            *(None if rate is None else rate / 1000 for rate in point[:RATES]),
            *point[RATES:],
        ]
        for at, point in past.points
    ]
    columns = ["at", *COLUMNS]
    return {"at": past.at, "step_ms": past.step_ms, "columns": columns, "points": points}
