"""Documents of the issuers of tokens, by HTTP."""

from engine.auth.settings import IdentitySettings
from engine.base.errors import WorldError
from engine.net.http_client import HttpClient
from engine.net.network import Network
from engine.net.tls import ClientFiles

ISSUER_BYTES_MAX = 1 << 20
"""Longest document of an issuer."""
ISSUER_TLS_REFRESH_S = 300.0


class IssuerError(WorldError):
    """An issuer did not answer a request for one of its documents."""


class IssuerClient:
    """Client of OpenID Connect issuers, without connections until the first request."""

    def __init__(self, settings: IdentitySettings, network: Network) -> None:
        """Create the client, which serves only where the settings list ``oidc``. Raises TlsFileError."""
        self._http: HttpClient | None = None
        if "oidc" in settings.general.providers:
            open_id = settings.open_id
            files = ClientFiles(open_id.open_id_token_issuer_trust_certs_file_path)
            self._http = HttpClient(
                network,
                timeout_s=open_id.open_id_http_read_timeout_millis / 1000,
                answer_bytes_max=ISSUER_BYTES_MAX,
                tls=files.reloaded(ISSUER_TLS_REFRESH_S),
            )

    async def fetch(self, url: str) -> bytes:
        """Return a document of an issuer. Raises IssuerError, HttpError."""
        assert self._http is not None
        try:
            answer = await self._http.request("GET", url)
        except ValueError as error:
            raise IssuerError(f"{url} is no address: {error}") from error
        if answer.status != 200:
            raise IssuerError(f"{url} answered {answer.status}")
        return answer.body

    def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            self._http.close()
