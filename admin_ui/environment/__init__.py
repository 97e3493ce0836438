"""The environment of the console: cluster, addresses, version and user."""

from admin_ui.environment.api import EnvironmentView
from admin_ui.resource import Resource

ENVIRONMENT = Resource(routes={"environment": EnvironmentView})
