"""Whoever acts on a bookie's mode hears of each change, once."""

from bookie.mode import Mode
from engine.base.clock import SystemClock


def test_only_changes_are_told() -> None:
    mode = Mode(SystemClock())
    told: list[bool] = []
    mode.on_change(told.append)
    for read_only in (False, True, True, False):
        mode.set(read_only, "for a test")
        assert mode.read_only is read_only
    assert told == [True, False]
