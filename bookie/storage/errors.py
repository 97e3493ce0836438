"""What can go wrong in storage, by what the operator should do next."""

from engine.base.errors import MagnetarError


class StorageError(MagnetarError):
    """Root of this package's errors."""


class DamagedError(StorageError):
    """Bytes on disk are not what was written. The bookie does not start (or answers EIO): replace the disk."""


class JournalDamagedError(DamagedError):
    """A bad journal record is followed by good ones, or records are missing: cutting there would lose answered adds."""


class DiskFullError(StorageError):
    """No space left; nothing was answered. Retriable once space was freed."""

    retriable = True
