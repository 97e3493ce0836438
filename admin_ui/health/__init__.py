"""The parts of the instance that answer, and the time that all other shown values are of."""

from admin_ui.health.api import HealthView
from admin_ui.health.selectors import beat
from admin_ui.resource import Resource

HEALTH = Resource(routes={"health": HealthView}, beat=beat)
