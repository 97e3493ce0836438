"""The identity of the client of a WebSocket (A17)."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from engine.auth.credentials import AuthenticationFailed
from engine.auth.http_credentials import AUTHORIZATION
from engine.auth.identity import UNAUTHENTICATED, Identity
from gateway.access.issued_tokens import level_of_token, person_of_token, personal_level
from gateway.clusters.registry import clusters_of
from gateway.http.auth.callers import Callers
from gateway.http.auth.identity import SESSION, acting_in, identity_of, note_use
from gateway.http.connection import certificate_of
from gateway.people.held_people import Credential, HeldPeople, Known
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
        scope["level"] = await level_of_token(identity, clusters_of(scope).part(HeldPeople))
        note_use(clusters_of(scope), identity)
        return identity
    user = scope.get("user")
    if user is not None and "origin" in headers:
        acting = acting_in(user, scope["session"])
        if acting is not None:
            scope["level"] = acting.level
            return identity_of(acting)
    return await callers.identity(headers, address, certificate) or UNAUTHENTICATED


def watch_credentials(
    scope: dict[str, Any], identity: Identity, ended: Callable[[], None]
) -> Callable[[], None]:
    """Call ``ended``, on any thread, once the credentials of a socket's client do not give this identity at this level
    any more; return a function that ends this. Called on the socket's loop.

    That is so within a second after the token is revoked (A24), the session is ended, or the person may not sign in,
    loses the role or has it at another level (A20, A30).
    """
    unwatch_token = clusters_of(scope).part(Callers).watch(identity, ended)
    level: str = scope["level"]
    if identity.method == SESSION:
        credential = Credential(session=scope["session"].session_key)
    elif person := person_of_token(identity):
        credential = Credential(person=person)
    else:
        return unwatch_token

    def stands(known: Known | None) -> bool:
        if identity.method != SESSION:
            return personal_level(identity, known) == level
        acting = None if known is None else acting_in(known.user, known.data)
        if acting is None or identity_of(acting) != identity:
            return False
        return acting.level == level

    unwatch_person = clusters_of(scope).part(HeldPeople).watch(credential, stands, ended)

    def stop() -> None:
        unwatch_token()
        unwatch_person()

    return stop


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
