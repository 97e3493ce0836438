"""The handshake with a client of the proxy, which may ask for a broker (A34)."""

from collections.abc import Callable
from typing import Any

from engine.auth.authentication import INVALID_ROLES
from engine.auth.credentials import Credentials, RolesRefused
from engine.auth.identity import Identity
from engine.net.handshake import Handshake
from engine.wire import pulsar_pb2 as pb


class ClientHandshake(Handshake):
    """Handshake in which a client that names a broker is answered later, by that broker.

    ``ask_broker()`` is called then, once the client is identified; ``request`` is its CONNECT.
    """

    def __init__(self, *given: Any, ask_broker: Callable[[], None], **named: Any) -> None:
        super().__init__(*given, **named)
        self._ask_broker = ask_broker
        self.request = pb.CommandConnect()
        self.accepted: Credentials | None = None
        """The credentials that were accepted last."""

    def connect(self, body: pb.CommandConnect) -> None:
        self.request = body
        if body.original_principal:
            # The broker would take the other proxy for the client, and judge that instead.
            self.refuse(RolesRefused(INVALID_ROLES))
            return
        super().connect(body)

    def complete(self, identity: Identity, credentials: Credentials) -> None:
        self.accepted = credentials
        if self.request.proxy_to_broker_url:
            self.client.identity = identity
            self._ask_broker()
        else:
            super().complete(identity, credentials)

    def renew(self, identity: Identity, credentials: Credentials) -> None:
        super().renew(identity, credentials)
        self.accepted = credentials

    def presented(self) -> tuple[str, bytes]:
        """Return the method and data that the client presented last, as text that CONNECT can forward."""
        if self.accepted is None:
            return "", b""
        data = self.accepted.data.decode("utf-8", "replace").encode()
        return self.accepted.method, data

    def hand_over(self, *, ends_with_credentials: bool) -> None:
        """Leave the connection to client and broker. No one can ask for new credentials in between their bytes: with
        ``ends_with_credentials`` the connection ends when those of the client do."""
        self.stop()
        expires_at = self.client.identity.expires_at
        if ends_with_credentials and expires_at is not None:
            self.call_at(expires_at, self.end)
