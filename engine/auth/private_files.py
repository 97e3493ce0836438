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


def replace_private(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, in place of one that exists: readers see the old or the new one, whole, also
    when several processes write it. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    write_private(draft, data)
    os.replace(draft, path)
