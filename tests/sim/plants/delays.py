"""Mistakes in keeping entries that wait for their time."""

from typing import Any

from engine.broker.dispatch.delays.alarm import DeliveryAlarm
from engine.broker.dispatch.delays.delay_keeper import DelayKeeper
from engine.broker.dispatch.delays.delayed import DelayIndex, Run
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_store import CursorStore
from tests.sim.plants.planting import Patches


def full_set_of_delayed_entries_stops_dispatch() -> Patches:
    """With no room for one more delayed entry in memory nothing is delivered."""
    return [(DelayIndex, "crowded", property(lambda self: bool(self.runs)))]


def delayed_without_room_are_forgotten() -> Patches:
    """Of delayed entries that are stored only those that are in memory by chance are ever delivered."""
    return [(Run, "wants", property(lambda self: False))]


def stored_delays_are_read_again() -> Patches:
    """Who begins anew reads also what waits in the stored index, so that it is there twice."""
    return [(Cursor, "set_aside", lambda self, spans: None)]


def stored_delays_are_lost_with_their_owner() -> Patches:
    """Who begins anew passes over what waits in the stored index and does not use the index."""
    real = DelayKeeper._load

    async def load(self: Any, stores: Any) -> None:
        await real(self, stores)
        self._index.clear()

    return [(DelayKeeper, "_load", load)]


def merged_delays_begin_anew() -> Patches:
    """What was taken out of runs while they were merged is in the merged one again."""
    return [(Run, "begin_behind", lambda self, over_ms: None)]


def finished_delays_leave_their_ledgers() -> Patches:
    """A ledger of the index that is not used any more is not deleted."""

    async def write_index(self: Any, state: Any, index: dict[int, int]) -> None:
        async with self._lock:
            fresh = index.keys() - self.index.keys()
            self.index = dict(index)
            self._exchange((), fresh)
            self._spared -= fresh
            await self._refresh(state)

    return [(CursorStore, "write_index", write_index)]


def seconds_are_taken_for_early_enough() -> Patches:
    """What is due within the next two seconds is delivered."""
    real = DeliveryAlarm.apply

    def apply(self: Any, policies: Any) -> None:
        real(self, policies)
        self.early_ms += 2000

    return [(DeliveryAlarm, "apply", apply)]
