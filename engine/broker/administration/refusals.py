"""The refusal of an administrative operation for each error of the data path. Pure."""

from engine.base.errors import (
    Conflict,
    Failed,
    MagnetarError,
    NotFound,
    NotReady,
    NotServed,
    PreconditionFailed,
    Refusal,
    Unsupported,
)
from engine.broker.errors import BrokerError, NotServedHere, SubscriptionBusy
from engine.wire.errors import ServerError

_KINDS: dict[int, type[Refusal]] = {
    ServerError.TopicNotFound: NotFound,
    ServerError.SubscriptionNotFound: NotFound,
    ServerError.ConsumerNotFound: NotFound,
    ServerError.TransactionNotFound: NotFound,
    ServerError.InvalidTxnStatus: Conflict,
    ServerError.ConsumerBusy: PreconditionFailed,
    ServerError.ProducerBusy: PreconditionFailed,
    ServerError.InvalidTopicName: PreconditionFailed,
    ServerError.NotAllowedError: Unsupported,
    ServerError.TopicTerminatedError: Unsupported,
    ServerError.ServiceNotReady: NotReady,
    ServerError.TooManyRequests: NotReady,
}


def refusal_of(error: MagnetarError) -> Refusal | None:
    """Return the refusal that an error of the data path is answered with; None for any other error."""
    if isinstance(error, NotServedHere):
        return NotServed(str(error))
    if isinstance(error, SubscriptionBusy):
        return PreconditionFailed(f"Failed for Subscription Busy: {error}")
    if isinstance(error, BrokerError):
        return _KINDS.get(error.code, NotReady if error.retriable else Failed)(str(error))
    return None
