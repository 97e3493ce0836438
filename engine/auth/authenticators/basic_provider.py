"""Provider of the method ``basic``: names and passwords by an htpasswd file, which is read again when it changes."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from engine.auth.authenticators.key_texts import read_bytes
from engine.auth.authenticators.password_hashes import check_form, verifies
from engine.auth.authenticators.provider import Authenticated, Presented, ProviderError
from engine.auth.credentials import AuthenticationFailed

log = logging.getLogger(__name__)

CHECK_S = 1.0
"""Time between looks at the file."""
CHECKS_MAX = 2
"""Passwords that are hashed at a time, so that threads are left for other work."""
PENDING_MAX = 200
"""Passwords that may wait for their check; more are refused."""
UNKNOWN = "Unknown user or invalid password"
_State = tuple[int, int, int] | None


class BasicProvider:
    """Checks ``user:password``; the role is the user. Passwords are hashed in threads, a few at a time.

    An unknown user's password is compared with another user's hash, so that the time of the answer does not show which
    users exist.
    """

    name = "AuthenticationProviderBasic"
    method = "basic"

    def __init__(self, configured: str, now_s: Callable[[], float]) -> None:
        """Read the users. ``configured`` is the setting basic_auth_conf. Raises ProviderError."""
        self._configured = configured
        self._path = _path_of(configured)
        self._now_s = now_s
        self._looked_at = now_s()
        self._state = self._file_state()
        self._users = read_users(configured)
        self._pending = 0
        self._slots = asyncio.Semaphore(CHECKS_MAX)

    def revision(self) -> object:
        """Return the file's state as it was seen last, after a look at most once in CHECK_S."""
        now_s = self._now_s()
        if self._path is not None and not 0 <= now_s - self._looked_at < CHECK_S:
            self._looked_at = now_s
            self._reload()
        return self._state

    def _reload(self) -> None:
        state = self._file_state()
        if state == self._state:
            return
        self._state = state
        try:
            self._users = read_users(self._configured)
        except ProviderError as error:
            log.warning("the changed users are not used: %s", error)
        else:
            log.info("users read again users=%d", len(self._users))

    def _file_state(self) -> _State:
        if self._path is None:
            return None
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return (stat.st_ino, stat.st_size, stat.st_mtime_ns)

    async def authenticate(self, presented: Presented) -> Authenticated:
        """Check a name and a password. Raises AuthenticationFailed. Cancel-safe."""
        self.revision()
        name, colon, password = presented.data.partition(b":")
        if not colon:
            raise AuthenticationFailed("not a user and a password", "INVALID_AUTH_DATA")
        try:
            user = name.decode("utf-8")
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("user is not UTF-8", "INVALID_AUTH_DATA") from error
        stored = self._users.get(user)
        if self._pending >= PENDING_MAX:
            raise AuthenticationFailed("too many passwords are being checked")
        self._pending += 1
        try:
            compared = stored if stored is not None else next(iter(self._users.values()))
            async with self._slots:
                loop = asyncio.get_running_loop()
                right = await loop.run_in_executor(None, verifies, compared, password)
        finally:
            self._pending -= 1
        if stored is None or not right:
            raise AuthenticationFailed(UNKNOWN, "INVALID_AUTH_DATA")
        return Authenticated(user)


def read_users(configured: str) -> Mapping[str, str]:
    """Return the hashes of an htpasswd file by user. Raises ProviderError, which names the line."""
    if not configured:
        raise ProviderError("basic_auth_conf must name an htpasswd file where basic is a provider")
    try:
        text = read_bytes(configured, "basic_auth_conf", is_secret=True).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProviderError("basic_auth_conf is not UTF-8") from error
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        user, colon, stored = entry.partition(":")
        if not colon or not user:
            raise ProviderError(f"basic_auth_conf line {number}: not a user and a hash")
        try:
            check_form(stored)
        except ValueError as error:
            raise ProviderError(f"basic_auth_conf line {number}: {error}") from error
        users[user] = stored
    if not users:
        raise ProviderError("basic_auth_conf has no users")
    return users


def _path_of(configured: str) -> Path | None:
    """Return the path of the file that is read; None for what the setting itself contains."""
    if configured.startswith("data:"):
        return None
    if configured.startswith("file:"):
        return Path(unquote_to_bytes(urlsplit(configured).path).decode())
    try:
        return Path(configured) if Path(configured).is_file() else None
    except (OSError, ValueError):
        return None
