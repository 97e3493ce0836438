"""Authentication of the gateway's callers by what they present: one for all its clusters."""

from collections.abc import Callable, Mapping
from functools import partial

from django.conf import settings

from engine.auth.authentication import REVOKED, Authentication, follow_keys
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import NO_METHOD, AuthenticationFailed, PeerCertificate
from engine.auth.http_credentials import METHOD_HEADER, credentials_of
from engine.auth.identity import Identity
from engine.base.clock import SystemClock
from engine.base.tasks import restarting
from engine.net.issuers import IssuerClient
from engine.net.network import LoopNetwork
from gateway.clusters.registry import Clusters
from gateway.http.auth.withdrawn import ClusterRevocations
from gateway.services import metrics


class Callers:
    """Authentication of HTTP requests and WebSocket handshakes: a part of the process's clusters.

    A token that is revoked in one of the clusters is refused, and open sockets of its clients end (A24).
    """

    def __init__(self, clusters: Clusters) -> None:
        """Create it as the settings describe. Raises ProviderError, TlsFileError."""
        self._authentication: Authentication | None = None
        self._open: dict[object, tuple[Identity, Callable[[], None]]] = {}
        self._revoked = [cluster.part(ClusterRevocations) for cluster in clusters]
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
            revoked=self,
            at_gateway=True,
        )
        for revoked in self._revoked:
            revoked.follow(self._end_withdrawn)
        files = self._authentication.outcomes.files
        for file in files:
            metrics.unusable_files.labels(file.setting).set_function(partial(_is_unusable, file))
        if files:
            clusters.default.link.start(self._follow_keys)

    def __contains__(self, token_id: object) -> bool:
        """Return whether a token is revoked in a cluster."""
        return any(token_id in revoked for revoked in self._revoked)

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
        identified = self._authentication.of_request(credentials)
        identity = identified if isinstance(identified, Identity) else await identified
        if identity.evidence:
            # The first cluster's list decides from the first token on; that of another, as soon as it was read.
            await self._revoked[0].known()
            self.check(identity)
        return identity

    def check(self, identity: Identity) -> None:
        """Raise AuthenticationFailed for a caller whose token is no longer valid."""
        if self._is_withdrawn(identity):
            raise AuthenticationFailed("token is revoked", REVOKED)

    def _is_withdrawn(self, identity: Identity) -> bool:
        return self._authentication is not None and self._authentication.is_withdrawn(identity)

    def watch(self, identity: Identity, ended: Callable[[], None]) -> Callable[[], None]:
        """Call ``ended``, on any thread, once the token of an identified client is no longer valid, also if that is so
        already; return a function that ends this."""
        if not identity.evidence:
            return _nothing
        key = object()
        self._open[key] = (identity, ended)
        if self._is_withdrawn(identity):
            ended()
        return lambda: _drop(self._open, key)

    async def _follow_keys(self) -> None:
        assert self._authentication is not None
        authentication = self._authentication
        await restarting("keys", lambda: follow_keys(authentication, self._end_withdrawn))

    def _end_withdrawn(self) -> None:
        for key, (identity, ended) in list(self._open.items()):
            if self._is_withdrawn(identity):
                _drop(self._open, key)
                ended()


def _is_unusable(file: WatchedFile) -> float:
    return float(file.is_unusable)


def _nothing() -> None:
    """Do nothing: the identity rests on no token."""


def _drop(opened: dict[object, tuple[Identity, Callable[[], None]]], key: object) -> None:
    opened.pop(key, None)
