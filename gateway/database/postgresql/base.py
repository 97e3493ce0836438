"""Connections that are replaced after the server has ended them, and refused at once while it is away.

Django replaces them at the beginning and the end of its requests, which the gateway's handler does not announce: the
thread of asynchronous calls keeps its connection. All requests share this thread, so that one that waits for a server
that is away would delay all others (A35).
"""

import time
from typing import Any, ClassVar

from django.db.backends.postgresql import base

from gateway.database.postgresql.bounded import BoundedConnection

RETRY_S = 1.0
"""Time for which a server that could not be reached is not tried again."""


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection of a thread."""

    _away_until_s: ClassVar[dict[str, float]] = {}
    """Times until which a server is not tried again, by alias; none where it was reached at the last attempt."""

    def ensure_connection(self) -> None:
        """Connect if there is no connection, or none that serves after an error. Raises OperationalError."""
        if self.connection is not None and self.errors_occurred and not self.in_atomic_block:
            self.errors_occurred = False
            if not self.is_usable():
                self.close()
                with self.wrap_database_errors:
                    self._reach()
        super().ensure_connection()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection of the pool. Raises psycopg's OperationalError, at once while the server is away."""
        if self.alias in self._away_until_s:
            self._reach()
        try:
            return super().get_new_connection(conn_params)
        except self.Database.OperationalError:
            # The pool says only that it has none. Its server may be away, or all are in use.
            self._reach()
            raise

    def _reach(self) -> None:
        """Connect apart from the pool, which tries for as long as its caller waits. Raises psycopg's OperationalError
        when the server cannot be reached now or could not a moment ago."""
        if time.monotonic() < self._away_until_s.get(self.alias, 0.0):
            raise self.Database.OperationalError("the server could not be reached a moment ago")
        try:
            self.Database.connect(**self.get_connection_params()).close()
        except self.Database.OperationalError:
            self._away_until_s[self.alias] = time.monotonic() + RETRY_S
            raise
        self._away_until_s.pop(self.alias, None)

    def _configure_connection(self, connection: Any) -> bool:
        """Prepare a new connection of the pool."""
        if isinstance(connection, BoundedConnection):
            connection.limit(bounded=True)
        parent: Any = super()
        changed: bool = parent._configure_connection(connection)
        return changed
