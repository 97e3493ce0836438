"""Authentication as settings describe it."""

from collections.abc import Callable, Container

from engine.auth.authentication import Authentication, Roles
from engine.auth.authenticators.basic_provider import BasicProvider
from engine.auth.authenticators.certificate_provider import CertificateProvider
from engine.auth.authenticators.key_sets import Fetch
from engine.auth.authenticators.oidc_provider import oidc_provider
from engine.auth.authenticators.provider import Provider
from engine.auth.authenticators.remembered import Remembered
from engine.auth.authenticators.token_provider import token_provider
from engine.auth.settings import IdentitySettings, names
from engine.base.clock import Clock


def create_authentication(
    settings: IdentitySettings,
    clock: Clock,
    fetch: Fetch,
    *,
    judge_proxies: bool,
    revoked: Container[str] = frozenset(),
    at_gateway: bool = False,
) -> Authentication:
    """Return the authentication of a broker or gateway. ``fetch`` reads the pages of issuers; ``revoked``: ids of
    tokens that are refused; ``at_gateway``: tokens for gateways alone are accepted. Raises ProviderError."""

    def wall_s() -> float:
        return clock.wall_ms() / 1000

    makers: dict[str, Callable[[], Provider]] = {
        "token": lambda: token_provider(settings.token, wall_s, at_gateway=at_gateway),
        "second_token": lambda: token_provider(settings.second_token, wall_s),
        "oidc": lambda: oidc_provider(settings.open_id, fetch, wall_s, clock.monotonic_s),
        "basic": lambda: BasicProvider(settings.basic.basic_auth_conf, wall_s),
        "tls": lambda: CertificateProvider(wall_s),
    }
    general = settings.general
    providers: list[Provider] = []
    for name in general.providers:
        provider = makers[name]()
        providers.append(provider if name == "tls" else Remembered(provider, wall_s))
    return Authentication(
        providers,
        Roles(
            anonymous=general.anonymous_user_role,
            proxies=frozenset(names(general.proxy_roles)),
            judge_proxies=judge_proxies,
            check_original=general.authenticate_original_auth_data,
        ),
        revoked=revoked,
    )
