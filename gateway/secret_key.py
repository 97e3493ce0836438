"""The key that signs console sessions: created once, in the data directory, readable by its owner only."""

import os
from pathlib import Path

from django.core.management.utils import get_random_secret_key

from engine.base.disk.secret_files import keep_secret

FILE_NAME = "secret_key"


def read_or_create(data_dir: Path) -> str:
    """Return the key in ``data_dir``; create it (mode 0600) when it does not exist.

    Several processes may call it at once: the first to link its file wins, and the others read that file. Raises
    OSError when the directory cannot be written.
    """
    path = data_dir / FILE_NAME
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        draft = data_dir / f"{FILE_NAME}.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, get_random_secret_key().encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # Another process was first, and its key is used.
        finally:
            draft.unlink()
    keep_secret(path)
    return path.read_text().strip()
