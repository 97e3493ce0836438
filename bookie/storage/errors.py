"""Errors of the storage, one class for each action an operator takes next."""

from engine.base.errors import MagnetarError


class StorageError(MagnetarError):
    """Root of this package's errors."""


class DamagedError(StorageError):
    """Bytes on disk that are not what was written. The bookie does not start (or answers EIO): replace the disk."""


class JournalDamagedError(DamagedError):
    """A bad journal record followed by good ones, or missing records. Cutting there would lose acknowledged adds."""


class LaterFormatError(StorageError):
    """A later release wrote a file. The bookie does not start: start that release again."""


class DirectoryFailedError(OSError):
    """A ledger directory was taken out because its disk failed; the same can be written to another."""


class DiskFullError(StorageError):
    """No space left; no answer was sent. Retriable once space is freed."""

    retriable = True
