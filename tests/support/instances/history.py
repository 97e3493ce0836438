"""The points of the charts of an instance's console."""

from typing import Any

from tests.support.instance import Instance
from tests.support.waiting import until_blocking

PATH = "/api/v1/clusters/standalone/history?minutes=60"


def history(instance: Instance, count: int) -> list[Any]:
    """Return the points whose figures are known, as soon as there are ``count``, also of a gateway that starts."""
    points: list[Any] = []

    def are_there() -> bool:
        nonlocal points
        try:
            status, body = instance.rest("GET", PATH)
        except OSError:  # The gateway is starting.
            return False
        points = [point for point in body["points"] if None not in point] if status == 200 else []
        return len(points) >= count

    until_blocking(are_there, lambda: f"{points}\n{instance.logs()}", poll_s=0.2)
    return points
