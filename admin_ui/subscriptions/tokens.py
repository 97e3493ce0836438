"""What a confirmed preview carries: signed, bound to who saw it, what it is about and what it said; good for a while.

A token is used once: its ``id`` is that of the change, and the brokers remember it with the cursor.
"""

import secrets
from dataclasses import asdict, dataclass, field
from typing import Any

from django.core import signing

from engine.admin.api import PREVIEW_AGE_MAX_S, CursorChange
from engine.base.errors import Conflict, InvalidField

SALT = "cursor-change"
TOKEN_BYTES_MAX = 768 << 10
"""Of a request's body of at most 1 MiB."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """``parts``: by partition (-1: the topic has none) what ``MOVE_CURSOR`` takes of the preview."""

    topic: str
    subscription: str
    change: CursorChange
    user: str
    parts: dict[str, Json]
    amounts: dict[str, int] = field(default_factory=dict)
    undoes: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))


def sign(confirmed: Confirmed) -> str | None:
    """The token; None when the states of the cursor make it too long to be sent back."""
    token = signing.dumps(asdict(confirmed), salt=SALT, compress=True)
    return token if len(token) <= TOKEN_BYTES_MAX else None


def read(token: str, topic: str, subscription: str, change: CursorChange, user: str) -> Confirmed:
    """Raises Conflict for a preview that is too old or of another user, InvalidField for what is of no such change."""
    try:
        given = Confirmed(**signing.loads(token, salt=SALT, max_age=PREVIEW_AGE_MAX_S))
    except signing.SignatureExpired as error:
        raise Conflict(
            f"The preview is older than {PREVIEW_AGE_MAX_S // 60} minutes: look again"
        ) from error
    except (signing.BadSignature, TypeError) as error:
        raise InvalidField("token", "must be as the preview answered it") from error
    if (given.topic, given.subscription, given.change) != (topic, subscription, change):
        raise InvalidField("token", "is of a preview of something else")
    if given.user != user:
        raise Conflict("Somebody else made this preview: look for yourself")
    return given
