"""Settings of authentication and authorization.

They have Pulsar's names in snake_case; the help texts have Pulsar's spelling in brackets.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.auth.authorization.evaluator import AccessRules
from engine.auth.internal import INTERNAL_ROLE
from engine.base.settings import count, flag, secret, text


class TokenValues(NamedTuple):
    """Settings of a provider of tokens without their prefix."""

    secret_key: str
    public_key: str
    public_alg: str
    auth_claim: str
    audience_claim: str
    audience: str


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """Authentication of clients."""

    authentication_enabled: bool = flag(
        False, "whether clients must be identified (authenticationEnabled)"
    )
    authentication_providers: str = text(
        "",
        "methods in the order in which they are tried, separated by commas: token, second_token, oidc, tls, basic, or "
        "Apache's class names (authenticationProviders)",
    )
    anonymous_user_role: str = text(
        "",
        "role of clients that present no credentials of a configured method; empty: they are refused "
        "(anonymousUserRole)",
    )
    super_user_roles: str = text(
        "", "roles that may do everything, separated by commas (superUserRoles)"
    )
    proxy_roles: str = text(
        "", "roles of proxies, which act for other roles, separated by commas (proxyRoles)"
    )
    authenticate_original_auth_data: bool = flag(
        False,
        "whether the credentials of a proxy's client, which the proxy forwards, are checked too "
        "(authenticateOriginalAuthData)",
    )
    authenticate_metrics_endpoint: bool = flag(
        False, "whether /metrics needs credentials (authenticateMetricsEndpoint)"
    )

    @property
    def providers(self) -> tuple[str, ...]:
        """Names of the providers in their order."""
        return provider_names(self.authentication_providers)

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError."""
        if not self.providers and self.authentication_enabled:
            raise ValueError(
                "authentication_providers must name a method where authentication_enabled is true"
            )
        if self.anonymous_user_role in names(self.proxy_roles):
            raise ValueError("anonymous_user_role must not be one of proxy_roles")
        if self.anonymous_user_role == INTERNAL_ROLE:
            # An anonymous client chooses its method, which is all that distinguishes the internal role.
            raise ValueError(
                f"anonymous_user_role must not be {INTERNAL_ROLE}, the instance's own role"
            )


AUTHORIZATION_PROVIDER = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """Authorization of clients, by the roles that authentication gave them."""

    authorization_enabled: bool = flag(
        False, "whether clients need rights; needs authentication_enabled (authorizationEnabled)"
    )
    authorization_provider: str = text(
        AUTHORIZATION_PROVIDER,
        "the rules of rights; Apache Pulsar's default is the only one (authorizationProvider)",
    )
    authorization_allow_wildcards_matching: bool = flag(
        False,
        "whether a granted role that begins or ends with * is a pattern "
        "(authorizationAllowWildcardsMatching)",
    )

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError."""
        if self.authorization_provider != AUTHORIZATION_PROVIDER:
            raise ValueError(
                f"authorization_provider must be {AUTHORIZATION_PROVIDER}, not {self.authorization_provider!r}, which "
                "is not offered"
            )


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Signed tokens (the method ``token``)."""

    token_secret_key: str = secret(
        "secret that signs tokens: file:///path, data:;base64,…, or Base64; takes precedence (tokenSecretKey)"
    )
    token_public_key: str = text(
        "", "public key of tokens, in the same forms, DER or PEM (tokenPublicKey)"
    )
    token_public_alg: str = text(
        "RS256", "algorithm of the public key; its family counts (tokenPublicAlg)"
    )
    token_auth_claim: str = text("sub", "claim that has the role (tokenAuthClaim)")
    token_audience_claim: str = text(
        "", "claim that has the audience; empty: it is not checked (tokenAudienceClaim)"
    )
    token_audience: str = text("", "audience that tokens must be for (tokenAudience)")

    @staticmethod
    def setting_name(name: str) -> str:
        """Return the name of a setting of this group."""
        return name

    def values(self) -> TokenValues:
        return TokenValues(
            self.token_secret_key,
            self.token_public_key,
            self.token_public_alg,
            self.token_auth_claim or "sub",
            self.token_audience_claim,
            self.token_audience,
        )


@dataclass(frozen=True, slots=True)
class SecondTokenSettings:
    """Signed tokens of a second key, the provider ``second_token``: for the time in which a key is replaced, or for
    another issuer. Apache's tokenSettingPrefix serves the same purpose."""

    second_token_secret_key: str = secret("as token_secret_key")
    second_token_public_key: str = text("", "as token_public_key")
    second_token_public_alg: str = text("RS256", "as token_public_alg")
    second_token_auth_claim: str = text("sub", "as token_auth_claim")
    second_token_audience_claim: str = text("", "as token_audience_claim")
    second_token_audience: str = text("", "as token_audience")

    @staticmethod
    def setting_name(name: str) -> str:
        """Return the name of a setting of this group."""
        return f"second_{name}"

    def values(self) -> TokenValues:
        return TokenValues(
            self.second_token_secret_key,
            self.second_token_public_key,
            self.second_token_public_alg,
            self.second_token_auth_claim or "sub",
            self.second_token_audience_claim,
            self.second_token_audience,
        )


@dataclass(frozen=True, slots=True)
class BasicSettings:
    """Names and passwords (the method ``basic``)."""

    basic_auth_conf: str = secret(
        "htpasswd file: its path, file:///path, data:;base64,…, or its contents in Base64 (basicAuthConf)"
    )


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """Access tokens of OpenID Connect providers (the provider ``oidc``, the method ``token``)."""

    open_id_allowed_token_issuers: str = text(
        "", "issuers whose tokens are accepted, separated by commas (openIDAllowedTokenIssuers)"
    )
    open_id_allowed_audiences: str = text(
        "", "audiences, separated by commas; a token is for one of them (openIDAllowedAudiences)"
    )
    open_id_key_set_files: str = text(
        "",
        "issuer=path, separated by commas: issuers whose keys are read from a file (JWKS) instead of the network",
    )
    open_id_token_issuer_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign issuers' certificates; empty: those of the operating system "
        "(openIDTokenIssuerTrustCertsFilePath)",
    )
    open_id_role_claim: str = text("sub", "claim that has the role (openIDRoleClaim)")
    open_id_accepted_time_leeway_seconds: int = count(
        0, "seconds by which clocks may differ (openIDAcceptedTimeLeewaySeconds)", high=3600
    )
    open_id_cache_refresh_after_write_seconds: int = count(
        64_800,
        "seconds after which an issuer's keys are fetched again while the old ones serve "
        "(openIDCacheRefreshAfterWriteSeconds)",
        low=1,
    )
    open_id_cache_expiration_seconds: int = count(
        86_400,
        "seconds after which keys that could not be fetched again no longer serve (openIDCacheExpirationSeconds)",
        low=1,
    )
    open_id_key_id_cache_miss_refresh_seconds: int = count(
        300,
        "seconds in which an unknown key id causes at most one fetch of an issuer's keys "
        "(openIDKeyIdCacheMissRefreshSeconds)",
        low=1,
    )
    open_id_http_read_timeout_millis: int = count(
        10_000,
        "milliseconds in which an issuer must answer (openIDHttpReadTimeoutMillis)",
        low=1,
        high=60_000,
    )
    open_id_require_issuers_use_https: bool = flag(
        True, "whether issuers' addresses must be https (openIDRequireIssuersUseHttps)"
    )


def names(listed: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """All groups of settings of authentication and authorization."""

    general: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    token: TokenSettings = field(default_factory=TokenSettings)
    second_token: SecondTokenSettings = field(default_factory=SecondTokenSettings)
    basic: BasicSettings = field(default_factory=BasicSettings)
    open_id: OpenIdSettings = field(default_factory=OpenIdSettings)
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)

    def __post_init__(self) -> None:
        """Check combinations. Raises ValueError."""
        if self.authorization.authorization_enabled and not self.general.authentication_enabled:
            raise ValueError(
                "authentication_enabled must be true where authorization_enabled is true: rights belong to roles, "
                "which clients without authentication do not have"
            )

    def access_rules(self, cluster: str) -> AccessRules:
        """Return the rules of the judge of a process of ``cluster``."""
        return AccessRules(
            superusers=frozenset(names(self.general.super_user_roles)),
            proxies=frozenset(names(self.general.proxy_roles)),
            cluster=cluster,
            wildcards=self.authorization.authorization_allow_wildcards_matching,
        )


_PACKAGE = "org.apache.pulsar.broker.authentication."
PROVIDERS = {
    "token": "token",
    "second_token": "second_token",
    "oidc": "oidc",
    "tls": "tls",
    "basic": "basic",
    f"{_PACKAGE}AuthenticationProviderToken": "token",
    f"{_PACKAGE}oidc.AuthenticationProviderOpenID": "oidc",
    f"{_PACKAGE}AuthenticationProviderTls": "tls",
    f"{_PACKAGE}AuthenticationProviderBasic": "basic",
}
"""Providers by their own names and Apache's class names."""


def provider_names(listed: str) -> tuple[str, ...]:
    """Return the own names of the listed providers. Raises ValueError for one that is not offered or listed twice."""
    chosen: list[str] = []
    for name in names(listed):
        provider = PROVIDERS.get(name)
        if provider is None:
            raise ValueError(
                "authentication_providers may list token, second_token, oidc, tls and basic, "
                f"or Apache's class names of these, not {name!r}"
            )
        if provider in chosen:
            raise ValueError(f"authentication_providers lists {provider} twice")
        chosen.append(provider)
    return tuple(chosen)
