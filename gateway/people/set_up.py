"""The first person (A28), a superuser: created with a code that the gateways write while there is no person.

The code is made of a stored number and the gateways' secret key, so all gateways of one database write the same one,
and the database alone does not show it. No log has it. All functions use the database, and run in a thread.
"""

import base64
import hashlib
import hmac
import logging
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import get_random_string

from engine.auth.private_files import replace_private
from engine.base.errors import Conflict, Forbidden
from gateway.people.accounts import add_user
from gateway.people.models import Person, SetUp
from gateway.people.signing_in import TooManyAttemptsError, begin_session, check_password_rules
from gateway.services.clock import now_ms

log = logging.getLogger("gateway")

FILE_NAME = "set-up-code"
CODE_BYTES = 10
GROUP = 4
FAILURES_MAX = 10
WINDOW_MS = 600_000
"""Time within which ``FAILURES_MAX`` wrong codes are looked at."""
CLOSED = "There are people already; one of their superusers can add others"


def is_needed() -> bool:
    """Return whether people sign in by passwords and there is no person."""
    identified: bool = settings.IDENTITY.general.authentication_enabled
    return (
        identified and settings.SIGN_IN.password_sign_in and not get_user_model().objects.exists()
    )


def code() -> str:
    """Return the code of the set-up, which is the same for all gateways of this database."""
    row, _ = SetUp.objects.get_or_create(pk=1, defaults={"nonce": get_random_string(32)})
    return _code_of(row)


def _code_of(row: SetUp) -> str:
    key = settings.SECRET_KEY.encode()
    digest = hmac.digest(key, f"set-up {row.nonce}".encode(), hashlib.sha256)
    text = base64.b32encode(digest[:CODE_BYTES]).decode()
    return "-".join(text[at : at + GROUP] for at in range(0, len(text), GROUP))


def announce(data_dir: Path) -> str:
    """Write the code to a file for the owner alone, which the log names, and return it; empty when none is needed."""
    path = data_dir / FILE_NAME
    if not is_needed():
        path.unlink(missing_ok=True)
        return ""
    text = code()
    replace_private(path, f"{text}\n".encode())
    log.warning("no person exists yet: create the first one at /set-up with the code in %s", path)
    return text


def complete(request: HttpRequest, given: str, name: str, password: str) -> Any:
    """Create the first person, a superuser, and begin its session; return the user.

    Raises Conflict when there is a person, Forbidden for a wrong code, TooManyAttemptsError, InvalidField,
    Unprocessable for a weak password.
    """
    if not is_needed():
        raise Conflict(CLOSED)
    if not _is_right(given):
        raise Forbidden(
            f"The code is wrong; it is in the file {FILE_NAME} of a gateway's data folder"
        )
    with transaction.atomic():
        # Of several calls at once, the first to delete the row makes the person.
        deleted, _ = SetUp.objects.filter(pk=1).delete()
        if not deleted or get_user_model().objects.exists():
            raise Conflict(CLOSED)
        check_password_rules(password, get_user_model()(username=name), "password")
        user = add_user(name, password, is_superuser=True)
        Person.objects.create(user=user)
        begin_session(request, user)
    (settings.ENVIRONMENT.data_dir / FILE_NAME).unlink(missing_ok=True)
    return user


@transaction.atomic
def _is_right(given: str) -> bool:
    """Return whether a code is right; count it otherwise. Raises TooManyAttemptsError."""
    code()
    row = SetUp.objects.select_for_update().get(pk=1)
    now = now_ms()
    if now - row.failing_since_ms >= WINDOW_MS:
        row.failures, row.failing_since_ms = 0, now
    if row.failures >= FAILURES_MAX:
        raise TooManyAttemptsError((row.failing_since_ms + WINDOW_MS - now) // 1000 + 1)
    known = "".join(given.split()).upper().replace("-", "")
    if hmac.compare_digest(known.encode(), _code_of(row).replace("-", "").encode()):
        return True
    row.failures += 1
    row.save()
    return False
