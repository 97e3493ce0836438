"""Grants: the roles that may do something in a tenant, on a namespace, a topic or a subscription, and their changes."""

from admin_ui.grants.api import GrantsView
from admin_ui.resource import Resource

GRANTS = Resource(routes={"grants": GrantsView})
