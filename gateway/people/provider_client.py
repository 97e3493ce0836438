"""Client of a provider of OpenID Connect, by Authlib: discovery, authorization by code with PKCE, checks of ID tokens.

All methods that ask the provider block, for a bounded time; ``Providers`` calls them in threads of its own, so that a
provider that hangs holds up no other work.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.sync_app import BaseApp, OAuth2Mixin
from authlib.integrations.base_client.sync_openid import OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session
from django.conf import settings
from joserfc.errors import JoseError
from requests.exceptions import RequestException

from engine.base.errors import MagnetarError
from gateway.clusters.registry import Clusters
from gateway.sign_in import ProviderSettings

log = logging.getLogger(__name__)

T = TypeVar("T")
CONNECT_S, READ_S = 3.0, 6.0
CALL_S = 20.0
"""Time for all that one step of a sign-in asks of a provider."""
METADATA_S = 3_600.0
"""Time for which the provider's discovery document and keys serve."""
THREADS = 4
WAITING_MAX = 16
ALGORITHMS = frozenset(
    f"{family}{size}" for family in ("RS", "PS", "ES") for size in (256, 384, 512)
) | {"EdDSA"}
"""Signatures by a key of the provider: none by a secret that the gateway knows, too."""


class ProviderAwayError(MagnetarError):
    """The provider does not answer as one does; sign-in by a password is not affected."""


class ProviderRefusedError(MagnetarError):
    """The provider's answer does not prove who the person is."""


class Authorization(NamedTuple):
    """The address of a provider's page, with what its answer must fit."""

    url: str
    state: str
    nonce: str
    code_verifier: str


class Proven(NamedTuple):
    """A person as the provider knows it (A29), and the ID token that ends its session there."""

    claims: Mapping[str, Any]
    id_token: str


class _App(OAuth2Mixin, OpenIDMixin, BaseApp):  # type: ignore[misc]
    """Authlib's client, without a web framework."""

    client_cls = OAuth2Session


class ProviderClient:
    """A provider. Its methods block."""

    def __init__(self, provider: ProviderSettings) -> None:
        self.settings = provider
        self._app: Any = None
        self._loaded_at_s = 0.0

    def authorization(self, redirect_uri: str) -> Authorization:
        """Return the address to which the browser goes. Raises ProviderAwayError."""
        made = self._asked(lambda app: app.create_authorization_url(redirect_uri))
        return Authorization(made["url"], made["state"], made["nonce"], made["code_verifier"])

    def proven(self, code: str, redirect_uri: str, begun: Authorization) -> Proven:
        """Return the person for whom the provider issued a code. Raises ProviderAwayError, ProviderRefusedError."""
        return self._asked(lambda app: self._proven(app, code, redirect_uri, begun))

    def _proven(self, app: Any, code: str, redirect_uri: str, begun: Authorization) -> Proven:
        verifier = begun.code_verifier
        token = app.fetch_access_token(redirect_uri, code=code, code_verifier=verifier)
        id_token = token.get("id_token")
        if not isinstance(id_token, str):
            raise ProviderRefusedError("the provider's answer has no ID token")
        options = {
            "iss": {"essential": True, "value": self.settings.issuer},
            "aud": {"essential": True, "value": self.settings.client_id},
        }
        claims: dict[str, Any] = dict(
            app.parse_id_token(token, nonce=begun.nonce, claims_options=options)
        )
        if value_at(claims, self.settings.groups_claim) is None:
            claims = {**self._user_info(app, token, claims["sub"]), **claims}
        return Proven(claims, id_token)

    def _user_info(self, app: Any, token: Any, subject: str) -> dict[str, Any]:
        if not app.server_metadata.get("userinfo_endpoint"):
            return {}
        more: dict[str, Any] = dict(app.userinfo(token=token))
        if more.get("sub") != subject:
            raise ProviderRefusedError("the user info is that of another person")
        return more

    def end_session_url(self, id_token: str, return_to: str) -> str | None:
        """Return where the browser ends its session at the provider; None where it has no such page."""

        def url(app: Any) -> str | None:
            if not app.server_metadata.get("end_session_endpoint"):
                return None
            made: dict[str, str] = app.create_logout_url(
                return_to, id_token, client_id=self.settings.client_id
            )
            return made["url"]

        return self._asked(url)

    def _asked(self, work: Callable[[Any], T]) -> T:
        try:
            return work(self._loaded())
        except MagnetarError:
            raise
        except (AuthlibBaseError, JoseError) as error:
            raise ProviderRefusedError(f"{type(error).__name__}: {error}") from error
        except (RequestException, OSError) as error:
            raise ProviderAwayError(f"{type(error).__name__}: {error}") from error
        except (ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
            # An answer that is no JSON, or lacks what the standard requires.
            raise ProviderAwayError(f"{type(error).__name__}: {error}") from error

    def _loaded(self) -> Any:
        """Return Authlib's client with the provider's metadata, not older than an hour."""
        if self._app is None or time.monotonic() - self._loaded_at_s > METADATA_S:
            app = self._create()
            metadata = app.load_server_metadata()
            if metadata.get("issuer") != self.settings.issuer:
                raise ProviderRefusedError(
                    f"the discovery document is of issuer {metadata.get('issuer')!r}"
                )
            offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            allowed = [name for name in offered if name in ALGORITHMS]
            metadata["id_token_signing_alg_values_supported"] = allowed
            self._app, self._loaded_at_s = app, time.monotonic()
        return self._app

    def _create(self) -> Any:
        provider = self.settings
        client = {
            "scope": provider.scopes,
            "code_challenge_method": "S256",
            "default_timeout": (CONNECT_S, READ_S),
            "verify": provider.trust_certs_file_path or _system_authorities(),
            # No proxies and no passwords from the environment of the process.
            "trust_env": False,
        }
        if not provider.client_secret:
            client["token_endpoint_auth_method"] = "none"
        return _App(
            None,
            provider.name,
            client_id=provider.client_id,
            client_secret=provider.secret() or None,
            client_kwargs=client,
            server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        )


def _system_authorities() -> str | bool:
    paths = ssl.get_default_verify_paths()
    return paths.cafile or True


def value_at(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim of a name, or the one to which dots lead into objects; None without one."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


class Providers:
    """The providers of the settings: a part of the process's clusters."""

    def __init__(self, clusters: Clusters) -> None:
        self._clients = {item.name: ProviderClient(item) for item in settings.SIGN_IN.providers}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="provider")
        self._waiting = 0

    def get(self, name: str) -> ProviderClient | None:
        return self._clients.get(name)

    async def ask(self, work: Callable[[], T]) -> T:
        """Run a blocking call of a client in a thread. Raises what it raises, and ProviderAwayError for none in time.

        When cancelled, the call ends by itself.
        """
        if self._waiting >= WAITING_MAX:
            raise ProviderAwayError("too many sign-ins wait for it")
        self._waiting += 1
        try:
            async with asyncio.timeout(CALL_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            raise ProviderAwayError(f"no answer within {CALL_S:g} s") from error
        finally:
            self._waiting -= 1
