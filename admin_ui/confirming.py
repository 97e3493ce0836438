"""What a preview gives to be confirmed by: signed, bound to who saw it, what it is about and what it said; good for a
while."""

from typing import Any

from django.core import signing

from engine.admin.api import PREVIEW_AGE_MAX_S
from engine.base.errors import Conflict, InvalidField

TOKEN_BYTES_MAX = 768 << 10
"""Of a request's body of at most 1 MiB."""
Json = dict[str, Any]


def sign(kind: str, said: Json) -> str | None:
    """The token; None when what was said makes it too long to be sent back."""
    token = signing.dumps(said, salt=kind, compress=True)
    return token if len(token) <= TOKEN_BYTES_MAX else None


def read(kind: str, token: str, about: Json) -> Json:
    """What was signed. ``about``: what it must say, with the ``user`` among it. Raises Conflict for a preview that is
    too old or of another user, InvalidField for what is of no such preview."""
    try:
        said: Json = signing.loads(token, salt=kind, max_age=PREVIEW_AGE_MAX_S)
        others = [name for name, value in about.items() if said[name] != value]
    except signing.SignatureExpired as error:
        raise Conflict(
            f"The preview is older than {PREVIEW_AGE_MAX_S // 60} minutes: look again"
        ) from error
    except (signing.BadSignature, TypeError, KeyError) as error:
        raise InvalidField("token", "must be as the preview answered it") from error
    if others == ["user"]:
        raise Conflict("Somebody else made this preview: look for yourself")
    if others:
        raise InvalidField("token", "is of a preview of something else")
    return said
