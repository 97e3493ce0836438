"""TLS contexts for the Network seam, from PEM files: TLS 1.2 and later."""

import ssl

from engine.base.errors import MagnetarError


class TlsFileError(MagnetarError):
    """A certificate or key file cannot be used; the message names the file and why."""


def server_context(cert: str, key: str, *, client_ca: str | None = None) -> ssl.SSLContext:
    """Of a listener that shows ``cert`` (its chain, leaf first) with the private key ``key``, unencrypted.

    With ``client_ca`` clients must show a certificate that one of its authorities signed. Raises TlsFileError.
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
    """Of a client that trusts the authorities in ``ca`` and no others.

    With ``cert`` and ``key`` it shows a certificate of its own. ``verify_hostname``: whether the server's certificate
    must be for the host that was asked for; it must be trusted either way. Raises TlsFileError.
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
            f"certificate {cert} and key {key} cannot be used: {_said(error)}"
        ) from error


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    _check_readable(path)
    try:
        context.load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError) as error:
        raise TlsFileError(f"certificates in {path} cannot be used: {_said(error)}") from error


def _check_readable(path: str) -> None:
    """ssl's own errors about files do not name them."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise TlsFileError(f"cannot read {path}: {error.strerror}") from error


def _no_password() -> str:
    """Instead of asking on the terminal, which would stop the process."""
    raise ValueError("the key is encrypted")


def _said(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).lower().replace("_", " ")
