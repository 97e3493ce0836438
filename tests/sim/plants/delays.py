"""Mistakes in the delivery of delayed entries."""

from typing import Any

from engine.broker.dispatch.delays.alarm import DeliveryAlarm
from engine.broker.dispatch.delays.delay_keeper import DelayKeeper
from engine.broker.dispatch.delays.delayed import DelayIndex, Run
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_store import CursorStore
from tests.sim.plants.planting import Patches


def full_set_of_delayed_entries_stops_dispatch() -> Patches:
    """Stop delivery when memory has no room for one more delayed entry."""
    return [(DelayIndex, "crowded", property(lambda self: bool(self.runs)))]


def delayed_without_room_are_forgotten() -> Patches:
    """Deliver only those of the stored delayed entries that happen to be in memory."""
    return [(Run, "wants", property(lambda self: False))]


def stored_delays_are_read_again() -> Patches:
    """Read the entries of the stored index as well when a dispatcher starts over, so that they are there twice."""
    return [(Cursor, "set_aside", lambda self, spans: None)]


def stored_delays_are_lost_with_their_owner() -> Patches:
    """Pass over the entries of the stored index when a dispatcher starts over, and do not use the index."""
    real = DelayKeeper._load

    async def load(self: Any, stores: Any) -> None:
        await real(self, stores)
        self._index.clear()

    return [(DelayKeeper, "_load", load)]


def merged_delays_begin_anew() -> Patches:
    """Put entries that were removed from runs while these were merged into the merged run again."""
    return [(Run, "begin_behind", lambda self, over_ms: None)]


def finished_delays_leave_their_ledgers() -> Patches:
    """Keep a ledger of the index that is no longer used."""

    async def write_index(self: Any, state: Any, index: dict[int, int]) -> None:
        async with self._lock:
            fresh = index.keys() - self.index.keys()
            self.index = dict(index)
            self._exchange((), fresh)
            self._spared -= fresh
            await self._refresh(state)

    return [(CursorStore, "write_index", write_index)]


def seconds_are_taken_for_early_enough() -> Patches:
    """Deliver entries that are due within the next two seconds."""
    real = DeliveryAlarm.apply

    def apply(self: Any, policies: Any) -> None:
        real(self, policies)
        self.early_ms += 2000

    return [(DeliveryAlarm, "apply", apply)]
