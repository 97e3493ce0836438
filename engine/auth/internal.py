"""Token that authenticates the processes of one instance on the brokers' private HTTP port.

An instance has one random token: ``MAGNETAR_INTERNAL_TOKEN``, else the file ``internal-token`` in the data directory
(mode 0600), which the first process creates. It is read only at process start, so blocking file calls are acceptable.
"""

import hmac
import os
from pathlib import Path

from engine.base.disk.secret_files import keep_secret, read_secret
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.settings import SettingsError

TOKEN_HEADER = "X-Magnetar-Token"
TOKEN_FILE = "internal-token"
TOKEN_VARIABLE = "MAGNETAR_INTERNAL_TOKEN"
INTERNAL_METHOD = "internal"
INTERNAL_ROLE = "internal"
"""The role of a process that presents the token; it acts for the client whose role is its identity's ``original``."""
TOKEN_LENGTH_MIN = 16
OTHER_TOKEN = (
    "The broker has another internal token:"
    f" set {TOKEN_VARIABLE} of the gateway and of all brokers to the same"
)
_TOKEN_BYTES = 32


class TokenError(MagnetarError):
    """The token cannot be read or created, or is too short; the message names its origin."""


def load_token(data_dir: Path, configured: str, entropy: Entropy) -> str:
    """Return the instance's token: ``configured``, which may name a file of it (``file:///path``), else that of the
    file in ``data_dir``, which is created if missing.

    Processes that start at the same time read the same token, because the complete file is created atomically.
    Raises TokenError.
    """
    if configured:
        try:
            configured = read_secret(configured, TOKEN_VARIABLE)
        except SettingsError as error:
            raise TokenError(str(error)) from error
        return _checked(configured, TOKEN_VARIABLE)
    path = data_dir / TOKEN_FILE
    try:
        if not path.exists():
            _create(path, entropy)
        keep_secret(path)
        return _checked(path.read_text(encoding="ascii").strip(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"cannot use the internal token file {path}: {error}") from error


def _checked(token: str, origin: str) -> str:
    if len(token) < TOKEN_LENGTH_MIN or not token.isascii() or not token.isprintable():
        raise TokenError(
            f"the internal token in {origin} must be at least {TOKEN_LENGTH_MIN} printable ASCII characters"
        )
    return token


def _create(path: Path, entropy: Entropy) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{TOKEN_FILE}.{entropy.hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, entropy.hex(_TOKEN_BYTES).encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)  # fails if another process was first, whose token is used then
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def token_matches(expected: str, offered: str | None) -> bool:
    """Return whether the token offered by a caller is the expected one, in time independent of their contents."""
    return hmac.compare_digest(expected.encode(), (offered or "").encode("utf-8", "replace"))
