"""Mistakes of replication between clusters."""

from engine.base.slices import View
from engine.broker.dispatch.source import EntrySource
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.geo.replicator import CURSOR_PREFIX, Replicator
from engine.client.replicating_producer import ReplicatingProducer
from tests.sim.plants.planting import Patches


def passed_when_sent() -> Patches:
    """Pass entries once they are sent to the other cluster, not once it stored them."""
    send = Replicator._send

    async def sending(self: Replicator, producer: ReplicatingProducer, view: View) -> None:
        await send(self, producer, view)
        self._pass_over([view.run.position(i) for i in view.indexes])

    return [(Replicator, "_send", sending)]


def replicator_continues_behind_what_it_sent() -> Patches:
    """Let a new connection continue where the lost one was, instead of at the first entry without a receipt."""
    rewind = EntrySource.rewind

    def rewinding(self: EntrySource) -> None:
        if not self.cursor.name.startswith(CURSOR_PREFIX):
            rewind(self)

    return [(EntrySource, "rewind", rewinding)]


def entries_of_other_clusters_are_stored_again() -> Patches:
    """Forget which entries of another cluster are stored when the topic is loaded."""
    remember = Deduplication._remember_entry

    def remembering(self: Deduplication, entry: bytes) -> None:
        if b"__MSG_PROP_REPL_SOURCE_POSITION" not in entry:
            remember(self, entry)

    return [(Deduplication, "_remember_entry", remembering)]
