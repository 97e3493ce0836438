"""What the numbers were. Asks nobody: it answers while brokers and the metadata store are away."""

from typing import Any

from admin_ui.params import Params, number
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from gateway.services.history.readings import DAY_MINUTES, HOUR_MINUTES, reading
from gateway.services.history.slots import COLUMNS, RATES


async def history(params: Params) -> dict[str, Any]:
    """In the shape of the contract. Raises InvalidField, InvalidNameError."""
    topic, subscription = params.get("topic", ""), params.get("subscription", "")
    if subscription and not topic:
        raise InvalidField("subscription", "needs topic, whose subscription it is")
    name = str(TopicName.parse(topic)) if topic else ""
    limit = HOUR_MINUTES if topic else DAY_MINUTES
    minutes = number(params, "minutes", HOUR_MINUTES, 1, limit)
    found = await reading(name, subscription, minutes)
    points = [
        [
            at,
            *(None if rate is None else rate / 1000 for rate in point[:RATES]),
            *point[RATES:],
        ]
        for at, point in found.points
    ]
    columns = ["at", *COLUMNS]
    return {"at": found.at, "step_ms": found.step_ms, "columns": columns, "points": points}
