"""Which parts of the instance answer, and as of when everything else that is shown is."""

from admin_ui.health.api import HealthView
from admin_ui.health.selectors import beat
from admin_ui.resource import Resource

HEALTH = Resource(routes={"health": HealthView}, beat=beat)
