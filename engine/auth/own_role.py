"""The role by which a broker logs in at brokers, itself included, checked at its start.

A broker reads and writes the topics of its own policies as a client, so that its role must be a superuser's where
rights are judged.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from engine.auth.authenticators.provider import ProviderError
from engine.auth.credentials import (
    AuthenticationFailed,
    Challenge,
    Credentials,
    RolesRefused,
)
from engine.auth.identity import Identity
from engine.base.errors import MagnetarError

log = logging.getLogger(__name__)

CHECK_S = 5.0
"""Time limit of the check: an issuer of tokens may not answer."""
Authenticate = Callable[[Credentials], Identity | Challenge | Awaitable[Identity | Challenge]]
PARAMETERS = "broker_client_authentication_parameters"


async def check_own_role(
    authenticate: Authenticate,
    present: Callable[[bytes], tuple[str, bytes]],
    certificate_path: str,
    superusers: frozenset[str],
) -> None:
    """Check that the credentials that ``present`` returns are those of a superuser.

    ``certificate_path`` is the file of the certificate that connections present. Credentials that are not accepted, or
    cannot be checked now, are reported in the log, since they may be renewed while the broker runs. Raises
    ProviderError for a role that is no superuser.
    """
    try:
        async with asyncio.timeout(CHECK_S):
            role = await _own_role(authenticate, present, certificate_path)
    except RolesRefused as error:
        raise ProviderError(
            f"{PARAMETERS}: the role of this broker must not be in proxy_roles: {error}"
        ) from error
    except (MagnetarError, OSError, ValueError, TimeoutError) as error:
        reason = error.reason if isinstance(error, AuthenticationFailed) else error or "timed out"
        log.error("%s: this broker cannot log in at brokers by them now: %s", PARAMETERS, reason)
        return
    if role not in superusers:
        raise ProviderError(
            f"{PARAMETERS}: role {role!r} must be in super_user_roles, because this broker reads and writes the topics "
            "of its policies as a client of that role"
        )


async def _own_role(
    authenticate: Authenticate,
    present: Callable[[bytes], tuple[str, bytes]],
    certificate_path: str,
) -> str | None:
    method, data = present(b"")
    if method == "tls":
        return _common_name(certificate_path)
    answer = authenticate(Credentials(method, data, address="this broker"))
    identity = await answer if isawaitable(answer) else answer
    if isinstance(identity, Challenge):
        raise ValueError(f"the method {method} asks for more")
    return identity.role


def _common_name(path: str) -> str | None:
    """Return the most specific common name in a PEM file; None without one. Raises OSError, ValueError."""
    # cryptography costs memory, and is needed only where authentication is on
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    with open(path, "rb") as file:
        subject = x509.load_pem_x509_certificate(file.read()).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else None
