"""Provider of the method ``token``: signed tokens whose key the broker knows."""

from collections.abc import Callable

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_texts import secret_key, verification_key
from engine.auth.authenticators.provider import Authenticated, Presented, ProviderError
from engine.auth.authenticators.signing_keys import (
    ALGORITHMS,
    RSA_ALGORITHMS,
    SECRET_ALGORITHMS,
    RsaPublicKey,
    VerificationKey,
)
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Evidence
from engine.auth.settings import SecondTokenSettings, TokenSettings

TOKEN = "token"
BEARER = "Bearer "


class TokenProvider:
    """Checks tokens by one key. The role is in ``claim``; ``audience`` is required where ``audience_claim`` is set."""

    name = "AuthenticationProviderToken"
    method = TOKEN

    def __init__(
        self,
        key: VerificationKey,
        now_s: Callable[[], float],
        *,
        claim: str = "sub",
        audience_claim: str = "",
        audience: str = "",
    ) -> None:
        """``now_s`` returns seconds since the Unix epoch."""
        self._key = key
        self._now_s = now_s
        self._claim = claim
        self._audience_claim = audience_claim
        self._audience = audience

    def revision(self) -> object:
        return None

    def authenticate(self, presented: Presented) -> Authenticated:
        token = jws.parse(text_of(presented.data))
        claims = jws.verify(token, self._key)
        expires_at = jws.check_times(claims, self._now_s())
        if self._audience_claim:
            check_audience(claims.get(self._audience_claim), {self._audience})
        role = jws.role_of(claims, self._claim)
        return Authenticated(role, expires_at, Evidence(jws.token_id(token)))


def token_provider(
    settings: TokenSettings | SecondTokenSettings, now_s: Callable[[], float]
) -> TokenProvider:
    """Return the provider that settings describe. Raises ProviderError."""
    given = settings.values()
    name = settings.setting_name
    if given.secret_key:
        key: VerificationKey = secret_key(given.secret_key, name("token_secret_key"))
    elif given.public_key:
        key = verification_key(given.public_key, name("token_public_key"))
        _check_family(key, given.public_alg, name("token_public_alg"))
    else:
        raise ProviderError(
            "No secret key was provided for token authentication: set"
            f" {name('token_secret_key')} or {name('token_public_key')}"
        )
    if given.audience_claim and not given.audience:
        raise ProviderError(
            f"{name('token_audience')} must be set where {name('token_audience_claim')} is"
        )
    return TokenProvider(
        key,
        now_s,
        claim=given.auth_claim,
        audience_claim=given.audience_claim,
        audience=given.audience,
    )


def text_of(data: bytes) -> str:
    """Return the token in what a client sent. Raises AuthenticationFailed."""
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("token is not ASCII", jws.INVALID) from error
    if not text:
        raise AuthenticationFailed("Blank token found", "INVALID_AUTH_DATA")
    return text


def check_audience(value: object, allowed: set[str] | frozenset[str]) -> None:
    """Raise AuthenticationFailed unless a claim is, or contains, one of the allowed audiences."""
    values = value if isinstance(value, list) else [value]
    if not any(isinstance(name, str) and name in allowed for name in values):
        raise AuthenticationFailed("token is for another audience", "INVALID_AUDIENCES")


def _check_family(key: VerificationKey, algorithm: str, setting: str) -> None:
    if algorithm not in ALGORITHMS or algorithm in SECRET_ALGORITHMS:
        raise ProviderError(f"{setting} must be an algorithm of public keys, not {algorithm!r}")
    if isinstance(key, RsaPublicKey) != (algorithm in RSA_ALGORITHMS):
        raise ProviderError(f"{setting} {algorithm} is of another kind than the public key")
