"""The directions and the extent of each compatibility strategy's checks."""

from engine.tenancy.strategy import Strategy


def test_names_give_the_directions_and_the_extent_of_the_check() -> None:
    asked = {s: (s.new_reads_old, s.old_reads_new, s.transitive) for s in Strategy}
    assert asked[Strategy.BACKWARD] == (True, False, False)
    assert asked[Strategy.FORWARD_TRANSITIVE] == (False, True, True)
    assert asked[Strategy.FULL] == (True, True, False)
    assert asked[Strategy.ALWAYS_INCOMPATIBLE] == (False, False, False)
