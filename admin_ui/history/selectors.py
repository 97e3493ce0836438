"""Past numbers. They are read from the history alone, so that they are answered while brokers and the metadata store
are unavailable."""

from typing import Any

from admin_ui.params import Params, number
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from gateway.clusters.cluster import Cluster
from gateway.services.history.readings import HOUR_MINUTES, WEEK_MINUTES
from gateway.services.history.slots import (
    BOOKIE_COLUMNS,
    BROKER_COLUMNS,
    COLUMNS,
    RATES,
    bookie_name,
    broker_name,
)

SUBJECTS = ("topic", "broker", "bookie")


async def history(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    """Return the points in the shape of the console API.

    Totals are recorded over all tenants together. Raises Forbidden for a viewer who does not see everything and names
    no topic, InvalidField, InvalidNameError.
    """
    given = [name for name in SUBJECTS if params.get(name)]
    if len(given) > 1:
        raise InvalidField(given[1], f"is not given together with {given[0]}")
    subscription = params.get("subscription", "")
    if subscription and given != ["topic"]:
        raise InvalidField("subscription", "needs topic, whose subscription it is")
    if given != ["topic"]:
        viewer.require_everything("Recorded totals")
    name, columns = _subject(given[0], params[given[0]]) if given else ("", COLUMNS)
    minutes = number(params, "minutes", HOUR_MINUTES, 1, WEEK_MINUTES)
    ago = number(params, "ago", 0, 0, WEEK_MINUTES - minutes)
    past = await cluster.history.reading(name, subscription, minutes, ago)
    shown = [index for index, column in enumerate(columns) if column]
    points = [[at, *(_value(point, index) for index in shown)] for at, point in past.points]
    return {
        "at": past.at,
        "step_ms": past.step_ms,
        "columns": ["at", *(columns[index] for index in shown)],
        "points": points,
    }


def _subject(kind: str, given: str) -> tuple[str, tuple[str, ...]]:
    """Return the name by which a subject is recorded, and its columns."""
    if kind == "broker":
        return broker_name(given), BROKER_COLUMNS
    if kind == "bookie":
        return bookie_name(given), BOOKIE_COLUMNS
    return str(TopicName.parse(given)), COLUMNS


def _value(point: tuple[int | None, ...], index: int) -> float | None:
    """Return a value of a point: means are recorded in thousandths."""
    value = point[index]
    return value / 1000 if value is not None and index < RATES else value
