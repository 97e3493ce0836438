"""A data folder in memory, for an instance whose data is not needed afterwards."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gateway.standalone.data_folder import LOCK

SHARED_MEMORY = Path("/dev/shm")


class NoMemoryFolderError(Exception):
    """No file system in memory can be written. The message has the remedy."""


@contextmanager
def memory_folder(place: Path = SHARED_MEMORY) -> Iterator[Path]:
    """Yield a new folder in memory, which is removed at the end, as are those of killed instances.

    Raises NoMemoryFolderError.
    """
    prefix = f"magnetar-{os.getuid()}-"
    try:
        remove_abandoned(place, prefix)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    except OSError as error:
        raise NoMemoryFolderError(
            f"--memory: cannot write to {place}: {error.strerror}. Leave out --memory"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(place: Path, prefix: str) -> None:
    """Remove the folders of this user's instances that were killed, whose locks are free."""
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):  # It has no lock yet, is another user's, or its instance runs.
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
