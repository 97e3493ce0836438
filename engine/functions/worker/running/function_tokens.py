"""Tokens by which instances log in at brokers: never with the worker's own role (F4)."""

from collections.abc import Collection

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_texts import secret_key, signing_key
from engine.auth.authenticators.provider import ProviderError
from engine.auth.authenticators.signing_keys import SigningKey
from engine.auth.credentials import AuthenticationFailed
from engine.auth.settings import TokenSettings
from engine.base.clock import Clock
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import ROLE_PROVIDER, has_clear_token, role_of

ALGORITHMS = ("HS256", "RS256", "ES256", "ES384", "ES512")
LIFETIME_S = 7 * 86400
RENEWED_EVERY_S = 86400.0
"""Time after which a running instance has a new token in its file."""


def role_for(tenant: str, caller: str, admins: Collection[str], superusers: Collection[str]) -> str:
    """Return the role of a new function: that of its creator; for one that a superuser creates the tenant's first
    administrator, so that user code never has the rights of a superuser. A tenant without administrators has a role for
    its functions, which needs grants."""
    if caller and caller not in superusers:
        return caller
    allowed = sorted(role for role in admins if role not in superusers)
    return allowed[0] if allowed else f"functions-{tenant}"


def role_after_update(role: str, caller: str, superusers: Collection[str]) -> str:
    """Return the role of a function that a caller has updated: the caller's own, so that no caller runs code with the
    rights of the role that deployed it before. A superuser's update keeps the role."""
    return role if not caller or caller in superusers else caller


def role_given(metadata: pb.FunctionMetaData) -> str:
    """Return the role of a function, also of one with a token that an Apache worker stored; empty when not known."""
    if not has_clear_token(metadata):
        return role_of(metadata)
    try:
        return str(jws.parse(metadata.functionAuthSpec.data.decode()).claims.get("sub", ""))
    except (AuthenticationFailed, UnicodeDecodeError):
        return ""


def with_role(metadata: pb.FunctionMetaData, role: str) -> None:
    """Store the role of a function in its metadata."""
    spec = pb.FunctionAuthenticationSpec(data=role.encode(), provider=ROLE_PROVIDER)
    metadata.functionAuthSpec.CopyFrom(spec)


class FunctionTokens:
    """Issuer of tokens, by a key that brokers accept. Raises ProviderError for one that cannot be used."""

    def __init__(self, key_text: str, settings: TokenSettings, clock: Clock) -> None:
        self._key = _key(key_text)
        self._settings = settings.values()
        self._clock = clock

    def issue(self, metadata: pb.FunctionMetaData) -> str:
        """Return a token for a function's role; empty for a function of another kind of worker, which has none."""
        role = role_of(metadata)
        if not role:
            return ""
        now_s = self._clock.wall_ms() // 1000
        claims = {
            "iat": now_s,
            "exp": now_s + LIFETIME_S,
            self._settings.auth_claim: role,
        }
        if self._settings.audience_claim:
            claims[self._settings.audience_claim] = self._settings.audience
        for algorithm in ALGORITHMS:
            try:
                return jws.sign(claims, self._key, algorithm)
            except ValueError:
                continue  # the key is of another kind
        raise ProviderError(f"token_signing_key is no key of {', '.join(ALGORITHMS)}")


def _key(text: str) -> SigningKey:
    """Return the private key that the setting has, or the secret key. Raises ProviderError."""
    try:
        return signing_key(text, "token_signing_key")
    except ProviderError:
        return secret_key(text, "token_signing_key")
