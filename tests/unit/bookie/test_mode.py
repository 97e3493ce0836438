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


def test_a_request_outlasts_full_disks() -> None:
    mode = Mode(SystemClock())
    changes: list[bool] = []
    mode.on_change(changes.append)
    mode.ask("it is to be drained")
    mode.set(True, "disk full")
    assert (mode.read_only, mode.reason) == (True, "disk full")
    mode.set(False, "there is room")
    assert (mode.read_only, mode.reason) == (True, "it is to be drained")
    mode.ask("")
    assert (mode.read_only, mode.reason) == (False, "")
    assert changes == [True, False]
