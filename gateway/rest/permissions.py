"""The one class that enforces what views declare in ``permission`` and ``write_permission``.

Authentication is off by default, and then the gateway is bound to loopback and everything is open. With it on, reading
asks for a signed-in user and changing for a superuser; ``public`` stays open.
"""

from typing import Any

from django.conf import settings
from rest_framework.permissions import BasePermission

PUBLIC = "public"
LEVELS = (PUBLIC, "cluster", "tenant", "namespace", "topic", "console")
READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Declared(BasePermission):
    """Refuses views that declare nothing: forgetting must not open a door."""

    def has_permission(self, request: Any, view: Any) -> bool:
        """Whether this user may use this view with this method."""
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
