"""Connections whose client has not shown a role: where ``authorized_roles`` are set, nothing is done for them (T5).

A client shows its role by the certificate of its TLS connection, as BookKeeper's BookieAuthZFactory wants it: the
organizational unit of the subject has values with semicolons between, each ``number:text``, and value 0 has the roles,
with commas between. The first one counts.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from bookie.metrics import BookieMetrics
from bookie.requests.connection import BookieConnection, Handler
from bookie.storage.codes import Code
from engine.base.slices import AddRun
from engine.wire import bookie_commands as wire
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb

log = logging.getLogger(__name__)

UNIT = "organizationalUnitName"
ROLES_NUMBER = "0"


def role_of(certificate: Mapping[str, Any] | None) -> str:
    """Return the role of a certificate, as ``ssl.SSLSocket.getpeercert`` returns it; empty without one."""
    for attributes in (certificate or {}).get("subject", ()):
        for name, value in attributes:
            for part in value.split(";") if name == UNIT else ():
                number, _, roles = part.partition(":")
                if number.strip() == ROLES_NUMBER:
                    return str(roles.partition(",")[0].strip())
    return ""


class Strangers:
    """The handler of connections that have not shown one of ``roles``. It grants TLS and refuses all else."""

    def __init__(
        self, roles: frozenset[str], handler: Callable[[], Handler], metrics: BookieMetrics
    ) -> None:
        """``handler`` returns the handler of clients with one of the roles."""
        self._roles = roles
        self._handler = handler
        self._metrics = metrics

    def handler_of(self, connection: BookieConnection) -> Handler:
        """Return the handler of a connection, when it is in TLS."""
        role = role_of(connection.certificate)
        if role in self._roles:
            return self._handler()
        reason = f"role {role!r} is not authorized" if role else "no certificate with a role"
        log.warning("client refused peer=%s reason=%s", connection.peer_name, reason)
        return self

    def adds(
        self, connection: BookieConnection, buf: bytes, start: int, stop: int, runs: list[AddRun]
    ) -> None:
        for run in runs:
            self._metrics.refused(Code.UNAUTHORIZED, run.count)
            for entry_id in range(run.first, run.first + run.count):
                connection.send(wire.add_reply(Code.UNAUTHORIZED, run.ledger_id, entry_id))

    def request(self, connection: BookieConnection, buf: bytes, start: int, stop: int) -> None:
        """Answer a request with the refusal. Raises BookieFrameError for one that has no such answer."""
        if stop - start > 4 and wire.is_v3(buf, start):
            request = v3.parse_request(buf, start, stop)
            if request.header.operation == pb.START_TLS and connection.offers_tls:
                connection.begin_tls(v3.start_tls_reply(request))
            else:
                connection.send(v3.refusal(request, Code.UNAUTHORIZED))
            return
        match wire.parse_request(buf, start, stop):
            case wire.AddRequest() as add:
                self._metrics.refused(Code.UNAUTHORIZED, 1)
                connection.send(
                    wire.add_reply(Code.UNAUTHORIZED, add.ledger_id, add.entry_id, add.version)
                )
            case wire.ReadRequest() as read:
                self._metrics.read(Code.UNAUTHORIZED, 0)
                connection.send(
                    wire.read_reply(
                        Code.UNAUTHORIZED, read.ledger_id, read.entry_id, b"", read.version
                    )
                )
            case _:
                raise wire.BookieFrameError("request of a client that has shown no role")

    def closed(self, connection: BookieConnection, error: Exception | None) -> None:
        self._handler().closed(connection, error)
