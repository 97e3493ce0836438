"""Interface of the authentication providers. Pure."""

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import PeerCertificate
from engine.auth.identity import Evidence
from engine.base.errors import MagnetarError


class ProviderError(MagnetarError):
    """A provider cannot be set up; the message names the setting and has no part of a secret."""


@dataclass(frozen=True, slots=True, repr=False)
class Presented:
    """Credentials for one provider: the bytes that the client sent, and the certificate of its TLS connection."""

    data: bytes
    certificate: PeerCertificate | None = None


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Result of a check: the role, the end of the credentials in seconds since the Unix epoch, if they have one, and
    the evidence of a token."""

    role: str
    expires_at: float | None = None
    evidence: Evidence | None = field(default=None, compare=False)


Check = Authenticated | Awaitable[Authenticated]


class Provider(Protocol):
    """Checks the credentials of one method."""

    @property
    def name(self) -> str:
        """Apache's class name without its package, a label of the metrics."""
        ...

    @property
    def method(self) -> str:
        """Name of the method in CONNECT."""
        ...

    @property
    def key_ids(self) -> Collection[str]:
        """Ids of the keys by which it verifies tokens now (``Evidence.key_id``)."""
        ...

    @property
    def files(self) -> Sequence[WatchedFile]:
        """Files that it reads again when they change."""
        ...

    def revision(self) -> object:
        """Return a value that differs once earlier results are no longer valid, because a file has changed."""
        ...

    def authenticate(self, presented: Presented) -> Check:
        """Check credentials, at once or as an awaitable. Raises AuthenticationFailed."""
        ...
