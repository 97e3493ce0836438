"""Errors of the Pulsar protocol: the numbers of ``ServerError``, and the exception for each. Pure.

``retriable`` is whether the same request may succeed later without change: the client libraries retry those. No text
may contain another error's name, because the Go client classifies errors by searching the text.
"""

from enum import IntEnum
from typing import ClassVar

from engine.base.errors import MagnetarError, PeerError


class ServerError(IntEnum):
    """Error numbers on the wire. A number outside this table makes C++ clients drop the connection."""

    UnknownError = 0
    MetadataError = 1
    PersistenceError = 2
    AuthenticationError = 3
    AuthorizationError = 4
    ConsumerBusy = 5
    ServiceNotReady = 6
    ProducerBlockedQuotaExceededError = 7
    ProducerBlockedQuotaExceededException = 8
    ChecksumError = 9
    UnsupportedVersionError = 10
    TopicNotFound = 11
    SubscriptionNotFound = 12
    ConsumerNotFound = 13
    TooManyRequests = 14
    TopicTerminatedError = 15
    ProducerBusy = 16
    InvalidTopicName = 17
    IncompatibleSchema = 18
    ConsumerAssignError = 19
    TransactionCoordinatorNotFound = 20
    InvalidTxnStatus = 21
    NotAllowedError = 22
    TransactionConflict = 23
    TransactionNotFound = 24
    ProducerFenced = 25


class CodedError(MagnetarError):
    """A refusal with its number on the wire; the text is shown by the client."""

    code: ClassVar[ServerError] = ServerError.UnknownError


class ProtocolViolation(PeerError):
    """A command that is valid in form but breaks the protocol, so that the client's connection must be closed."""


class RefusedError(CodedError):
    """An error that a broker answered to a request; the text is the broker's."""

    retriable = True


_LASTING = (
    ServerError.AuthenticationError,
    ServerError.AuthorizationError,
    ServerError.ChecksumError,
    ServerError.UnsupportedVersionError,
    ServerError.TopicNotFound,
    ServerError.SubscriptionNotFound,
    ServerError.ConsumerNotFound,
    ServerError.TopicTerminatedError,
    ServerError.InvalidTopicName,
    ServerError.IncompatibleSchema,
    ServerError.InvalidTxnStatus,
    ServerError.NotAllowedError,
    ServerError.TransactionNotFound,
    ServerError.ProducerFenced,
)
"""Errors that persist until something is changed; requests are not retried."""

REFUSALS: dict[ServerError, type[RefusedError]] = {
    code: type(
        f"Refused{code.name}",
        (RefusedError,),
        {
            "code": code,
            "retriable": code not in _LASTING,
            "__doc__": f"The broker answered {code.name}.",
        },
    )
    for code in ServerError
}
"""The exception class of each number. Catch RefusedError, or a certain one as
``REFUSALS[ServerError.TopicNotFound]``."""


def refusal(code: int, message: str) -> RefusedError:
    """Return the exception for a received error; unknown numbers count as UnknownError."""
    server_error = (
        ServerError(code) if code in ServerError._value2member_map_ else ServerError.UnknownError
    )
    return REFUSALS[server_error](message)
