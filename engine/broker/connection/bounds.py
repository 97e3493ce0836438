"""Bounds on the fields of clients' commands, checked when the command is received.

Fields that are stored for the lifetime of a producer, consumer or subscription are bounded in bytes, and numbers that
go into records or answers must fit them. Every refusal names the field, its value or size, and the limit. A bound that
Apache's brokers do not have is refused with NotAllowed: official clients report that at once, whereas they retry after
MetadataError until they time out.
"""

from collections.abc import Sequence

from engine.base.errors import InvalidNameError, PreconditionFailed
from engine.base.names import check_subscription
from engine.broker.errors import MetadataError, NotAllowed, ProducerBusy
from engine.broker.topics.publishers import NAME_BYTES_MAX
from engine.broker.topics.subscriptions.subscriptions import RESERVED_CURSORS
from engine.tenancy.checks import check_properties_size
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import INT64_MAX

METADATA_BYTES_MAX = 1024
"""Bytes of a producer's or consumer's metadata, keys and values together."""


def check_metadata(pairs: Sequence[pb.KeyValue]) -> dict[str, str]:
    """Return producer or consumer metadata. Raises MetadataError above the bound."""
    size = sum(_size(pair.key) + _size(pair.value) for pair in pairs)
    if size > METADATA_BYTES_MAX:
        raise MetadataError(
            f"metadata of {size} bytes: keys and values may have {METADATA_BYTES_MAX} together"
        )
    return {pair.key: pair.value for pair in pairs}


def check_name(field: str, name: str) -> str:
    """Return the producer or consumer name ``name``. Raises NotAllowed above the bound."""
    size = _size(name)
    if size > NAME_BYTES_MAX:
        raise NotAllowed(f"{field} of {size} bytes: at most {NAME_BYTES_MAX}")
    return name


def check_int64(field: str, number: int) -> int:
    """Return ``number``, the value of an unsigned field. Raises NotAllowed when int64 cannot hold it."""
    if number > INT64_MAX:
        raise NotAllowed(f"{field} {number}: at most {INT64_MAX}")
    return number


def check_new_subscription(name: str) -> str:
    """Return ``name`` if a client may create a subscription of it. Raises ProducerBusy for invalid names, as Pulsar
    does."""
    if name.startswith(RESERVED_CURSORS):
        raise ProducerBusy("Subscription with reserved subscription name attempted")
    try:
        return check_subscription(name)
    except InvalidNameError as error:
        raise ProducerBusy(str(error)) from error


def check_subscription_properties(pairs: Sequence[pb.KeyValue]) -> dict[str, str]:
    """Return a subscription's properties. Raises NotAllowed when they exceed the cursor's record."""
    properties = {pair.key: pair.value for pair in pairs}
    try:
        check_properties_size(properties)
    except PreconditionFailed as error:
        raise NotAllowed(f"subscription_properties: {error}") from error
    return properties


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
