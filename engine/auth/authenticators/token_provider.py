"""Provider of the method ``token``: signed tokens whose key the broker knows."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

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
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Evidence
from engine.auth.settings import SecondTokenSettings, TokenSettings

TOKEN = "token"
BEARER = "Bearer "
GATEWAY_ROLE = "gateway_role"
GATEWAY_LEVEL = "gateway_level"
GATEWAY_PERSON = "gateway_person"
GATEWAY_PERSON_ID = "gateway_person_id"
"""Claims of a token that serves at gateways alone. It states its role in none of the claims that brokers read."""
LOWEST_LEVEL = "read"
"""Level of such a token that states none."""


class TokenProvider:
    """Checks tokens by one key, which is read again when its file changes. The role is in ``claim``; ``audience`` is
    required where ``audience_claim`` is set.
    """

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
        file: WatchedFile | None = None,
        read: Callable[[], VerificationKey] | None = None,
        at_gateway: bool = False,
    ) -> None:
        """``now_s`` returns seconds since the Unix epoch. ``read`` returns the key that is in ``file`` now.
        ``at_gateway``: tokens for gateways alone are accepted, too."""
        self._at_gateway = at_gateway
        self._file = file
        self._read = read
        self.files = () if file is None or not file.exists else (file,)
        self._now_s = now_s
        self._claim = claim
        self._audience_claim = audience_claim
        self._audience = audience
        self._use(key)

    def _use(self, key: VerificationKey) -> None:
        rules = repr((self._claim, self._audience_claim, self._audience)).encode()
        digest = hashlib.sha256(rules + key.canonical)
        self._key = key
        self._key_id = digest.hexdigest()
        self.key_ids: Collection[str] = (self._key_id,)

    def revision(self) -> object:
        """Return the id of the key, after a check of its file."""
        if self._file is not None:
            self._file.follow(self._read_again)
        return self._key_id

    def _read_again(self) -> None:
        assert self._read is not None
        self._use(self._read())

    def authenticate(self, presented: Presented) -> Authenticated:
        self.revision()
        token = jws.parse(text_of(presented.data))
        claims = jws.verify(token, self._key)
        expires_at = jws.check_times(claims, self._now_s())
        if self._at_gateway and GATEWAY_ROLE in claims:
            return self._for_gateway(token, claims, expires_at)
        if self._audience_claim:
            check_audience(claims.get(self._audience_claim), {self._audience})
        role = jws.role_of(claims, self._claim)
        return Authenticated(role, expires_at, Evidence(jws.token_id(token), self._key_id))

    def _for_gateway(
        self, token: jws.Token, claims: Mapping[str, Any], expires_at: float | None
    ) -> Authenticated:
        level = str(claims.get(GATEWAY_LEVEL) or LOWEST_LEVEL)
        person = claims.get(GATEWAY_PERSON)
        if person is not None:
            person = jws.role_of(claims, GATEWAY_PERSON)
        person_id = claims.get(GATEWAY_PERSON_ID)
        evidence = Evidence(
            jws.token_id(token),
            self._key_id,
            level,
            person or "",
            person_id if isinstance(person_id, int) else 0,
        )
        return Authenticated(jws.role_of(claims, GATEWAY_ROLE), expires_at, evidence)


def token_provider(
    settings: TokenSettings | SecondTokenSettings,
    now_s: Callable[[], float],
    *,
    at_gateway: bool = False,
) -> TokenProvider:
    """Return the provider that settings describe. Raises ProviderError."""
    given = settings.values()
    name = settings.setting_name
    if given.secret_key:
        configured, setting = given.secret_key, name("token_secret_key")
    elif given.public_key:
        configured, setting = given.public_key, name("token_public_key")
    else:
        raise ProviderError(
            "No secret key was provided for token authentication: set"
            f" {name('token_secret_key')} or {name('token_public_key')}"
        )

    def read() -> VerificationKey:
        if given.secret_key:
            return secret_key(configured, setting)
        key = verification_key(configured, setting)
        _check_family(key, given.public_alg, name("token_public_alg"))
        return key

    # Before the key is read, so that a change meanwhile is noticed.
    file = WatchedFile(configured, setting, now_s)
    if given.audience_claim and not given.audience:
        raise ProviderError(
            f"{name('token_audience')} must be set where {name('token_audience_claim')} is"
        )
    return TokenProvider(
        read(),
        now_s,
        claim=given.auth_claim,
        audience_claim=given.audience_claim,
        audience=given.audience,
        file=file,
        read=read,
        at_gateway=at_gateway,
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
