"""Callers that present tokens, for tests of the places where callers are identified."""

import base64
from dataclasses import replace
from typing import Any

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import SecretKey
from engine.auth.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    IdentitySettings,
    TokenSettings,
)

KEY = bytes(range(32))
SUPERUSER = "root"
PROXY = "proxy"


def by_token(*, authorization_enabled: bool = False, **general: Any) -> IdentitySettings:
    """Return the settings of a program whose clients present tokens that ``token`` signs."""
    settings = AuthenticationSettings(
        authentication_enabled=True,
        authentication_providers="token",
        super_user_roles=SUPERUSER,
        proxy_roles=PROXY,
    )
    return IdentitySettings(
        replace(settings, **general),
        TokenSettings(token_secret_key=base64.b64encode(KEY).decode()),
        authorization=AuthorizationSettings(authorization_enabled=authorization_enabled),
    )


def token_by(key: bytes, role: str, **claims: Any) -> str:
    """Return a token of a role that is signed with a secret key."""
    return jws.sign({"sub": role, **claims}, SecretKey(key), "HS256")


def token(role: str, **claims: Any) -> str:
    """Return a token of this role."""
    return token_by(KEY, role, **claims)


def bearer(role: str) -> dict[str, str]:
    """Return the headers of a request of this role."""
    return {"authorization": f"Bearer {token(role)}"}
