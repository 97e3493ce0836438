"""The identity of the client of a WebSocket (A17)."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.contrib.auth import aget_user

from engine.auth.credentials import AuthenticationFailed
from engine.auth.http_credentials import AUTHORIZATION
from engine.auth.identity import UNAUTHENTICATED, Identity
from gateway.access.issued_tokens import level_of_token
from gateway.clusters.registry import clusters_of
from gateway.http.auth.callers import Callers
from gateway.http.auth.identity import acting_in, identity_of, note_use
from gateway.http.connection import certificate_of
from gateway.sign_in import AccessLevel


async def identify_socket(scope: dict[str, Any]) -> Identity:
    """Return the identity of the client of a handshake: by ``Authorization``, else by the query parameter ``token``,
    for clients that cannot set headers, else by the session of the console's user, else by the
    certificate of the connection. A session counts with an Origin, which was checked before: browsers, for which
    sessions are, always send it. ``scope["level"]`` is set to the caller's level, as ``request.level`` of a request.

    Raises AuthenticationFailed, RolesRefused.
    """
    scope["level"] = AccessLevel.FULL
    callers = clusters_of(scope).part(Callers)
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }
    if AUTHORIZATION not in headers and (token := _token(scope)):
        headers[AUTHORIZATION] = f"Bearer {token}"
    client = scope.get("client")
    address = f"{client[0]}:{client[1]}" if client else ""
    certificate = certificate_of(scope)
    identity = await callers.identity(headers, address, certificate, shown_only=True)
    if identity is not None:
        scope["level"] = await level_of_token(identity)
        note_use(clusters_of(scope), identity)
        return identity
    user = scope.get("user")
    if user is not None and "origin" in headers:
        acting = acting_in(user, scope["session"])
        if acting is not None:
            scope["level"] = acting.level
            return identity_of(acting)
    return await callers.identity(headers, address, certificate) or UNAUTHENTICATED


async def is_signed_in(scope: dict[str, Any], identity: Identity) -> bool:
    """Return whether the session that a socket was opened with still stands for ``identity`` and the level that it had
    then. Raises DatabaseError."""
    # The session that the handshake has read is kept by its scope, and would not show that it has ended.
    stored = import_module(settings.SESSION_ENGINE).SessionStore(scope["session"].session_key)
    user: Any = await aget_user(SimpleNamespace(session=stored))  # type: ignore[arg-type]
    acting = acting_in(user, stored)
    return acting is not None and identity_of(acting) == identity and acting.level == scope["level"]


def _token(scope: dict[str, Any]) -> str:
    """Return the query parameter ``token``, empty without one. Raises AuthenticationFailed."""
    query: bytes = scope["query_string"]
    # Without a name of the parameter, as for most sockets, the query is not parsed.
    if b"token=" not in query:
        return ""
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=100).get("token", [""])[-1]
    except ValueError as error:
        raise AuthenticationFailed(f"query with a token: {error}", "INVALID_QUERY") from error
