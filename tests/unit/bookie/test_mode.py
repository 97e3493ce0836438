"""A bookie's mode reports each change once."""

from bookie.mode import Mode
from engine.base.clock import SystemClock


def test_only_changes_are_reported() -> None:
    mode = Mode(SystemClock())
    changes: list[bool] = []
    mode.on_change(changes.append)
    for read_only in (False, True, True, False):
        mode.set(read_only, "for a test")
        assert mode.read_only is read_only
    assert changes == [True, False]
