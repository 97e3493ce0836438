"""The token by which processes of one instance know each other on the brokers' private HTTP port.

One random token per instance: ``MAGNETAR_INTERNAL_TOKEN``, else the file ``internal-token`` in the data directory (mode
0600), made by whichever process comes first. Read at process start only, so plain file calls are fine here.
"""

import hmac
import os
from pathlib import Path

from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError

TOKEN_HEADER = "X-Magnetar-Token"
TOKEN_FILE = "internal-token"
TOKEN_VARIABLE = "MAGNETAR_INTERNAL_TOKEN"
TOKEN_LENGTH_MIN = 16
OTHER_TOKEN = (
    "The broker has another internal token:"
    f" set {TOKEN_VARIABLE} of the gateway and of all brokers to the same"
)
_TOKEN_BYTES = 32


class TokenError(MagnetarError):
    """The token cannot be read, made, or is too short; the message says where it was looked for."""


def load_token(data_dir: Path, configured: str, entropy: Entropy) -> str:
    """The instance's token: ``configured`` when not empty, else from the file, which is made when missing.

    Two processes that start at once agree: the file appears whole and only once. Raises TokenError.
    """
    if configured:
        return _checked(configured, TOKEN_VARIABLE)
    path = data_dir / TOKEN_FILE
    try:
        if not path.exists():
            _make(path, entropy)
        return _checked(path.read_text(encoding="ascii").strip(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"cannot use the internal token file {path}: {error}") from error


def _checked(token: str, origin: str) -> str:
    if len(token) < TOKEN_LENGTH_MIN or not token.isascii() or not token.isprintable():
        raise TokenError(
            f"the internal token in {origin} must be at least {TOKEN_LENGTH_MIN} printable ASCII characters"
        )
    return token


def _make(path: Path, entropy: Entropy) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{TOKEN_FILE}.{entropy.hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, entropy.hex(_TOKEN_BYTES).encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)  # fails when another process was first: its token counts
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def token_matches(expected: str, offered: str | None) -> bool:
    """Whether the token offered by a caller is ours; takes the same time wherever they differ."""
    return hmac.compare_digest(expected.encode(), (offered or "").encode("utf-8", "replace"))
