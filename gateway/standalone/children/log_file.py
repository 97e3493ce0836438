"""The log file of a child: its bound on disk, and the line that explains why the child ended."""

import json
import re
import shutil
from pathlib import Path

from engine.base import log as logs

LOG_KEEP_BYTES = 64 << 20
LAST_MESSAGE_MAX = 1000
"""Characters. Room for a path several times and the remedy, which is at the end of a message."""
STACK_LINES = 60
CAUSE = "Caused by: "
HARMLESS = re.compile(r"WARNING: ")
"""Java's warnings about its own options and modules."""


class LogFile:
    """The output of a child: at most about ``2 * keep_bytes`` on disk, the older half in ``<name>.log.1``."""

    def __init__(self, path: Path, keep_bytes: int = LOG_KEEP_BYTES) -> None:
        self.path = path
        self._keep_bytes = keep_bytes

    def rotate(self) -> None:
        """Copy the end of a file longer than ``keep_bytes`` to ``.log.1`` and truncate the file.

        The child's own descriptor stays valid. Lines written between the copy and the truncation are lost, as with
        logrotate's copytruncate.
        """
        try:
            size = self.path.stat().st_size
            if size <= self._keep_bytes:
                return
            with self.path.open("rb+") as log, self.path.with_suffix(".log.1").open("wb") as old:
                log.seek(size - self._keep_bytes)
                shutil.copyfileobj(log, old)
                log.truncate(0)
        except FileNotFoundError:
            return

    def last_message(self) -> str:
        """Return the line that explains best why the child ended, of at most LAST_MESSAGE_MAX; else an empty text.

        It is the last critical record, else the innermost cause of a Java stack trace, else the last error, else the
        last line.
        """
        try:
            with self.path.open("rb") as log:
                log.seek(max(self.path.stat().st_size - 8192, 0))
                lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        except OSError:
            return ""
        lines = [_as_text(line) for line in lines if line and not HARMLESS.match(line)]
        critical = [line for line in lines[-20:] if " CRITICAL " in line]
        causes = [
            line.removeprefix(CAUSE) for line in lines[-STACK_LINES:] if line.startswith(CAUSE)
        ]
        errors = [line for line in lines[-20:] if " ERROR " in line]
        return logs.one_line((critical or causes or errors or lines or [""])[-1][:LAST_MESSAGE_MAX])


def _as_text(line: str) -> str:
    """Return a record of ``log_format`` json in the form of ``text``; any other line unchanged."""
    try:
        record = json.loads(line)
        return " ".join(str(record[name]) for name in ("time", "level", "logger", "message"))
    except (ValueError, TypeError, KeyError):
        return line
