"""Checks of shadow topics against what is stored."""

from collections.abc import Mapping, Sequence

from engine.base.errors import PreconditionFailed
from engine.base.names import SHADOW_SOURCE, TopicName
from engine.metadata.store import MetadataStore, NoNodeError
from engine.tenancy import topics
from engine.tenancy.geo.shadow_topics import source_of


async def check_source(
    store: MetadataStore, topic: TopicName, properties: Mapping[str, str], partitions: int = 0
) -> None:
    """Check the source of a shadow topic that is to be made, with as many partitions; 0 for a plain topic.

    Raises PreconditionFailed when it is missing, has other partitions, is a shadow itself, or ``topic`` cannot be one.
    """
    source = source_of(properties)
    if source is None:
        return
    if not topic.persistent:
        raise PreconditionFailed("Only persistent topic can be set as shadow topic")
    record, exists = await topics.look_up(store, source)
    present = 0 if record is None else int(record["partitions"])
    if record is None and not exists:
        raise PreconditionFailed(f"Source topic [{source}] not exists.")
    if present != partitions:
        raise PreconditionFailed(
            f"Source topic {source} has {present} partitions, its shadow topic must have as many, not {partitions}"
        )
    part = source.partition_at(0) if present else source
    if await is_shadow(store, part):
        raise PreconditionFailed(f"Source topic {source} is a shadow topic itself")


async def is_shadow(store: MetadataStore, topic: TopicName) -> bool:
    """Return whether a plain topic or partition is stored as a shadow topic."""
    try:
        value, _ = await store.get(topics.ledger_path(topic))
    except NoNodeError:
        return False
    return SHADOW_SOURCE.encode() in value


async def check_exist(store: MetadataStore, shadows: Sequence[str]) -> None:
    """Raise PreconditionFailed for a shadow topic that does not exist."""
    for shadow in shadows:
        record, exists = await topics.look_up(store, TopicName.parse(shadow))
        if record is None and not exists:
            raise PreconditionFailed(f"Shadow topic [{shadow}] not exists.")
