"""Levels: how much of what the judge allows a caller may use.

A person acts in a role at a level, and a token may have one. A level never gives a right: it closes calls that the
judge would allow (A37). It is closed by default: a call that changes something needs the level full unless its view
states less.
"""

from typing import Any

from django.http import HttpRequest

from engine.base.errors import Forbidden
from gateway.http.auth.access import reads, rights_of
from gateway.sign_in import AccessLevel


class LevelRefusedError(Forbidden):
    """The caller's level does not include a call."""

    def __init__(self, level: AccessLevel, needed: AccessLevel) -> None:
        super().__init__(refusal(level, needed))


def level_of(request: HttpRequest) -> AccessLevel:
    """Return the level of a request's caller, which ``identify`` has set as ``request.level``; without it full."""
    return AccessLevel(getattr(request, "level", AccessLevel.FULL))


def level_of_socket(scope: dict[str, Any]) -> AccessLevel:
    """Return the level of the client of a socket, which ``identify_socket`` has set as ``scope["level"]``."""
    return AccessLevel(scope.get("level", AccessLevel.FULL))


def needed_level(view: type[Any], method: str) -> AccessLevel:
    """Return the level that a method of a view needs."""
    is_open = not any(right.judged for right in rights_of(view, method))
    if is_open or reads(view, method) or method in view.for_readers:
        return AccessLevel.READ
    return AccessLevel.OPERATE if method in view.for_operators else AccessLevel.FULL


def check_level(view: type[Any], method: str, level: AccessLevel) -> None:
    """Raise LevelRefusedError unless a caller at ``level`` may use a method of a view."""
    needed = needed_level(view, method)
    if not level.includes(needed):
        raise LevelRefusedError(level, needed)


def check_socket_level(kind: str, level: AccessLevel) -> None:
    """Raise LevelRefusedError unless a client at ``level`` may open an endpoint. A reader changes nothing; a producer
    publishes, a consumer makes a subscription and moves it."""
    needed = AccessLevel.READ if kind == "reader" else AccessLevel.FULL
    if not level.includes(needed):
        raise LevelRefusedError(level, needed)


def refusal(level: AccessLevel, needed: AccessLevel) -> str:
    """Return why a call is refused that needs more than the caller's level."""
    return (
        f"The acting role is used at level {level}, and this needs level {needed};"
        " a superuser can give it, on the page of people"
    )
