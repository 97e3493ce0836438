"""Mistakes in the engine's own producers, and in what brokers remember of producers."""

from engine.base.errors import MagnetarError
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.publish import Publish
from engine.client.producing.partition_producer import PartitionProducer
from tests.sim.plants.planting import Patches


def newest_is_sent_again_first() -> Patches:
    """What has no receipt when a link is lost is sent again beginning with the last."""
    ended = PartitionProducer._ended

    def turned(self: PartitionProducer, error: MagnetarError) -> None:
        self._waiting.rotate(1)
        ended(self, error)

    return [(PartitionProducer, "_ended", turned)]


def sent_counts_as_stored() -> Patches:
    """What is under way is a duplicate when it comes again, though it may fail yet."""
    fly = Deduplication._count_pending

    def flies(self: Deduplication, publish: Publish, name: str, highest: int) -> None:
        fly(self, publish, name, highest)
        self._stored[name] = highest

    return [(Deduplication, "_count_pending", flies)]


def entries_behind_the_snapshot_are_not_read() -> Patches:
    """A topic that is loaded knows what was stored up to the snapshot."""

    def recalls(self: Deduplication, entry: bytes) -> None:
        pass

    return [(Deduplication, "_remember_entry", recalls)]


def producers_come_before_it_is_known_what_is_stored() -> Patches:
    """The first ones of a topic that was just loaded."""

    async def ready(self: Deduplication) -> None:
        pass

    return [(Deduplication, "ready", ready)]
