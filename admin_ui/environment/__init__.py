"""Where the console is, and who uses it."""

from admin_ui.environment.api import EnvironmentView
from admin_ui.resource import Resource

ENVIRONMENT = Resource(routes={"environment": EnvironmentView})
