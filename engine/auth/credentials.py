"""Credentials by which clients are identified, and refusals of them (A8). Pure."""

from dataclasses import dataclass
from typing import Any

from engine.base.errors import MagnetarError

PeerCertificate = dict[str, Any]
"""A certificate as ``ssl.SSLSocket.getpeercert`` returns it: ``subject``, ``subjectAltName``, ``notAfter``, …"""
NO_METHOD = "none"
"""Name of the method of a client that presents nothing."""
REFUSED = "Failed to authenticate"
"""Text for every refused client: the reason would help an attacker, and is only in the log."""


class AuthenticationFailed(MagnetarError):
    """The client is not identified. The error's text is for the client; ``reason``, for the log, has no part of a
    credential, and ``kind`` is the label of the metric."""

    def __init__(self, reason: str, kind: str = "UNKNOWN") -> None:
        super().__init__(REFUSED)
        self.reason = reason
        self.kind = kind


class RolesRefused(MagnetarError):
    """The client is identified, but must not act for another, or must name the client it acts for."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A request for more authentication data than the client sent."""

    method: str
    data: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Everything by which the client of a connection can be identified; its representation has none of the secrets.

    ``method`` and ``data`` are of CONNECT or of the last AUTH_RESPONSE. A proxy also sends the role of the client for
    which it acts (``original_principal``) and maybe that client's own credentials. ``certificate`` is the trusted one
    of the TLS connection, ``address`` the peer's ``host:port``.
    """

    method: str
    data: bytes
    original_principal: str | None = None
    original_method: str | None = None
    original_data: bytes | None = None
    certificate: PeerCertificate | None = None
    address: str = ""
    proxy_version: str = ""

    def __repr__(self) -> str:
        return f"Credentials(method={self.method!r}, address={self.address!r})"
