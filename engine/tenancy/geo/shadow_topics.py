"""Shadow topics: topics whose entries are those of another one, their source (PIP-180). Pure."""

from collections.abc import Mapping, Sequence

from engine.base.errors import InvalidNameError, PreconditionFailed
from engine.base.names import SHADOW_SOURCE, TopicName
from engine.wire import mledger_pb2 as pb

SHADOWS = "shadowTopics"
"""Policy of a topic: the shadow topics to which its end is stated."""


def source_of(properties: Mapping[str, str]) -> TopicName | None:
    """Return the source that the properties of a topic name; None for a topic that is no shadow.

    Raises PreconditionFailed for a name of no persistent topic.
    """
    text = properties.get(SHADOW_SOURCE)
    return None if text is None else _persistent(text, f"{SHADOW_SOURCE}: {text}")


def _persistent(text: str, what: str) -> TopicName:
    try:
        name = TopicName.parse(text)
    except InvalidNameError as error:
        raise PreconditionFailed(f"{what}: {error}") from error
    if not name.persistent:
        raise PreconditionFailed(f"{what}: only persistent topics have shadow topics")
    return name


def shadow_at(shadow: str, index: int) -> TopicName:
    """Return the shadow topic of a source's partition ``index``, or with -1 that of the whole source."""
    name = TopicName.parse(shadow)
    return name if index < 0 else name.partition_at(index)


def partition_record(properties: Mapping[str, str] | None, index: int) -> bytes:
    """Return what is stored of a new partition: it is the shadow of the source's partition of the same number.

    Nothing for other topics than shadows: the broker that opens the partition first stores its value.
    """
    source = source_of(properties or {})
    if source is None:
        return b""
    record = pb.ManagedLedgerInfo()
    record.properties.add(key=SHADOW_SOURCE, value=source.partition_at(index).full)
    return record.SerializeToString()


def check_unchanged(changes: Mapping[str, str | None]) -> None:
    """Raise PreconditionFailed for a change of the property that makes a topic a shadow: it would have others'
    entries."""
    if SHADOW_SOURCE in changes:
        raise PreconditionFailed(f"{SHADOW_SOURCE} is set when a topic is made and does not change")


def check_names(shadows: Sequence[str]) -> None:
    """Raise PreconditionFailed for a list of shadow topics that no source can have."""
    if not shadows:
        raise PreconditionFailed(
            "Cannot specify empty shadow topics, please use remove command instead."
        )
    for shadow in shadows:
        try:
            name = TopicName.parse(shadow)
        except InvalidNameError as error:
            raise PreconditionFailed(f"Invalid shadow topic name: {shadow}: {error}") from error
        if not name.persistent:
            raise PreconditionFailed("Only persistent topic can be set as shadow topic")
