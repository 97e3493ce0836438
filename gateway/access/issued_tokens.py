"""Tokens that the console issues (A39): their claims, their records, and when they were used.

A token of a role at the level full is one for brokers and gateways. Any other has no claim ``sub``, so that brokers,
which know no levels, refuse it; gateways read its role and level from claims of their own.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_texts import secret_key, signing_key
from engine.auth.authenticators.provider import ProviderError
from engine.auth.authenticators.signing_keys import SigningKey
from engine.auth.authenticators.token_provider import (
    GATEWAY_LEVEL,
    GATEWAY_PERSON,
    GATEWAY_PERSON_ID,
    GATEWAY_ROLE,
)
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Identity
from engine.base.entropy import RandomEntropy
from engine.base.errors import Unprocessable
from gateway.access.models import IssuedToken
from gateway.clusters.registry import Clusters
from gateway.people.acting import roles_of
from gateway.people.held_people import Credential, HeldPeople, Known
from gateway.services.clock import now_ms
from gateway.sign_in import LEVELS, AccessLevel

log = logging.getLogger(__name__)

SETTING = "token_signing_key"
PREFERRED = ("HS256", "RS256", "ES256", "ES384", "ES512")
ID_BYTES = 16
WRITE_S = 60.0
"""Interval at which uses are written."""
PENDING_MAX = 10_000


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to issue. ``person``: owner of a personal token, which serves at gateways alone; ``person_id`` is that of
    its user, which no later person of that name has."""

    role: str
    level: str
    name: str
    person: str
    expires_in_s: int | None
    person_id: int = 0


def obstacle() -> str:
    """Return why no token can be issued; empty when it can."""
    general = settings.IDENTITY.general
    if not general.authentication_enabled:
        return "Authentication is off (authentication_enabled), so that no token is needed"
    if "token" not in general.providers:
        return "The setting authentication_providers does not include token"
    if not settings.ENVIRONMENT.token_signing_key:
        return f"The setting {SETTING} of the gateway names no key to sign tokens with"
    return ""


def issue(new: NewToken, created_by: str) -> tuple[str, IssuedToken]:
    """Return a signed token and its stored record. Raises Unprocessable when none can be issued."""
    if reason := obstacle():
        raise Unprocessable(reason)
    issued_at_ms = now_ms()
    token_id = RandomEntropy().hex(ID_BYTES)
    claims = claims_of(new, token_id, issued_at_ms // 1000)
    try:
        token = _signed(claims, _key(settings.ENVIRONMENT.token_signing_key))
    except ProviderError as error:
        raise Unprocessable(f"The key of {SETTING} cannot be used: {error}") from error
    expires_at_ms = None if new.expires_in_s is None else issued_at_ms + new.expires_in_s * 1000
    # The record is there before the token is: one that is lost can then be revoked.
    record = IssuedToken.objects.create(
        token_id=token_id,
        name=new.name,
        role=new.role,
        level=new.level,
        person=new.person,
        created_by=created_by,
        created_at_ms=issued_at_ms,
        expires_at_ms=expires_at_ms,
    )
    return token, record


def claims_of(new: NewToken, token_id: str, now_s: int) -> dict[str, Any]:
    """Return the claims of a token."""
    claims: dict[str, Any] = {"jti": token_id, "iat": now_s}
    if new.expires_in_s is not None:
        claims["exp"] = now_s + new.expires_in_s
    if new.person:
        claims |= {GATEWAY_PERSON: new.person, GATEWAY_PERSON_ID: new.person_id}
    if new.person or new.level != AccessLevel.FULL:
        return claims | {GATEWAY_ROLE: new.role, GATEWAY_LEVEL: new.level}
    return claims | {settings.IDENTITY.token.values().auth_claim: new.role} | _audience()


def _audience() -> dict[str, str]:
    token = settings.IDENTITY.token
    if not token.token_audience_claim:
        return {}
    return {token.token_audience_claim: token.token_audience}


def _key(text: str) -> SigningKey:
    """Return the private key that the setting has, or the secret key. Raises ProviderError."""
    try:
        return signing_key(text, SETTING)
    except ProviderError:
        return secret_key(text, SETTING)


def _signed(claims: dict[str, Any], key: SigningKey) -> str:
    for algorithm in PREFERRED:
        try:
            return jws.sign(claims, key, algorithm)
        except ValueError:
            continue  # the key is of another kind
    raise ProviderError(f"{SETTING} is no key of {', '.join(PREFERRED)}")


def lower_of(one_level: str, other_level: str) -> str:
    """Return the lower of two levels; an unknown one counts as the lowest."""
    known = [level if level in LEVELS else AccessLevel.READ for level in (one_level, other_level)]
    return max(known, key=LEVELS.index)


async def level_of_token(identity: Identity, people: HeldPeople) -> str:
    """Return the level of a caller by credentials: a token's own, and of a personal token at most that which its person
    has in the role now. Raises AuthenticationFailed for a person without the role, and DatabaseError."""
    if not identity.evidence:
        return AccessLevel.FULL
    evidence = identity.evidence[0]
    if not evidence.person:
        return lower_of(evidence.level or AccessLevel.FULL, AccessLevel.FULL)
    level = personal_level(identity, await people.known(Credential(person=evidence.person)))
    if level is None:
        raise AuthenticationFailed("the person of the token has lost the role", "INVALID_PERSON")
    return level


def personal_level(identity: Identity, known: Known | None) -> str | None:
    """Return the level that a personal token has by its person; None when the person may not sign in, lacks the role,
    or is another one, who has the name of a person that was deleted (A30)."""
    evidence = identity.evidence[0]
    if known is None or known.user.pk != evidence.person_id:
        return None
    for acting in roles_of(known.user):
        if acting.role == identity.role:
            return lower_of(acting.level, evidence.level)
    return None


def end_tokens_of(person: str, by: str) -> None:
    """Mark the personal tokens of a person that was deleted as ended by ``by``. Uses the database, in a thread."""
    tokens = IssuedToken.objects.filter(person=person, revoked_at_ms=None)
    tokens.update(revoked_at_ms=now_ms(), revoked_by=by[:255])


def person_of_token(identity: Identity) -> str:
    """Return the person of a personal token; empty for other callers."""
    return identity.evidence[0].person if identity.evidence else ""


class UsedTokens:
    """Times of the tokens' last uses, a part of the process's clusters.

    A thread writes them together, at most every WRITE_S, so that no caller waits for the database.
    """

    def __init__(self, clusters: Clusters) -> None:
        self._pending: dict[str, int] = {}
        self._next_s = time.monotonic() + WRITE_S

    def note(self, token_id: str) -> None:
        """Note a use now."""
        if token_id in self._pending or len(self._pending) < PENDING_MAX:
            self._pending[token_id] = now_ms()
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + WRITE_S
            threading.Thread(target=self._write_apart, name="used tokens", daemon=True).start()

    def _write_apart(self) -> None:
        try:
            self.write()
        except DatabaseError as error:
            log.warning("uses of tokens are not written error=%r", error)
        finally:
            connection.close()

    def write(self) -> None:
        """Write the noted uses; ids that the console has not issued have no record. Raises DatabaseError."""
        pending, self._pending = self._pending, {}
        records = list(IssuedToken.objects.filter(token_id__in=list(pending)))
        for record in records:
            record.used_at_ms = pending[record.token_id]
        IssuedToken.objects.bulk_update(records, ["used_at_ms"])


def listed_tokens(records: Sequence[IssuedToken]) -> list[dict[str, Any]]:
    """Return records as they are shown."""
    return [
        {
            "id": str(record.pk),
            "token_id": record.token_id,
            "name": record.name,
            "role": record.role,
            "level": record.level,
            "kind": "personal" if record.person else "role",
            "person": record.person,
            "created_by": record.created_by,
            "created_at": record.created_at_ms,
            "expires_at": record.expires_at_ms,
            "used_at": record.used_at_ms,
            "revoked_at": record.revoked_at_ms,
            "revoked_by": record.revoked_by,
        }
        for record in records
    ]
