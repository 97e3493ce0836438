"""The function's log as messages of its log topic."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime

LINES_MAX = 5000
"""Lines that wait to be sent; further ones are counted and left out."""
LINE_CHARACTERS_MAX = 16 * 1024


class LogOutput(logging.Handler):
    """Passes the texts of records to ``send``, from any thread, at most ``LINES_MAX`` ahead of ``sent``."""

    def __init__(self, send: Callable[[str], None]) -> None:
        super().__init__()
        self._send = send
        self._pending = 0
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        # Its own client's records would cause others.
        if record.name.startswith("engine."):
            return
        if self._pending >= LINES_MAX:
            self._left_out += 1
            return
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            self._pass(f"{left_out} lines were left out: the log topic is too slow")
        try:
            at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S +0000")
            self._pass(f"[{at}] [{record.levelname}]: {self.format(record)}")
        except Exception:
            self.handleError(record)

    def _pass(self, line: str) -> None:
        self._pending += 1
        self._send(line[:LINE_CHARACTERS_MAX])

    def sent(self, count: int) -> None:
        """Note lines that are stored, or failed."""
        self._pending -= count
