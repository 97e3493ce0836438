"""Refusals of the broker, each with the wire code a client sees.

Texts never hold another error's name: the Go client sorts by text.
"""

from engine.base.names import TopicName
from engine.wire.errors import CodedError, ServerError


class BrokerError(CodedError):
    """A request was refused."""


class MetadataError(BrokerError):
    """The request does not fit what exists (unknown consumer, missing field, store failure)."""

    code = ServerError.MetadataError


class PersistenceError(BrokerError):
    """The entry could not be stored."""

    code = ServerError.PersistenceError
    retriable = True


class ChecksumError(BrokerError):
    code = ServerError.ChecksumError


class ConsumerBusy(BrokerError):
    """The subscription is taken, of another type, or it or its topic at the limit of consumers."""

    code = ServerError.ConsumerBusy
    retriable = True


class ConsumerAssignError(BrokerError):
    """A Key_Shared consumer's ranges cannot be given to it."""

    code = ServerError.ConsumerAssignError


class ProducerBusy(BrokerError):
    """The producer name is taken, the topic at its limit of producers, or a name not allowed (as Pulsar has it)."""

    code = ServerError.ProducerBusy


class ProducerFenced(BrokerError):
    """Another producer has, or had since, the topic to itself: the client gives up."""

    code = ServerError.ProducerFenced


class BacklogHeld(BrokerError):
    """The backlog is beyond its quota: producers wait until it is not."""

    code = ServerError.ProducerBlockedQuotaExceededError
    retriable = True


class BacklogExceeded(BrokerError):
    """The backlog is beyond its quota: producers are told so."""

    code = ServerError.ProducerBlockedQuotaExceededException
    retriable = True


class ServiceNotReady(BrokerError):
    """Not the owner, or busy loading, closing, resetting: the client looks up and tries again."""

    code = ServerError.ServiceNotReady
    retriable = True


class NotServedHere(ServiceNotReady):
    """Its bundle is not this broker's, or is leaving it; nothing was done."""


class TopicNotFound(BrokerError):
    code = ServerError.TopicNotFound


class TopicIsPartitioned(TopicNotFound):
    """There is no plain topic of this name: while one was being made, a partitioned one came to be."""


class SubscriptionBusy(BrokerError):
    """The subscription's cursor is being moved: one move at a time. On the wire UnknownError, as Pulsar has it."""


class SubscriptionNotFound(BrokerError):
    code = ServerError.SubscriptionNotFound


class ConsumerNotFound(BrokerError):
    code = ServerError.ConsumerNotFound


class TooManyRequests(BrokerError):
    code = ServerError.TooManyRequests
    retriable = True


class TopicTerminated(BrokerError):
    code = ServerError.TopicTerminatedError


class InvalidTopicName(BrokerError):
    code = ServerError.InvalidTopicName


class IncompatibleSchema(BrokerError):
    """The schema is none, or may not follow the topic's; the text says why."""

    code = ServerError.IncompatibleSchema


class NotAllowed(BrokerError):
    """Forbidden by a rule of the protocol or a policy, or not built."""

    code = ServerError.NotAllowedError


def not_served(bundle: object, topic: TopicName, broker: str) -> NotServedHere:
    """The refusal of a topic whose bundle this broker does not own."""
    return NotServedHere(
        f"Namespace bundle ({bundle}) for topic ({topic}) not served by this instance:{broker}. "
        "Please redo the lookup."
    )
