"""Connections whose calls are bounded in time: a server that stands still would hold their thread for ever (A35)."""

import time
from collections.abc import Generator
from typing import Any

import psycopg

STATEMENT_S = 10.0
"""Longest time that the server works on a statement, waits for locks included: as long as a writer waits in SQLite."""
ANSWER_S = STATEMENT_S + 2.0
"""Longest time that a call of a connection takes. The server is first to give up, if it lives: the outcome is known."""
IDLE_TRANSACTION_S = 30.0
"""Time after which the server ends the transaction of a gateway that stands still, and with it its locks."""
STEP_S = 0.1


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer a call within ``ANSWER_S``."""

    limit_s: float | None = ANSWER_S
    """Longest time of a call; None during migrations."""

    def wait(  # type: ignore[override]
        self, gen: Any, interval: float = STEP_S, **options: Any
    ) -> Any:
        """Run a call. Raises OperationalError after the limit."""
        return super().wait(self._bounded(gen), interval, **options)

    def _bounded(self, gen: Any) -> Generator[Any, Any, Any]:
        """Yield what ``gen`` waits for, until the limit."""
        ends_at_s = None if self.limit_s is None else time.monotonic() + self.limit_s
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and ends_at_s is not None and time.monotonic() > ends_at_s:
                    # What the server answers later would be taken for the answer to another statement.
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server did not answer within {self.limit_s:g} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def limit(self, *, bounded: bool) -> None:
        """Bound the time of statements, or lift the bounds."""
        self.limit_s = ANSWER_S if bounded else None
        for name, limit_s in (
            ("statement_timeout", STATEMENT_S),
            ("idle_in_transaction_session_timeout", IDLE_TRANSACTION_S),
        ):
            value = int(limit_s * 1000) if bounded else 0
            self.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
