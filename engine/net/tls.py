"""TLS contexts for the Network seam, from PEM files: TLS 1.2 and later."""

import ssl

from engine.base.errors import MagnetarError


class TlsFileError(MagnetarError):
    """A certificate or key file cannot be used; the message names the file and why."""


def server_context(cert: str, key: str, *, client_ca: str | None = None) -> ssl.SSLContext:
    """Return the context of a listener with the certificate chain ``cert`` (leaf first) and the unencrypted private key
    ``key``, both files.

    With ``client_ca`` clients must present a certificate signed by one of its authorities. Raises TlsFileError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, cert, key)
    if client_ca is not None:
        _load_authorities(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    ca: str, *, cert: str | None = None, key: str | None = None, verify_hostname: bool = True
) -> ssl.SSLContext:
    """Return the context of a client that trusts only the authorities in the file ``ca``.

    With ``cert`` and ``key`` it presents a certificate of its own. With ``verify_hostname`` the server's certificate
    must be for the requested host; it must be trusted in any case. Raises TlsFileError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = verify_hostname
    _load_authorities(context, ca)
    if cert is not None or key is not None:
        if cert is None or key is None:
            raise TlsFileError("a client's certificate and its key go together: give both or none")
        _load_chain(context, cert, key)
    return context


def _load_chain(context: ssl.SSLContext, cert: str, key: str) -> None:
    for path in (cert, key):
        _check_readable(path)
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
