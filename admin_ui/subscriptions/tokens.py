"""The content of a confirmed preview of a change of a cursor.

A token is used once: its ``id`` is that of the change, which brokers store with the cursor.
"""

import secrets
from dataclasses import asdict, dataclass, field

from admin_ui import confirming
from admin_ui.confirming import Json
from engine.admin.api.cursors import CursorChange
from engine.base.errors import InvalidField

KIND = "cursor-change"


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A confirmed preview. ``parts``: the arguments of ``MOVE_CURSOR`` by partition (-1: the topic has none)."""

    topic: str
    subscription: str
    change: CursorChange
    user: str
    parts: dict[str, Json]
    undoes: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))


def sign(cluster: str, confirmed: Confirmed) -> str | None:
    """Return the token; None when the states of the cursor make it too long to be sent back."""
    return confirming.sign(cluster, KIND, asdict(confirmed))


def read(
    cluster: str, token: str, topic: str, subscription: str, change: CursorChange, user: str
) -> Confirmed:
    """Return the confirmed preview. Raises Conflict for a preview that is too old or of another user, InvalidField for
    a token that is of no such change."""
    about = {"topic": topic, "subscription": subscription, "change": change, "user": user}
    try:
        return Confirmed(**confirming.read(cluster, KIND, token, about))
    except TypeError as error:
        raise InvalidField("token", "must be as the preview answered it") from error
