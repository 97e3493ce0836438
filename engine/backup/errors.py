"""Errors of backups. Each text is one line for the operator."""

from engine.base.errors import MagnetarError


class BackupError(MagnetarError):
    """A backup cannot be written, or the cluster cannot be read completely."""


class DamagedBackupError(BackupError):
    """A backup is incomplete or changed; the text names the file."""


class RestoreError(BackupError):
    """A restore is refused, or its result differs from the backup."""
