"""Root of all our errors. A family says as class attributes whether trying again may help; facts are fields."""


class MagnetarError(Exception):
    """Root. ``retriable``: the same request may succeed later without change."""

    retriable = False


class MisuseError(MagnetarError):
    """Our own caller broke a rule of the API: a bug on our side."""


class PeerError(MagnetarError):
    """The other side of a connection sent what it must not."""


class WorldError(MagnetarError):
    """The world failed: a disk, a network, a store."""

    retriable = True


class InvalidNameError(MagnetarError):
    """A tenant, namespace, topic or subscription name breaks the rules; the message names the part and the rule."""


class AdminError(MagnetarError):
    """An administrative operation was refused. ``status`` is the HTTP status Pulsar gives, ``reason`` its text."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
