"""Authentication of a broker's clients, of the binary protocol and by HTTP."""

from collections.abc import Awaitable

from engine.auth.authentication import Authentication, Outcomes
from engine.auth.http_credentials import credentials_of
from engine.auth.identity import Identity
from engine.auth.settings import IdentitySettings
from engine.base.clock import Clock
from engine.base.errors import WorldError
from engine.net.handshake import Authenticate, allow_all
from engine.net.http import Request
from engine.net.http_client import HttpClient
from engine.net.network import Network
from engine.net.tls import ClientFiles
from engine.rpc.server import Identify

ISSUER_BYTES_MAX = 1 << 20
"""Longest document of an issuer."""
ISSUER_TLS_REFRESH_S = 300.0


class IssuerError(WorldError):
    """An issuer did not answer a request for one of its documents."""


class ClientAuthentication:
    """Authentication by settings; without it every client is accepted."""

    def __init__(self, settings: IdentitySettings, network: Network, clock: Clock) -> None:
        """Raise ProviderError, TlsFileError."""
        self._client: HttpClient | None = None
        self._authentication: Authentication | None = None
        if not settings.general.authentication_enabled:
            return
        if "oidc" in settings.general.providers:
            open_id = settings.open_id
            files = ClientFiles(open_id.open_id_token_issuer_trust_certs_file_path)
            self._client = HttpClient(
                network,
                timeout_s=open_id.open_id_http_read_timeout_millis / 1000,
                answer_bytes_max=ISSUER_BYTES_MAX,
                tls=files.reloaded(ISSUER_TLS_REFRESH_S),
            )
        # cryptography costs memory, and is needed here alone
        from engine.auth.create import create_authentication

        self._authentication = create_authentication(
            settings, clock, self._fetch, judge_proxies=False
        )

    @property
    def authenticate(self) -> Authenticate:
        """Authentication of clients of the binary protocol."""
        return self._authentication if self._authentication is not None else allow_all

    @property
    def of_request(self) -> Identify | None:
        """Authentication of callers by HTTP, None without one."""
        return self._of_request if self._authentication is not None else None

    @property
    def outcomes(self) -> Outcomes:
        """Numbers of checks since the start."""
        return self._authentication.outcomes if self._authentication is not None else Outcomes()

    def close(self) -> None:
        """Close the connections to issuers."""
        if self._client is not None:
            self._client.close()

    def _of_request(self, request: Request) -> Identity | Awaitable[Identity]:
        assert self._authentication is not None
        credentials = credentials_of(
            request.headers,
            request.certificate,
            request.address,
            self._authentication.methods,
        )
        return self._authentication.of_request(credentials)

    async def _fetch(self, url: str) -> bytes:
        """Return a document of an issuer. Raises IssuerError, HttpError."""
        assert self._client is not None
        try:
            answer = await self._client.request("GET", url)
        except ValueError as error:
            raise IssuerError(f"{url} is no address: {error}") from error
        if answer.status != 200:
            raise IssuerError(f"{url} answered {answer.status}")
        return answer.body
