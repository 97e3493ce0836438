"""Rights: who may do what at a place and why, what a role may do, and which operations the caller may make."""

from admin_ui.access.api import AccessView, MayView, RolesView, RoleView
from admin_ui.resource import Resource

ACCESS = Resource(
    routes={
        "access": AccessView,
        "roles": RolesView,
        "roles/<seg:role>": RoleView,
        "may": MayView,
    }
)
