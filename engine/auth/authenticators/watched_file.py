"""Files of keys and users that settings name, which are read again when they change (A25)."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from engine.base.errors import MagnetarError

log = logging.getLogger(__name__)

CHECK_S = 1.0
"""Shortest time between two checks of a file."""
_State = tuple[int, int, int] | None


class WatchedFile:
    """The file of a setting, checked on demand; without one, for a value that the setting itself contains.

    ``is_unusable`` is true from a change that cannot be used until the next one that can; what was read before serves
    meanwhile.
    """

    def __init__(self, configured: str, setting: str, now_s: Callable[[], float]) -> None:
        """Look at the file, before it is read first. ``now_s`` returns seconds since the Unix epoch."""
        self.setting = setting
        self.is_unusable = False
        self.changes = 0
        """Number of changes that were read."""
        self._path = path_of(configured)
        self._now_s = now_s
        self._looked_at_s = now_s()
        self._state = self._look()

    @property
    def exists(self) -> bool:
        """False where the setting contains the value itself."""
        return self._path is not None

    def follow(self, read: Callable[[], None]) -> None:
        """Call ``read`` if the file has changed since the last call; it is checked at most once in CHECK_S.

        ``read`` raises MagnetarError for a file that cannot be used, which is logged.
        """
        now_s = self._now_s()
        if self._path is None or 0 <= now_s - self._looked_at_s < CHECK_S:
            return
        self._looked_at_s = now_s
        state = self._look()
        if state == self._state:
            return
        self._state = state
        try:
            read()
        except MagnetarError as error:
            self.is_unusable = True
            log.warning(
                "the changed %s is not used, the former one serves: %s", self.setting, error
            )
        else:
            self.is_unusable = False
            self.changes += 1
            log.info("%s read again", self.setting)

    def _look(self) -> _State:
        if self._path is None:
            return None
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def path_of(configured: str) -> Path | None:
    """Return the path of the file that a setting names; None for what the setting itself contains."""
    text = configured.strip()
    if text.startswith("data:"):
        return None
    if text.startswith("file:"):
        return Path(unquote_to_bytes(urlsplit(text).path).decode())
    try:
        return Path(text) if text and Path(text).is_file() else None
    except (OSError, ValueError):
        return None
