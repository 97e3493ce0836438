"""Provider of the method ``tls``: the certificate that the client has presented on its TLS connection. Pure."""

import ssl
from collections.abc import Callable, Collection, Sequence

from engine.auth.authenticators.provider import Authenticated, Presented
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import AuthenticationFailed, PeerCertificate


class CertificateProvider:
    """The role is the common name of the certificate's subject; the connection had the certificate verified."""

    name = "AuthenticationProviderTls"
    method = "tls"
    key_ids: Collection[str] = ()
    files: Sequence[WatchedFile] = ()

    def __init__(self, now_s: Callable[[], float]) -> None:
        """``now_s`` returns seconds since the Unix epoch."""
        self._now_s = now_s

    def revision(self) -> object:
        return None

    def authenticate(self, presented: Presented) -> Authenticated:
        certificate = presented.certificate
        if not certificate:
            raise AuthenticationFailed("Client unable to authenticate with TLS certificate")
        try:
            ends_at = float(ssl.cert_time_to_seconds(certificate["notAfter"]))
        except (KeyError, ValueError) as error:
            raise AuthenticationFailed("certificate without an end", "INVALID_CERTS") from error
        if self._now_s() >= ends_at:
            raise AuthenticationFailed("the client's certificate has ended", "INVALID_CERTS")
        return Authenticated(common_name(certificate), ends_at)


def common_name(certificate: PeerCertificate) -> str:
    """Return the most specific common name of the subject: the last one as certificates order it.

    Raises AuthenticationFailed.
    """
    for parts in reversed(certificate.get("subject", ())):
        for name, value in parts:
            if name == "commonName" and value.strip():
                return str(value)
    raise AuthenticationFailed("the client's certificate has no common name", "INVALID_CN")
