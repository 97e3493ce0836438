"""Authentication of the gateway's callers by what they present: one for all its clusters."""

from collections.abc import Mapping

from django.conf import settings

from engine.auth.authentication import Authentication
from engine.auth.credentials import NO_METHOD, PeerCertificate
from engine.auth.http_credentials import METHOD_HEADER, credentials_of
from engine.auth.identity import Identity
from engine.base.clock import SystemClock
from engine.net.issuers import IssuerClient
from engine.net.network import LoopNetwork
from gateway.clusters.registry import Clusters


class Callers:
    """Authentication of HTTP requests and WebSocket handshakes: a part of the process's clusters."""

    def __init__(self, clusters: Clusters) -> None:
        """Create it as the settings describe. Raises ProviderError, TlsFileError."""
        self._authentication: Authentication | None = None
        identity = settings.IDENTITY
        if not identity.general.authentication_enabled:
            return
        # cryptography costs memory, and is needed here alone
        from engine.auth.create import create_authentication

        issuers = IssuerClient(identity, LoopNetwork())
        self._authentication = create_authentication(
            identity,
            SystemClock(),
            issuers.fetch,
            judge_proxies=identity.authorization.authorization_enabled,
        )

    @property
    def are_identified(self) -> bool:
        """True where authentication is on."""
        return self._authentication is not None

    async def identity(
        self,
        headers: Mapping[str, str],
        address: str,
        certificate: PeerCertificate | None,
        *,
        shown_only: bool = False,
    ) -> Identity | None:
        """Return the identity of the caller with these headers, whose names are in lower case, and the certificate of
        its connection; None where authentication is off.

        ``shown_only``: None also for a caller whose headers present nothing. Raises AuthenticationFailed, RolesRefused.
        """
        if self._authentication is None:
            return None
        if shown_only and METHOD_HEADER not in headers:
            # A browser presents its certificate to each page, so that a session of the console counts before it.
            certificate = None
        credentials = credentials_of(headers, certificate, address, self._authentication.methods)
        if shown_only and credentials.method == NO_METHOD:
            return None
        identity = self._authentication.of_request(credentials)
        return identity if isinstance(identity, Identity) else await identity
