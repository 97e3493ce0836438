"""Errors of a client's calls. ``retriable``: a retry may help; a RefusedError has the code of the answer."""

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
    """Root of transient errors, which may pass with time."""

    retriable = True


class MessageTooLargeError(MagnetarError):
    """A message above the broker's limit. Sending it would cost the connection with all its producers and consumers."""


class UnexpectedError(MagnetarError):
    """A programming error ended an operation; its waiters receive this error instead of waiting for ever."""


class UnreachableError(ClientError):
    """No connection to the broker was established in time."""


class NoBrokerError(ClientError):
    """No broker is known."""


class NoAnswerError(ClientError):
    """A request was not answered in time; it may have been carried out."""


class LostError(ClientError):
    """The connection ended; requests and messages in transit may have arrived."""


class SentAwayError(ClientError):
    """The broker closed the producer or consumer: attach it again.

    ``url`` and ``url_tls`` are those of the broker that serves the topic now; empty when it has to be looked up.
    """

    def __init__(self, text: str, url: str = "", url_tls: str = "") -> None:
        super().__init__(text)
        self.url = url
        self.url_tls = url_tls


class RedirectedError(ClientError):
    """A lookup was redirected too often, or to a broker without the TLS that is asked for."""


class CostlyPatternError(ClientError):
    """Brokers refuse to match topics against this pattern."""

    retriable = False
