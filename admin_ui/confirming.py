"""Tokens that confirm previews. A token is signed and valid for a limited time; it holds the cluster, the user, the
subject and the content of the preview."""

from typing import Any

from django.core import signing

from engine.admin.api.cursors import PREVIEW_AGE_MAX_S
from engine.base.errors import Conflict, InvalidField

TOKEN_BYTES_MAX = 768 << 10
"""Largest token; the body of a request is at most 1 MiB."""
Json = dict[str, Any]


def sign(cluster: str, kind: str, content: Json) -> str | None:
    """Return the token of this content; None when it is too long to be sent back."""
    token = signing.dumps({**content, "cluster": cluster}, salt=kind, compress=True)
    return token if len(token) <= TOKEN_BYTES_MAX else None


def read(cluster: str, kind: str, token: str, about: Json) -> Json:
    """Return the content that was signed.

    ``about``: members that the content must have, ``user`` among them. Raises Conflict for a preview that is too old or
    of another user, InvalidField for a token that is of no such preview.
    """
    try:
        content: Json = signing.loads(token, salt=kind, max_age=PREVIEW_AGE_MAX_S)
        bound = {**about, "cluster": cluster}
        differing = [name for name, value in bound.items() if content[name] != value]
    except signing.SignatureExpired as error:
        raise Conflict(
            f"The preview is older than {PREVIEW_AGE_MAX_S // 60} minutes: request a new one"
        ) from error
    except (signing.BadSignature, TypeError, KeyError) as error:
        raise InvalidField("token", "must be as the preview answered it") from error
    if differing == ["user"]:
        raise Conflict("Another user made this preview: request your own")
    if differing:
        raise InvalidField("token", "is of a preview of another change")
    del content["cluster"]
    return content
