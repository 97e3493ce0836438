"""Enforcement of the levels that views declare in ``permission`` and ``write_permission``.

Authentication is off by default; then the gateway is bound to loopback and every view may be used. When it is on,
reading requires a signed-in user and changing a superuser. The level ``public`` never requires a user.
"""

from typing import Any

from django.conf import settings
from rest_framework.permissions import BasePermission

PUBLIC = "public"
LEVELS = (PUBLIC, "cluster", "tenant", "namespace", "topic", "console")
READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Declared(BasePermission):
    """The permission by the view's declared level. A view without one is refused, so that none is open by mistake."""

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return whether the request's user may use the view with its method."""
        attribute = "permission" if request.method in READING else "write_permission"
        level = getattr(view, attribute, None)
        if level not in LEVELS:
            return False
        if not settings.AUTHENTICATION_ENABLED or level == PUBLIC:
            return True
        user = request.user
        if request.method in READING or view.permission == view.write_permission == "console":
            return bool(user.is_authenticated)
        return bool(user.is_authenticated and user.is_superuser)
