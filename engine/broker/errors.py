"""Refusals of the broker, each with the wire code a client sees. Texts never hold another error's name: Go sorts by text."""

from typing import ClassVar

from engine.base.errors import MagnetarError
from engine.base.names import TopicName


class ServerErrorCode:
    """Numbers of ``ServerError`` in the Pulsar binary protocol."""

    UNKNOWN = 0
    METADATA = 1
    PERSISTENCE = 2
    AUTHENTICATION = 3
    AUTHORIZATION = 4
    CONSUMER_BUSY = 5
    SERVICE_NOT_READY = 6
    CHECKSUM = 9
    UNSUPPORTED_VERSION = 10
    TOPIC_NOT_FOUND = 11
    SUBSCRIPTION_NOT_FOUND = 12
    CONSUMER_NOT_FOUND = 13
    TOO_MANY_REQUESTS = 14
    TOPIC_TERMINATED = 15
    PRODUCER_BUSY = 16
    INVALID_TOPIC_NAME = 17
    INCOMPATIBLE_SCHEMA = 18
    CONSUMER_ASSIGN = 19
    NOT_ALLOWED = 22
    PRODUCER_FENCED = 25


class BrokerError(MagnetarError):
    """A request was refused. ``code`` is the wire's ServerError; the text is what the client shows."""

    code: ClassVar[int] = ServerErrorCode.UNKNOWN


class MetadataError(BrokerError):
    """The request does not fit what exists (unknown consumer, missing field, store failure)."""

    code = ServerErrorCode.METADATA


class PersistenceError(BrokerError):
    """The entry could not be stored."""

    code = ServerErrorCode.PERSISTENCE
    retriable = True


class ChecksumError(BrokerError):
    code = ServerErrorCode.CHECKSUM


class ConsumerBusy(BrokerError):
    """The subscription is taken, of another type, or at its limit of consumers."""

    code = ServerErrorCode.CONSUMER_BUSY


class ProducerBusy(BrokerError):
    """The producer name is taken, or a name is not allowed (Pulsar maps naming errors here)."""

    code = ServerErrorCode.PRODUCER_BUSY


class ServiceNotReady(BrokerError):
    """Not the owner, or busy loading, closing, resetting: the client looks up and tries again."""

    code = ServerErrorCode.SERVICE_NOT_READY
    retriable = True


class TopicNotFound(BrokerError):
    code = ServerErrorCode.TOPIC_NOT_FOUND


class SubscriptionNotFound(BrokerError):
    code = ServerErrorCode.SUBSCRIPTION_NOT_FOUND


class ConsumerNotFound(BrokerError):
    code = ServerErrorCode.CONSUMER_NOT_FOUND


class TooManyRequests(BrokerError):
    code = ServerErrorCode.TOO_MANY_REQUESTS
    retriable = True


class TopicTerminated(BrokerError):
    code = ServerErrorCode.TOPIC_TERMINATED


class InvalidTopicName(BrokerError):
    code = ServerErrorCode.INVALID_TOPIC_NAME


class NotAllowed(BrokerError):
    """Forbidden by a rule of the protocol or a policy, or not built."""

    code = ServerErrorCode.NOT_ALLOWED


class ProtocolViolation(BrokerError):
    """The client broke the protocol so that its connection must be closed."""


def not_served(bundle: object, topic: TopicName, broker: str) -> ServiceNotReady:
    """The refusal of a topic whose bundle this broker does not own."""
    return ServiceNotReady(
        f"Namespace bundle ({bundle}) for topic ({topic}) not served by this instance:{broker}. "
        "Please redo the lookup."
    )
