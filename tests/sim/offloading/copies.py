"""Comparison of the copies that records name with the bucket, at each change of either (U1 to U4)."""

from collections.abc import Callable

from engine.base.ids import Position
from engine.managed.errors import StoredRecordError
from engine.managed.stored.object_references import NamedObjects
from engine.managed.stored.offloads import Offload, offload_of
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from engine.offload.data_object import HEADER_BYTES, take_entries
from engine.offload.errors import OffloadError
from engine.offload.index_object import decode_index
from engine.offload.object_names import ObjectName, object_name_of
from tests.sim.managed.hosts import entry_of
from tests.sim.managed.record import ManagedRecord
from tests.sim.offloading.object_world import ObjectWorld


class Copies:
    """Watches records and bucket of a run. ``wrong``: the violations."""

    def __init__(self, world: ObjectWorld, record: ManagedRecord, topics: tuple[str, ...]) -> None:
        self.world = world
        self.record = record
        self.wrong: list[str] = []
        self._topics = topics
        self._released: set[tuple[str, int]] = set()
        self._completed: set[ObjectName] = set()
        self.on_complete: Callable[[], None] = lambda: None
        """Callback for each copy that is stored as complete, before the answer to its writer."""
        world.on_delete = self._deleted
        world.cluster.tree.taps.append(self._written)

    def _written(self, path: str, value: bytes | None, conditional: bool) -> None:
        topic = path.removeprefix(f"{paths.MANAGED_LEDGERS}/")
        if not value or topic not in self._topics:
            return
        for span in LogRecord.decode(value).ledgers:
            offload = offload_of(span)
            key = topic, span.ledger_id
            if offload.complete and offload.attempt is not None:
                name = ObjectName(offload.attempt, span.ledger_id)
                if name not in self._completed:
                    self._completed.add(name)
                    self.on_complete()
            if offload.deleted_from_bookies and key not in self._released:
                self._released.add(key)
                self.world.cluster.count("ledgers only in the bucket")
                if not offload.complete:
                    self.wrong.append(f"U1 {key} left the bookies, its copy is not complete")
                self._compare(topic, span.ledger_id, offload)

    def _compare(self, topic: str, ledger_id: int, offload: Offload) -> None:
        """Note a violation unless the copy has the entries that were confirmed."""
        assert offload.attempt is not None
        name = ObjectName(offload.attempt, ledger_id)
        stored = self.record.stored.get(topic, {})
        try:
            entries = self._entries(name)
        except (OffloadError, KeyError) as error:
            self.wrong.append(
                f"U1 {topic}: ledger {ledger_id} left the bookies, its copy: {error!r}"
            )
            return
        for position, entry in stored.items():
            if position.ledger_id == ledger_id and entries.get(position) != entry:
                self.wrong.append(
                    f"U1 {topic}: {position} is {entries.get(position)} in the bucket, not {entry}"
                )

    def _entries(self, name: ObjectName) -> dict[Position, tuple[str, int]]:
        index = decode_index(self.world.objects[name.index_key][0].data)
        data = self.world.objects[name.data_key][0].data
        entries = {}
        for block, end in zip(
            index.blocks, [*(b.offset for b in index.blocks[1:]), index.data_bytes], strict=True
        ):
            taken = take_entries(
                data[: min(end, len(data))], block.offset + HEADER_BYTES, block.first, 1 << 30
            )
            for i, (low, high) in enumerate(zip(taken.spans[::2], taken.spans[1::2], strict=True)):
                position = Position(name.ledger_id, block.first + i)
                entries[position] = entry_of(data[low:high])
        return entries

    def named(self) -> NamedObjects:
        """Return what the records name now."""
        named = NamedObjects()
        for topic in self._topics:
            try:
                value, _ = self.world.cluster.tree.get(paths.managed_ledger(topic))
            except NoNodeError:
                continue
            named.add(LogRecord.decode(value))
        return named

    def _deleted(self, key: str) -> None:
        """Note a violation when an object is deleted that a record has as a complete copy."""
        for topic in self._topics:
            try:
                value, _ = self.world.cluster.tree.get(paths.managed_ledger(topic))
                ledgers = LogRecord.decode(value).ledgers
            except (NoNodeError, StoredRecordError):
                continue
            for span in ledgers:
                offload = offload_of(span)
                if offload.complete and object_name_of(key) == (offload.attempt, span.ledger_id):
                    self.wrong.append(f"U3 {topic}: {key} was deleted, which is a complete copy")

    def left_over(self) -> list[str]:
        """Return the keys that no record names."""
        names = self.named().names
        return [key for key in self.world.objects if object_name_of(key) not in names]
