"""Errors of starting and asking instances."""

from engine.base.errors import MagnetarError


class InstanceError(MagnetarError):
    """An instance cannot be started or does not answer; the text is for the function's owner."""
