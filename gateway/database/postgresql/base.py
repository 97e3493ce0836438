"""Connections that are replaced after the server has ended them.

Django does that at the beginning and the end of its requests, which the gateway's handler does not announce: the thread
of asynchronous calls keeps its connection.
"""

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection of a thread."""

    def ensure_connection(self) -> None:
        """Connect if there is no connection, or none that serves after an error. Raises OperationalError."""
        if self.connection is not None and self.errors_occurred and not self.in_atomic_block:
            self.errors_occurred = False
            if not self.is_usable():
                self.close()
        super().ensure_connection()
