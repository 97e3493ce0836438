"""Provider ``oidc`` of the method ``token``: access tokens of OpenID Connect issuers."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_sets import Fetch, FetchedKeys, FileKeys, PublishedKey
from engine.auth.authenticators.provider import Authenticated, Check, Presented, ProviderError
from engine.auth.authenticators.signing_keys import EC_ALGORITHMS
from engine.auth.authenticators.token_provider import TOKEN, check_audience, text_of
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Evidence
from engine.auth.settings import OpenIdSettings, names

ALGORITHMS = frozenset(("RS256", "RS384", "RS512", *EC_ALGORITHMS))
REQUIRED = ("exp", "iat")
"""Times that a token must have; Apache asks for ``nbf`` as well, which most issuers do not send."""
Keys = FileKeys | FetchedKeys


class OidcProvider:
    """Checks tokens by the keys that their issuer publishes; the issuer must be one of ``keys``."""

    name = "AuthenticationProviderOpenID"
    method = TOKEN
    key_ids: Collection[str] = ()
    files: Sequence[WatchedFile] = ()

    def __init__(
        self,
        keys: Mapping[str, Keys],
        audiences: frozenset[str],
        now_s: Callable[[], float],
        *,
        claim: str = "sub",
        leeway_s: float = 0.0,
    ) -> None:
        """``keys`` are by issuer; ``now_s`` returns seconds since the Unix epoch."""
        self._keys = keys
        self._audiences = audiences
        self._now_s = now_s
        self._claim = claim
        self._leeway_s = leeway_s

    def revision(self) -> object:
        return None

    def authenticate(self, presented: Presented) -> Check:
        token = jws.parse(text_of(presented.data))
        issuer = token.claims.get("iss")
        keys = self._keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise AuthenticationFailed("the token's issuer is not allowed", "UNSUPPORTED_ISSUER")
        if token.algorithm not in ALGORITHMS:
            raise AuthenticationFailed(
                "the token's algorithm is not supported", "UNSUPPORTED_ALGORITHM"
            )
        key = keys.key(token.key_id or "")
        return self._later(token, key) if isawaitable(key) else self._checked(token, key)

    async def _later(self, token: jws.Token, key: Awaitable[PublishedKey]) -> Authenticated:
        return self._checked(token, await key)

    def _checked(self, token: jws.Token, published: PublishedKey) -> Authenticated:
        if published.algorithm not in (None, token.algorithm):
            raise AuthenticationFailed(
                "the key is published for another algorithm", "ALGORITHM_MISMATCH"
            )
        claims = jws.verify(token, published.key)
        missing = next((name for name in REQUIRED if jws.time_of(claims, name) is None), None)
        if missing is not None:
            raise AuthenticationFailed(f"token has no {missing}", "INVALID_JWT_CLAIM")
        expires_at = jws.check_times(claims, self._now_s(), self._leeway_s)
        issued_at = jws.time_of(claims, "iat")
        if issued_at is not None and issued_at - self._leeway_s > self._now_s():
            raise AuthenticationFailed("token was issued in the future", "INVALID_JWT_CLAIM")
        check_audience(claims.get("aud"), self._audiences)
        jws.role_of(claims, "sub")
        role = jws.role_of(claims, self._claim)
        return Authenticated(role, expires_at, Evidence(jws.token_id(token)))


def oidc_provider(
    settings: OpenIdSettings,
    fetch: Fetch,
    wall_s: Callable[[], float],
    monotonic_s: Callable[[], float],
) -> OidcProvider:
    """Return the provider that settings describe; it fetches nothing before the first token. Raises ProviderError."""
    issuers = names(settings.open_id_allowed_token_issuers)
    audiences = frozenset(names(settings.open_id_allowed_audiences))
    files = _files(settings)
    if not issuers and not files:
        raise ProviderError("open_id_allowed_token_issuers must name an issuer")
    if not audiences:
        raise ProviderError("open_id_allowed_audiences must name an audience")
    keys: dict[str, Keys] = {issuer: FileKeys(path) for issuer, path in files.items()}
    for issuer in issuers:
        if issuer in keys:
            continue
        allowed = ("https://",) if settings.open_id_require_issuers_use_https else _SCHEMES
        if not issuer.startswith(allowed):
            raise ProviderError(
                f"open_id_allowed_token_issuers: {issuer} must begin with {' or '.join(allowed)}"
            )
        keys[issuer] = FetchedKeys(
            issuer,
            fetch,
            monotonic_s,
            refresh_s=settings.open_id_cache_refresh_after_write_seconds,
            expire_s=settings.open_id_cache_expiration_seconds,
            miss_s=settings.open_id_key_id_cache_miss_refresh_seconds,
            https_only=settings.open_id_require_issuers_use_https,
        )
    return OidcProvider(
        keys,
        audiences,
        wall_s,
        claim=settings.open_id_role_claim or "sub",
        leeway_s=settings.open_id_accepted_time_leeway_seconds,
    )


_SCHEMES = ("https://", "http://")


def _files(settings: OpenIdSettings) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for item in names(settings.open_id_key_set_files):
        issuer, equals, path = item.rpartition("=")
        if not equals or not issuer or not path:
            raise ProviderError("open_id_key_set_files must be issuer=path, separated by commas")
        files[issuer] = Path(path)
    return files
