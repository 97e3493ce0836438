"""Credentials of an HTTP request, from its headers and the certificate of its connection. Pure."""

import base64
import binascii
from collections.abc import Mapping

from engine.auth.credentials import (
    NO_METHOD,
    AuthenticationFailed,
    Credentials,
    PeerCertificate,
)

AUTHORIZATION = "authorization"
METHOD_HEADER = "x-pulsar-auth-method-name"
ORIGINAL_PRINCIPAL = "x-original-principal"
_SCHEMES = {"Bearer": "token", "Basic": "basic"}


def credentials_of(
    headers: Mapping[str, str],
    certificate: PeerCertificate | None,
    address: str,
    methods: frozenset[str],
) -> Credentials:
    """Return what a request presents. Names of ``headers`` are in lower case; ``methods`` are the configured ones.

    A certificate counts only without ``Authorization``: invalid credentials never fall back to others. Raises
    AuthenticationFailed for credentials of an unknown form, and for those of another method than the named one.
    """
    method, data = _shown(headers.get(AUTHORIZATION, ""))
    if method == NO_METHOD and certificate and "tls" in methods:
        method = "tls"
    named = headers.get(METHOD_HEADER)
    if named is not None and named not in methods:
        raise AuthenticationFailed(f"Unsupported authentication method: [{named[:50]}].")
    if named is not None and named != method:
        if named != "tls":
            raise AuthenticationFailed("the request has no credentials of the method that it names")
        method, data = named, b""
    return Credentials(
        method,
        data,
        headers.get(ORIGINAL_PRINCIPAL) or None,
        certificate=certificate,
        address=address,
    )


def _shown(value: str) -> tuple[str, bytes]:
    """Return the method and the data of an ``Authorization`` header. Raises AuthenticationFailed."""
    if not value.strip():
        return NO_METHOD, b""
    scheme, _, rest = value.strip().partition(" ")
    method = _SCHEMES.get(scheme)
    if method is None:
        raise AuthenticationFailed("Invalid HTTP Authorization header", "INVALID_HEADER")
    if method == "token":
        return method, rest.strip().encode("latin-1", "replace")
    try:
        return method, base64.b64decode(rest.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationFailed("Invalid HTTP Authorization header", "INVALID_HEADER") from error
