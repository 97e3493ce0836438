"""Refusals of the broker, each with the error code that a client receives.

A text never contains the name of another error, because the Go client classifies errors by their text.
"""

from engine.base.names import TopicName
from engine.wire.errors import CodedError, ServerError


class BrokerError(CodedError):
    """A request was refused."""


class NotAuthorized(BrokerError):
    """The client lacks a right, or lost it."""

    code = ServerError.AuthorizationError


class MetadataError(BrokerError):
    """The request does not match what exists (unknown consumer, missing field, store failure)."""

    code = ServerError.MetadataError


class PersistenceError(BrokerError):
    """The entry could not be stored."""

    code = ServerError.PersistenceError
    retriable = True


class ChecksumError(BrokerError):
    code = ServerError.ChecksumError


class ConsumerBusy(BrokerError):
    """The subscription is in use, of another type, or a limit of consumers is reached."""

    code = ServerError.ConsumerBusy
    retriable = True


class ConsumerAssignError(BrokerError):
    """Key ranges of a Key_Shared consumer belong to another consumer."""

    code = ServerError.ConsumerAssignError


class ProducerBusy(BrokerError):
    """The producer name is in use or not permitted, or the topic's limit of producers is reached, as in Pulsar."""

    code = ServerError.ProducerBusy


class ProducerFenced(BrokerError):
    """Another producer is exclusive, or has been since: the client stops trying."""

    code = ServerError.ProducerFenced


class BacklogHeld(BrokerError):
    """The backlog exceeds its quota: clients wait until it does not."""

    code = ServerError.ProducerBlockedQuotaExceededError
    retriable = True


class BacklogExceeded(BrokerError):
    """The backlog exceeds its quota: the error is reported to the application."""

    code = ServerError.ProducerBlockedQuotaExceededException
    retriable = True


class ServiceNotReady(BrokerError):
    """The broker is not the owner, or is loading, closing or resetting: the client looks up and tries again."""

    code = ServerError.ServiceNotReady
    retriable = True


class NotServedHere(ServiceNotReady):
    """The topic's bundle is not owned by this broker, or is being released; nothing was done."""


class TopicNotFound(BrokerError):
    code = ServerError.TopicNotFound


class TopicIsPartitioned(TopicNotFound):
    """The topic is partitioned: a partitioned one was created while a plain one of the name was being created."""


class SubscriptionBusy(BrokerError):
    """The subscription's cursor is being moved by another request. Sent as UnknownError, as by Pulsar."""


class SubscriptionNotFound(BrokerError):
    code = ServerError.SubscriptionNotFound


class ConsumerNotFound(BrokerError):
    code = ServerError.ConsumerNotFound


class TooManyRequests(BrokerError):
    code = ServerError.TooManyRequests
    retriable = True


class TransactionCoordinatorNotFound(BrokerError):
    """The transaction coordinator is not served here, or is not ready: clients look it up again."""

    code = ServerError.TransactionCoordinatorNotFound
    retriable = True


class TransactionNotFound(BrokerError):
    """The coordinator knows no such transaction: it ended, or never began."""

    code = ServerError.TransactionNotFound


class InvalidTxnStatus(BrokerError):
    """The transaction's state permits no such step."""

    code = ServerError.InvalidTxnStatus


class TransactionConflict(BrokerError):
    """A message is acknowledged already, or is by another open transaction."""

    code = ServerError.TransactionConflict


class TopicTerminated(BrokerError):
    code = ServerError.TopicTerminatedError


class TopicMigrated(BrokerError):
    """The topic was migrated to another cluster: recent clients receive its service URLs in TOPIC_MIGRATED."""

    code = ServerError.ServiceNotReady
    retriable = True

    def __init__(self, topic: TopicName, url: str, url_tls: str) -> None:
        super().__init__(f"Topic {topic} was migrated to another cluster: {url or url_tls}")
        self.url = url
        self.url_tls = url_tls


class InvalidTopicName(BrokerError):
    code = ServerError.InvalidTopicName


class IncompatibleSchema(BrokerError):
    """The schema is invalid or incompatible with the topic's; the text has the reason."""

    code = ServerError.IncompatibleSchema


class NotAllowed(BrokerError):
    """The request is forbidden by the protocol or a policy, or is not implemented."""

    code = ServerError.NotAllowedError


def not_served(bundle: object, topic: TopicName, broker: str) -> NotServedHere:
    """Return the refusal of a topic whose bundle this broker does not own."""
    return NotServedHere(
        f"Namespace bundle ({bundle}) for topic ({topic}) not served by this instance:{broker}. "
        "Please redo the lookup."
    )
