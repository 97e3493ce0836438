"""Edits of connectors."""

from tests.mutants.edit import Edit

CAPTURE = "unit/functions/connectors/postgres/test_capture.py"
CHANGES = "engine/functions/connectors/postgres/changes_source.py::ChangesSource"

EDITS: tuple[Edit, ...] = (
    Edit(
        "capture-confirms-changes-that-are-not-stored",
        f"{CHANGES}.commit",
        "while self._ends and self._ends[0][0] <= self._acked.position:",
        "while self._ends:",
        (f"{CAPTURE}::test_the_server_forgets_only_what_is_stored",),
        "F10",
    ),
    Edit(
        "capture-numbers-changes-afresh-at-each-start",
        f"{CHANGES}.open",
        "self._next = self._saved.next_number",
        "self._next = context.clock.wall_ms() << NUMBERS_BITS",
        (f"{CAPTURE}::test_changes_are_numbered_alike_over_kills_of_source_and_server",),
        "F10",
    ),
    Edit(
        "capture-confirms-before-its-position-is-durable",
        f"{CHANGES}.commit",
        "await self._context.put_state(STATE_KEY, saved.encode())",
        "self._link.confirm(self._confirmable)\nawait self._context.put_state(STATE_KEY, saved.encode())",
        (f"{CAPTURE}::test_nothing_is_confirmed_to_the_server_before_the_position_is_durable",),
        "F10",
    ),
    Edit(
        "capture-takes-an-interrupted-snapshot-for-a-whole-one",
        f"{CHANGES}._position",
        "if saved.phase == SNAPSHOT:",
        "if False:",
        (f"{CAPTURE}::test_a_snapshot_that_was_interrupted_begins_anew_under_higher_numbers",),
        "F10",
    ),
)
