"""Files of keys, which their owner alone can read; for the operators' commands."""

import os
from pathlib import Path


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a new file with this mode from its beginning. Raises OSError, also when it exists: keys are not replaced by
    accident."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
