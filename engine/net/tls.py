"""TLS contexts for the Network seam, from PEM files: TLS 1.2 and later."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.base.disk.secret_files import check_secret
from engine.base.errors import MagnetarError
from engine.base.settings import SettingsError, count, flag, text

log = logging.getLogger(__name__)

TLS_FACTORY = "org.apache.bookkeeper.tls.TLSContextFactory"
ROLES_FACTORY = "org.apache.bookkeeper.tls.BookieAuthZFactory"
"""BookKeeper's names, in settings, for TLS by files and for authorization by the roles in clients' certificates: the
only kinds here."""


class TlsFileError(MagnetarError):
    """A certificate or key file cannot be used; the message names the file and why."""


ContextSource = Callable[[], ssl.SSLContext]
"""Returns the context for a connection that begins now."""


class ReloadedContext:
    """A context made of files, and made anew once one of them has changed: a ContextSource.

    The files are checked when a connection begins, at most once in ``refresh_s`` seconds. While they cannot be used,
    as between the replacement of a certificate and of its key, the last context stays in use, and a warning is logged
    once for each state of the files.
    """

    def __init__(self, make: ContextSource, paths: Iterable[str | None], refresh_s: float) -> None:
        """Make the first context. Raises TlsFileError."""
        self._make = make
        self._paths = [path for path in paths if path]
        self._refresh_s = refresh_s
        self._checked_at = float("-inf")
        self._seen = self._state()
        self._context = make()

    def __call__(self) -> ssl.SSLContext:
        now = asyncio.get_running_loop().time()
        if now - self._checked_at >= self._refresh_s:
            self._checked_at = now
            self._reload()
        return self._context

    def _reload(self) -> None:
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._context = self._make()
        except TlsFileError as error:
            log.warning("changed certificates are not used: %s", error)
        else:
            log.info("certificates loaded again: %s", ", ".join(self._paths))

    def _state(self) -> list[tuple[int, int, int] | None]:
        state: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                stat = os.stat(path)
            except OSError:
                state.append(None)
            else:
                state.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return state


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """PEM files of a listener: the certificate chain ``cert`` (leaf first), its unencrypted private key, and optionally
    the authorities that sign clients' certificates.

    With ``client_ca`` clients are asked for a certificate, which must be trusted if they present one; with
    ``client_cert_required`` they must present one.
    """

    cert: str
    key: str
    client_ca: str = ""
    client_cert_required: bool = False

    def context(self) -> ssl.SSLContext:
        """Return a context of the files as they are. Raises TlsFileError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        _load_chain(context, self.cert, self.key)
        if self.client_ca:
            _load_authorities(context, self.client_ca)
            required = self.client_cert_required
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context

    def reloaded(self, refresh_s: float) -> ssl.SSLContext:
        """Return a context for a listener whose connections use the files as they are when the connection begins,
        which is checked at most once in ``refresh_s`` seconds. Raises TlsFileError."""
        source = ReloadedContext(self.context, (self.cert, self.key, self.client_ca), refresh_s)
        context = self.context()

        def switch(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            connection.context = source()

        context.sni_callback = switch  # called for every handshake, also without a name
        return context


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of a program's ports that have it, by PEM files with Pulsar's names."""

    tls_certificate_file_path: str = text(
        "",
        "PEM file of the certificate on the ports with TLS, leaf first (tlsCertificateFilePath)",
    )
    tls_key_file_path: str = text("", "PEM file of its key, unencrypted (tlsKeyFilePath)")
    tls_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign clients' certificates: clients may present one, and it must be trusted "
        "(tlsTrustCertsFilePath)",
    )
    tls_require_trusted_client_cert_on_connect: bool = flag(
        False,
        "whether clients need a trusted certificate (tlsRequireTrustedClientCertOnConnect)",
    )
    tls_cert_refresh_check_duration_sec: int = count(
        300,
        "seconds after which a new connection checks whether the certificates' files have changed; 0: each "
        "connection (tlsCertRefreshCheckDurationSec)",
    )

    def check(self, port: str) -> None:
        """Raise SettingsError when a file that the setting ``port``, which is set, needs is not named."""
        needed = ["tls_certificate_file_path", "tls_key_file_path"]
        if self.tls_require_trusted_client_cert_on_connect:
            needed.append("tls_trust_certs_file_path")
        for name in needed:
            if not getattr(self, name):
                raise SettingsError(f"{name} must name a file where {port} is set")

    def context(self) -> ssl.SSLContext:
        """Return the context of the ports, which uses changed files. Raises TlsFileError."""
        files = ServerFiles(
            self.tls_certificate_file_path,
            self.tls_key_file_path,
            client_ca=self.tls_trust_certs_file_path,
            client_cert_required=self.tls_require_trusted_client_cert_on_connect,
        )
        return files.reloaded(self.tls_cert_refresh_check_duration_sec)


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """PEM files of a client: the authorities that it trusts (empty: those of the operating system), and optionally a
    certificate of its own with its key.

    With ``verify_hostname`` the server's certificate must be for the requested host; it must be trusted in any case.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    verify_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a context of the files as they are. Raises TlsFileError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.verify_hostname
        if self.ca:
            _load_authorities(context, self.ca)
        else:
            context.load_default_certs()
        if self.cert or self.key:
            if not (self.cert and self.key):
                raise TlsFileError(
                    "a client's certificate and its key go together: give both or none"
                )
            _load_chain(context, self.cert, self.key)
        return context

    def reloaded(self, refresh_s: float) -> ContextSource:
        """Return a source of contexts, as ReloadedContext. Raises TlsFileError."""
        return ReloadedContext(self.context, (self.ca, self.cert, self.key), refresh_s)


def _load_chain(context: ssl.SSLContext, cert: str, key: str) -> None:
    for path in (cert, key):
        _check_readable(path)
    check_secret(key)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise TlsFileError(
            f"certificate {cert} and key {key} cannot be used: {_reason(error)}"
        ) from error


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    _check_readable(path)
    try:
        context.load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError) as error:
        raise TlsFileError(f"certificates in {path} cannot be used: {_reason(error)}") from error


def _check_readable(path: str) -> None:
    """Raise TlsFileError for an unreadable file, because ssl's own errors do not name the file."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise TlsFileError(f"cannot read {path}: {error.strerror}") from error


def _no_password() -> str:
    """Raise ValueError, where ssl would otherwise ask on the terminal and block the process."""
    raise ValueError("the key is encrypted")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).lower().replace("_", " ")
