"""Provider of the method ``basic``: names and passwords by an htpasswd file, which is read again when it changes."""

import asyncio
from collections.abc import Callable, Collection, Mapping

from engine.auth.authenticators.key_texts import read_bytes
from engine.auth.authenticators.password_hashes import check_form, verifies
from engine.auth.authenticators.provider import Authenticated, Presented, ProviderError
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import AuthenticationFailed

CHECKS_MAX = 2
"""Passwords that are hashed at a time, so that threads are left for other work."""
PENDING_MAX = 200
"""Passwords that may wait for their check; more are refused."""
UNKNOWN = "Unknown user or invalid password"


class BasicProvider:
    """Checks ``user:password``; the role is the user. Passwords are hashed in threads, a few at a time.

    An unknown user's password is compared with another user's hash, so that the time of the answer does not show which
    users exist.
    """

    name = "AuthenticationProviderBasic"
    method = "basic"
    key_ids: Collection[str] = ()

    def __init__(self, configured: str, now_s: Callable[[], float]) -> None:
        """Read the users. ``configured`` is the setting basic_auth_conf. Raises ProviderError."""
        self._configured = configured
        self._file = WatchedFile(configured, "basic_auth_conf", now_s)
        self.files = (self._file,)
        self._read()
        self._pending = 0
        self._slots = asyncio.Semaphore(CHECKS_MAX)

    def revision(self) -> object:
        """Return the version of the users, after a check of the file."""
        self._file.follow(self._read)
        return self._file.changes

    def _read(self) -> None:
        self._users = read_users(self._configured)

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
