"""Mistakes in the engine's own producers, and in the state that brokers keep of producers."""

from engine.base.errors import MagnetarError
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.publish import Publish
from engine.client.producing.partition_producer import PartitionProducer
from tests.sim.plants.planting import Patches


def newest_is_sent_again_first() -> Patches:
    """Send messages without a receipt when a link is lost again beginning with the last."""
    real = PartitionProducer._ended

    def ended(self: PartitionProducer, error: MagnetarError) -> None:
        self._waiting.rotate(1)
        real(self, error)

    return [(PartitionProducer, "_ended", ended)]


def sent_counts_as_stored() -> Patches:
    """Regard a message in flight as a duplicate when it is sent again, though it may still fail."""
    real = Deduplication._count_pending

    def count_pending(self: Deduplication, publish: Publish, name: str, highest: int) -> None:
        real(self, publish, name, highest)
        self._stored[name] = highest

    return [(Deduplication, "_count_pending", count_pending)]


def entries_behind_the_snapshot_are_not_read() -> Patches:
    """Load a topic with only the messages that were stored up to the snapshot."""

    def remember_entry(self: Deduplication, entry: bytes) -> None:
        pass

    return [(Deduplication, "_remember_entry", remember_entry)]


def producers_come_before_it_is_known_what_is_stored() -> Patches:
    """Attach the first producers of a topic that was just loaded before its stored messages are known."""

    async def ready(self: Deduplication) -> None:
        pass

    return [(Deduplication, "ready", ready)]
