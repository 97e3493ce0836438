"""Why a client's call failed. ``retriable``: trying again may help; a RefusedError has the code of the answer."""

from engine.base.errors import MagnetarError
from engine.wire.errors import REFUSALS, RefusedError, ServerError

__all__ = [
    "REFUSALS",
    "ClientError",
    "CostlyPatternError",
    "LostError",
    "MessageTooLargeError",
    "NoAnswerError",
    "NoBrokerError",
    "RedirectedError",
    "RefusedError",
    "SentAwayError",
    "ServerError",
    "UnexpectedError",
    "UnreachableError",
]


class ClientError(MagnetarError):
    """Root. Come again: these pass with time."""

    retriable = True


class MessageTooLargeError(MagnetarError):
    """A message is above what the broker takes; sent all the same it would cost the connection, and all on it."""


class UnexpectedError(MagnetarError):
    """A mistake of ours ended what was under way: whoever waits for it is told, and nobody waits for ever."""


class UnreachableError(ClientError):
    """No connection to the broker came to stand in time."""


class NoBrokerError(ClientError):
    """Nobody is known who could be asked."""


class NoAnswerError(ClientError):
    """A request was not answered in time; it may have been done."""


class LostError(ClientError):
    """The connection ended; what was on its way may have arrived."""


class SentAwayError(ClientError):
    """The broker closed the producer or consumer: look the topic up again."""


class RedirectedError(ClientError):
    """Brokers redirected us more often than makes sense."""


class CostlyPatternError(ClientError):
    """Brokers do not match topics against this pattern."""

    retriable = False
