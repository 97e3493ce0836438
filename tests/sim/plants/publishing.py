"""Mistakes in the engine's own producers."""

from engine.base.errors import MagnetarError
from engine.client.producing.partition_producer import PartitionProducer
from tests.sim.plants.planting import Patches


def newest_is_sent_again_first() -> Patches:
    """What has no receipt when a link is lost is sent again beginning with the last."""
    ended = PartitionProducer._ended

    def turned(self: PartitionProducer, error: MagnetarError) -> None:
        self._waiting.rotate(1)
        ended(self, error)

    return [(PartitionProducer, "_ended", turned)]
