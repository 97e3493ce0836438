"""Authentication of a server's clients, of the binary protocol and by HTTP."""

from collections.abc import Awaitable, Callable, Container

from engine.auth.authentication import Authentication, Outcomes, follow_keys
from engine.auth.http_credentials import credentials_of
from engine.auth.identity import Identity
from engine.auth.settings import IdentitySettings
from engine.base.clock import Clock
from engine.base.tasks import TaskScope, restarting
from engine.net.handshake import Authenticate, allow_all
from engine.net.http import Request
from engine.net.issuers import IssuerClient
from engine.net.network import Network
from engine.rpc.server import Identify


class ClientAuthentication:
    """Authentication by settings; without it every client is accepted."""

    def __init__(
        self,
        settings: IdentitySettings,
        network: Network,
        clock: Clock,
        revoked: Container[str] = frozenset(),
    ) -> None:
        """Tokens whose ids are in ``revoked`` are refused. Raises ProviderError, TlsFileError."""
        self._tasks = TaskScope("authentication")
        self._issuers: IssuerClient | None = None
        self._authentication: Authentication | None = None
        if not settings.general.authentication_enabled:
            return
        self._issuers = IssuerClient(settings, network)
        # cryptography costs memory, and is needed here alone
        from engine.auth.create import create_authentication

        self._authentication = create_authentication(
            settings,
            clock,
            self._issuers.fetch,
            judge_proxies=settings.authorization.authorization_enabled,
            revoked=revoked,
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

    def is_withdrawn(self, identity: Identity) -> bool:
        """Return whether a token by which a client was identified is no longer valid."""
        return self._authentication is not None and self._authentication.is_withdrawn(identity)

    def start(self, keys_changed: Callable[[], None]) -> None:
        """Follow the keys in files from now on, inside the running loop."""
        authentication = self._authentication
        if authentication is not None and authentication.outcomes.files:
            self._tasks.spawn(
                "keys",
                restarting("keys", lambda: follow_keys(authentication, keys_changed)),
            )

    async def close(self) -> None:
        """Follow nothing any more, and close the connections to issuers."""
        await self._tasks.close()
        if self._issuers is not None:
            self._issuers.close()

    def _of_request(self, request: Request) -> Identity | Awaitable[Identity]:
        assert self._authentication is not None
        credentials = credentials_of(
            request.headers,
            request.certificate,
            request.address,
            self._authentication.methods,
        )
        return self._authentication.of_request(credentials)
