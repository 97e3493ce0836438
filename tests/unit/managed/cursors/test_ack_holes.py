"""Entries before an acknowledged one stay due, however near they are."""

import pytest

from engine.managed.ack_state import AckState


@pytest.mark.parametrize("gap", [1, 2, 5])
def test_an_entry_before_an_acknowledged_one_stays_due(gap: int) -> None:
    state = AckState(10)
    assert state.acknowledge(10 + gap, 20)
    assert state.mark == 10
    assert list(state.pending(0, 30)) == [(10, 10 + gap), (20, 30)]
    assert state.acknowledge(10, 10 + gap)
    assert state.mark == 20
